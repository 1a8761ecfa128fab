//! `phalanx demo`: a whole job on this machine, on clicks made here: wide & deep, with a page to watch it.

use crate::demo_task;
use phalanx_base::{Code, Error, Result, TaskId};
use phalanx_launch::{Launch, Layout, Progress, Report, Rules, RunDir, Screen, Shape, Signals, kill_at, new_token};
use phalanx_page::Page;
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Steps of all trainers together
    #[arg(long, default_value_t = 16_000)]
    max_steps: u64,
    /// Where checkpoints, events, logs and the exported model go; a new folder under runs/ unless given
    #[arg(long)]
    model_dir: Option<PathBuf>,
    /// Kill a task when the job reaches a step, as ps/0@500, to see what happens then
    #[arg(long, value_name = "TASK@STEP", value_delimiter = ',', value_parser = kill_at)]
    kill: Vec<(TaskId, u64)>,
    /// No web page
    #[arg(long)]
    no_page: bool,
    /// One line of JSON on standard output at the end; everything else goes to standard error
    #[arg(long)]
    json: bool,
}

/// Runs the command; the exit code is the job's.
pub(crate) fn run(args: &Args) -> ExitCode {
    match demo(args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => phalanx::exit(Err(error)),
    }
}

fn demo(args: &Args) -> Result<u8> {
    let signals = Signals::listen()?;
    let started = millis();
    let model_dir = args.model_dir.clone().unwrap_or_else(|| format!("runs/demo-{}", started / 1000).into());
    let model_dir = std::path::absolute(&model_dir).unwrap_or(model_dir);
    let layout = Layout::local(&Shape { ps: 2, workers: 2, evaluator: true, chief: "chief" })?;
    let tasks: Vec<TaskId> = layout.tasks().iter().map(|placed| placed.task).collect();
    check_kills(args, &tasks)?;
    take_model_dir(&model_dir)?;
    let run = RunDir::at(&model_dir);
    let mut screen = Screen::new(Progress::Auto, &run, &tasks);
    if args.json {
        // Standard output is for the one line at the end.
        screen.leave_stdout();
    }
    screen.say("Cluster", &format!("{} on this machine", layout.in_words()));
    screen.say("Model", "wide & deep on a click log made here: 13 numbers and 26 columns of ids");
    screen.say("Run", &model_dir.display().to_string());
    let page = if args.no_page { None } else { Some(Page::start(&run, ([127, 0, 0, 1], 0).into())?) };
    if let Some(page) = &page {
        screen.say("Dashboard", page.url());
    }
    screen.kill_at(&args.kill);
    let launch = Launch {
        here: layout.tasks().to_vec(),
        layout,
        program: program(args, &model_dir)?,
        env: vec![(demo_task::STARTED.into(), started.to_string())],
        run,
        model_dir: model_dir.clone(),
        token: Some(new_token()?),
        rules: Rules::default(),
        ssh: None,
    };
    let report = launch.run(&signals, &mut screen)?;
    screen.finish(&report);
    let found = Found::read(&model_dir);
    if report.exit_code() == 0 {
        found.tell(&mut screen, &model_dir, !args.kill.is_empty());
    }
    if args.json {
        crate::status::print(&format!("{}\n", found.json(&model_dir, &report)));
    }
    Ok(report.exit_code())
}

fn check_kills(args: &Args, tasks: &[TaskId]) -> Result<()> {
    for (task, step) in &args.kill {
        if !tasks.contains(task) {
            let names: Vec<String> = tasks.iter().map(TaskId::to_string).collect();
            return Err(Error::new(Code::NoSuchTask, format!("--kill names {task}, which the demo does not have"))
                .help(format!("it has {}", names.join(", "))));
        }
        if *step >= args.max_steps {
            let most = args.max_steps;
            return Err(Error::new(Code::Flags, format!("--kill {task}@{step} would never happen"))
                .because(format!("the demo ends at step {most} (--max-steps {most})")));
        }
    }
    Ok(())
}

