//! `phalanx train`, `eval`, `predict` and `export`: jobs that a file describes.

use phalanx::estimator::ServingInput;
use phalanx_base::{Code, Error, Result};
use phalanx_cluster::Json;
use phalanx_job::{EXAMPLE, Job, Overrides, Place, done_json, error_json, evaluation_json, rows_json, schema};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Trains and evaluates what a file describes, as the task that TF_CONFIG names
#[derive(Debug, clap::Args)]
#[command(after_help = "Begin with one:      phalanx train --init > job.toml\n\
                        Try it:              phalanx train job.toml --dry-run\n\
                        Train:               phalanx train job.toml --model-dir runs/a\n\
                        Every key:           docs/job-toml.md")]
pub(crate) struct TrainArgs {
    /// The description of the job
    #[arg(value_name = "JOB.toml", required_unless_present_any = ["init", "schema"])]
    job: Option<PathBuf>,
    #[command(flatten)]
    overrides: OverrideArgs,
    /// Steps in all, instead of train.max_steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_steps: Option<u64>,
    /// Where everything random begins, instead of the file's seed
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// The run directory, instead of the file's model_dir
    #[arg(long, value_name = "DIR")]
    model_dir: Option<String>,
    /// Do one step of everything, in a temporary folder, and leave nothing behind
    #[arg(long)]
    dry_run: bool,
    /// Print an example with remarks, to begin with
    #[arg(long, exclusive = true)]
    init: bool,
    /// Print the JSON Schema of such files, which editors understand
    #[arg(long, exclusive = true)]
    schema: bool,
    /// End with one line of JSON on the standard output
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct OverrideArgs {
    /// The folder of the data, instead of the file's data.dir
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
}

/// Evaluates the newest checkpoint of a job
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: phalanx eval runs/a --json")]
pub(crate) struct EvalArgs {
    /// The model_dir of a job, a model that it exported, or a JOB.toml that names its model_dir
    #[arg(value_name = "MODEL_DIR|EXPORT_DIR")]
    model: PathBuf,
    #[command(flatten)]
    overrides: OverrideArgs,
    /// Evaluate on this file (or pattern) instead of the job's
    #[arg(long, value_name = "FILE")]
    input: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Predicts every row of a file with a trained job
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: phalanx predict runs/a --input new.csv --json")]
pub(crate) struct PredictArgs {
    /// The model_dir of a job, a model that it exported, or a JOB.toml that names its model_dir
    #[arg(value_name = "MODEL_DIR|EXPORT_DIR")]
    model: PathBuf,
    /// The rows to predict, in the format that the job was trained with; labels may be missing
    #[arg(long, value_name = "FILE")]
    input: String,
    /// Print one JSON object per row, under TensorFlow's names
    #[arg(long)]
    json: bool,
}

/// Exports the newest checkpoint of a job as a SavedModel that TensorFlow loads
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: phalanx export runs/a --to models/a")]
pub(crate) struct ExportArgs {
    /// The model_dir of a job
    #[arg(value_name = "MODEL_DIR")]
    model: PathBuf,
    /// Where the new folder goes, named by the seconds since 1970; MODEL_DIR/export/manual unless given
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// The model takes a tensor for each feature, instead of serialized Examples
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    overrides: OverrideArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn train(args: &TrainArgs) -> ExitCode {
    if args.init {
        print(EXAMPLE);
        return ExitCode::SUCCESS;
    }
    if args.schema {
        print(&format!("{}\n", schema()));
        return ExitCode::SUCCESS;
    }
    ended(args.json, run_train(args))
}

fn run_train(args: &TrainArgs) -> Result<()> {
    let Some(path) = &args.job else {
        return Err(Error::new(Code::Flags, "no job is named").help("phalanx train JOB.toml"));
    };
    let overrides = Overrides {
        data_dir: args.overrides.data_dir.clone(),
        model_dir: args.model_dir.clone(),
        max_steps: args.max_steps,
        seed: args.seed,
    };
    let job = Job::read(path, overrides)?;
    if args.dry_run {
        let done = job.dry_run()?;
        if args.json {
            let lines = done.iter().map(|line| Json::text(line.as_str())).collect();
            print(&format!("{}\n", Json::object([("dry_run", Json::List(lines))])));
        } else {
            print(&format!("{}\nall is well; nothing was left behind\n", done.join("\n")));
        }
        return Ok(());
    }
    let done = job.train(complain)?;
    if args.json {
        print(&format!("{}\n", done_json(&done)));
        return Ok(());
    }
    let rate = done.steps_per_s.map_or_else(String::new, |rate| format!(" ({rate:.0} steps/s)"));
    print(&format!("{}{rate}\n", done.report));
    if !done.model_dir.is_empty() && done.report.evaluation.is_some() {
        complain(&format!("next: phalanx predict {} --input FILE", done.model_dir));
    }
    Ok(())
}

/// The job that made something.
fn job_of(model: &PathBuf, overrides: &OverrideArgs) -> Result<(Place, Job)> {
    let overrides = Overrides { data_dir: overrides.data_dir.clone(), ..Overrides::default() };
    if model.is_file() {
        let job = Job::read(model, overrides)?;
        return Ok((job.place()?, job));
    }
    let place = Place::find(model)?;
    let job = place.job(overrides)?;
    Ok((place, job))
}

pub(crate) fn evaluate(args: &EvalArgs) -> ExitCode {
    let run = || {
        let (place, job) = job_of(&args.model, &args.overrides)?;
        let found = job.evaluate(&place, args.input.as_deref())?;
        print(&if args.json { format!("{}\n", evaluation_json(&found)) } else { format!("{found}\n") });
        Ok(())
    };
    ended(args.json, run())
}

pub(crate) fn predict(args: &PredictArgs) -> ExitCode {
    let run = || {
        let (place, job) = job_of(&args.model, &OverrideArgs { data_dir: None })?;
        job.predict(&place, &args.input, |batch| {
            let mut text = String::new();
            for row in rows_json(batch) {
                text += &if args.json { row.to_string() } else { in_words(&row) };
                text.push('\n');
            }
            if print(&text) { Ok(()) } else { Err(Error::new(Code::Terminated, "nobody reads any more")) }
        })
    };
    match run() {
        // Behind `| head` that is no failure.
        Err(error) if error.code() == Code::Terminated => ExitCode::SUCCESS,
        done => ended(args.json, done),
    }
}

/// A prediction for people: the class and how likely it is, or the numbers.
fn in_words(row: &Json) -> String {
    let Json::Object(entries) = row else { return row.to_string() };
    let list = |name: &str| match entries.iter().find(|(key, _)| key == name) {
        Some((_, Json::List(items))) => items.as_slice(),
        _ => &[],
    };
    let shown = |item: &Json| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
    let all = |items: &[Json]| items.iter().map(shown).collect::<Vec<_>>().join(" ");
    match list("classes") {
        [] => all(list("predictions")),
        classes => format!("{}\tprobabilities {}", all(classes), all(list("probabilities"))),
    }
}

pub(crate) fn export(args: &ExportArgs) -> ExitCode {
    let run = || {
        let (place, job) = job_of(&args.model, &args.overrides)?;
        let Place::ModelDir(model_dir) = place else {
            return Err(Error::new(Code::Flags, format!("{} is an export already", args.model.display()))
                .help("name the model_dir of a job"));
        };
        let base = args.to.clone().unwrap_or_else(|| model_dir.join("export").join("manual"));
        let input = if args.raw { ServingInput::Raw } else { ServingInput::Examples };
        let (folder, checked) = job.export(&model_dir, &base, input)?;
        if !checked {
            complain(
                "the data of the job is not there: the export's predictions were not held against the checkpoint's",
            );
        }
        let folder = folder.display().to_string();
        let json = Json::object([("export", Json::text(folder.clone())), ("checked", Json::Bool(checked))]);
        print(&if args.json { format!("{json}\n") } else { format!("{folder}\n") });
        Ok(())
    };
    ended(args.json, run())
}

/// The end of a command: an error is reported for people, and with `--json` for programs too.
fn ended(json: bool, result: Result<()>) -> ExitCode {
    if let (true, Err(error)) = (json, &result) {
        print(&format!("{}\n", error_json(error)));
    }
    phalanx::exit(result)
}

/// Prints; answers whether anybody reads it.
fn print(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// A line on the standard error.
fn complain(line: &str) {
    let _gone = writeln!(std::io::stderr().lock(), "{line}");
}
