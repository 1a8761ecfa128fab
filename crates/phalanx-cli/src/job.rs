//! `phalanx train`, `eval` and `export`: jobs that a file describes.

use crate::exit::ExitCode;
use crate::output::{eprint, print};
use phalanx::estimator::{RunConfig, ServingInput};
use phalanx_base::{Code, Error, Result};
use phalanx_cluster::Json;
use phalanx_jobfile::{EXAMPLE, Job, Overrides, TrainedJob, done_json, error_json, evaluation_json, schema};
use phalanx_wal::Durability;
use std::path::PathBuf;

/// Trains and evaluates the job in a file, as the task in TF_CONFIG
#[derive(Debug, clap::Args)]
#[command(after_help = "Create one:          phalanx train --init > job.toml\n\
                        Check it:            phalanx train job.toml --dry-run\n\
                        Train:               phalanx train job.toml --model-dir runs/a\n\
                        Try another value:   phalanx train job.toml --set train.batch_size=64 --json\n\
                        Every key:           docs/job-toml.md")]
pub(crate) struct TrainArgs {
    /// File that describes the job
    #[arg(value_name = "JOB.toml", required_unless_present_any = ["init", "schema"])]
    job: Option<PathBuf>,
    #[command(flatten)]
    overrides: OverrideArgs,
    /// Total number of steps, instead of train.max_steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_steps: Option<u64>,
    /// Random seed, instead of the file's seed
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Run directory, instead of the file's model_dir
    #[arg(long, value_name = "DIR")]
    model_dir: Option<String>,
    /// What happens to updates when a parameter server is killed, instead of train.durability
    #[arg(long, value_name = "TIER", value_parser = phalanx_launch::durability)]
    durability: Option<Durability>,
    /// Value of any key, instead of the file's, as in train.batch_size=64; may be repeated. The run directory gets a suffix of its own unless --model-dir names one
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run one step of everything in a temporary directory and leave nothing behind
    #[arg(long)]
    dry_run: bool,
    /// Print a commented example
    #[arg(long, exclusive = true)]
    init: bool,
    /// Print the JSON Schema of job files, for editors
    #[arg(long, exclusive = true)]
    schema: bool,
    /// Print one line of JSON to standard output at the end
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OverrideArgs {
    /// Directory of the data, instead of the file's data.dir
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<String>,
}

/// Evaluates the newest checkpoint of a job
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: phalanx eval runs/a --json")]
pub(crate) struct EvalArgs {
    /// The model_dir of a job, a model that it exported, or a JOB.toml with a model_dir
    #[arg(value_name = "MODEL_DIR|EXPORT_DIR")]
    model: PathBuf,
    #[command(flatten)]
    overrides: OverrideArgs,
    /// File or pattern to evaluate, instead of the job's
    #[arg(long, value_name = "FILE")]
    input: Option<String>,
    /// Print one JSON object
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
    /// Directory for the new export, which is named by its time in seconds since 1970 [default: MODEL_DIR/export/manual]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Export a model that takes one tensor per feature instead of serialized Examples
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
    finish(args.json, run_train(args))
}

fn run_train(args: &TrainArgs) -> Result<()> {
    let Some(path) = &args.job else {
        return Err(Error::new(Code::Flags, "no job file was given").help("phalanx train JOB.toml"));
    };
    let overrides = Overrides {
        data_dir: args.overrides.data_dir.clone(),
        model_dir: args.model_dir.clone(),
        max_steps: args.max_steps,
        seed: args.seed,
        set: args.set.clone(),
    };
    let job = Job::read(path, overrides)?;
    if args.dry_run {
        let done = job.dry_run()?;
        if args.json {
            let lines = done.iter().map(|line| Json::text(line.as_str())).collect();
            print(&format!("{}\n", Json::object([("dry_run", Json::List(lines))])));
        } else {
            print(&format!("{}\nthe dry run succeeded; nothing was left behind\n", done.join("\n")));
        }
        return Ok(());
    }
    let config = RunConfig::from_env()?;
    let config = args.durability.into_iter().fold(config, RunConfig::durability);
    let done = job.train_as(config)?;
    if args.json {
        print(&format!("{}\n", done_json(&done)));
        return Ok(());
    }
    let rate = done.steps_per_s.map_or_else(String::new, |rate| format!(" ({rate:.0} steps/s)"));
    print(&format!("{}{rate}\n", done.report));
    if !done.model_dir.is_empty() && done.report.evaluation.is_some() {
        eprint(&format!("next: phalanx predict {} --input FILE\n", done.model_dir));
    }
    Ok(())
}

/// The job that produced a model, and where the model is.
pub(crate) fn job_of(model: &PathBuf, overrides: &OverrideArgs) -> Result<(TrainedJob, Job)> {
    let overrides = Overrides { data_dir: overrides.data_dir.clone(), ..Overrides::default() };
    if model.is_file() {
        let job = Job::read(model, overrides)?;
        return Ok((job.trained()?, job));
    }
    let place = TrainedJob::find(model)?;
    let job = place.job(overrides)?;
    Ok((place, job))
}

pub(crate) fn evaluate(args: &EvalArgs) -> ExitCode {
    let run = || {
        let (place, job) = job_of(&args.model, &args.overrides)?;
        let found = job.evaluate(&place, args.input.as_deref())?;
        print(&if args.json { format!("{}\n", evaluation_json(&found)) } else { format!("{found}\n") });
        if let Some(remark) = found.remark() {
            eprint(&format!("{remark}; steps = \"all\" in [eval] evaluates all\n"));
        }
        match found.not_finite().as_slice() {
            [] => Ok(()),
            wrong => Err(Error::new(Code::NotFinite, format!("the evaluation has no finite {}", wrong.join(", ")))
                .at(args.model.display().to_string())
                .because("the model computes NaN or an infinity from these rows, or has such numbers among its weights")
                .help("look at its predictions (phalanx predict) and at the rows; train again from a checkpoint before the numbers went wrong")),
        }
    };
    finish(args.json, run())
}

pub(crate) fn export(args: &ExportArgs) -> ExitCode {
    let run = || {
        let (place, job) = job_of(&args.model, &args.overrides)?;
        let TrainedJob::ModelDir(model_dir) = place else {
            return Err(Error::new(Code::Flags, format!("{} is an export already", args.model.display()))
                .help("pass the model_dir of a job"));
        };
        let base = args.to.clone().unwrap_or_else(|| model_dir.join("export").join("manual"));
        let input = if args.raw { ServingInput::Raw } else { ServingInput::Examples };
        let (folder, checked) = job.export(&model_dir, &base, input)?;
        if !checked {
            eprint(
                "the job's data is missing: the predictions of the export were not compared with the checkpoint's\n",
            );
        }
        let folder = folder.display().to_string();
        let json = Json::object([("export", Json::text(folder.clone())), ("checked", Json::Bool(checked))]);
        print(&if args.json { format!("{json}\n") } else { format!("{folder}\n") });
        Ok(())
    };
    finish(args.json, run())
}

/// Reports an error on standard error, and with `--json` on standard output too.
pub(crate) fn finish(json: bool, result: Result<()>) -> ExitCode {
    if let (true, Err(error)) = (json, &result) {
        print(&format!("{}\n", error_json(error)));
    }
    crate::exit::exit(result)
}