/// A demo goes on where one of its own stopped, and leaves the runs of others alone.
fn take_model_dir(dir: &Path) -> Result<()> {
    let wrong = |code, what: &str| {
        Error::new(code, format!("{} {what}", dir.display()))
            .help("choose another with --model-dir, or leave it out for a new folder under runs/")
    };
    let run = RunDir::at(dir);
    let job = std::fs::read_to_string(run.job_file()).unwrap_or_default();
    let job: serde_json::Value = serde_json::from_str(&job).unwrap_or_default();
    if job["program"][1] != demo_task::NAME && dir.join("checkpoint").exists() {
        return Err(wrong(Code::JobResume, "holds another job").because("it has checkpoints that no demo wrote"));
    }
    // Found out here, with the flag's name, and not by six tasks.
    let made = run.create();
    // What an earlier demo found is not what this one finds.
    for old in [demo_task::TRAINED, demo_task::EVALUATED] {
        let _none = std::fs::remove_file(dir.join(old));
    }
    made.map_err(|error| wrong(Code::StorageWrite, "cannot be written").because(error.why().unwrap_or_default()))
}

fn program(args: &Args, model_dir: &Path) -> Result<Vec<OsString>> {
    let executable =
        std::env::current_exe().map_err(|error| Error::new(Code::Internal, "no executable").because(error))?;
    let options =
        [demo_task::NAME.into(), "--max-steps".into(), args.max_steps.to_string().into(), "--model-dir".into()];
    Ok(std::iter::once(executable.into()).chain(options).chain([model_dir.into()]).collect())
}

/// Milliseconds since 1970.
pub(crate) fn millis() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// What the tasks have left.
struct Found {
    trained: serde_json::Value,
    evaluated: serde_json::Value,
    export: Option<PathBuf>,
}

impl Found {
    fn read(model_dir: &Path) -> Self {
        let read = |name: &str| {
            let text = std::fs::read_to_string(model_dir.join(name)).ok();
            text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
        };
        let exports = std::fs::read_dir(model_dir.join("export").join(demo_task::EXPORT)).ok();
        let export = exports.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).max();
        Self { trained: read(demo_task::TRAINED), evaluated: read(demo_task::EVALUATED), export }
    }

    fn json(&self, model_dir: &Path, report: &Report) -> serde_json::Value {
        let codes = report.tasks.iter().map(|(task, end)| (task.to_string(), json!(end.exit.code())));
        json!({
            "auc": self.evaluated["auc"],
            "best_auc": demo_task::best_auc(),
            "steps_per_s": self.trained["steps_per_s"],
            "first_step_s": self.trained["first_step_s"],
            "model_dir": model_dir,
            "export_dir": self.export,
            "exit_codes": codes.collect::<serde_json::Map<_, _>>(),
        })
    }

    fn tell(&self, screen: &mut Screen, model_dir: &Path, killed: bool) {
        let trained = match (self.trained["steps_per_s"].as_f64(), self.trained["first_step_s"].as_f64()) {
            (Some(rate), Some(first)) => format!("{rate:.0} steps/s, first step after {first:.1} s"),
            _ => "no step more: all were made before".to_owned(),
        };
        let auc = self.evaluated["auc"].as_f64().map(|auc| format!("AUC {auc:.4}"));
        let auc = auc.unwrap_or_else(|| "an AUC that nobody measured: the evaluator failed".to_owned());
        screen.say("Learned", &format!("{auc} (best attainable {:.4}), {trained}", demo_task::best_auc()));
        screen.say("Stored", &format!("checkpoints and event files in {}", model_dir.display()));
        if let Some(export) = &self.export {
            screen.say("Exported", &format!("a SavedModel in {}", export.display()));
        }
        let then = if killed {
            "phalanx launch --ps 1 --workers 2 -- PROGRAM    the same for a program of yours"
        } else {
            "phalanx demo --kill ps/0@500    a recovery to watch"
        };
        screen.say("Then", then);
    }
}
