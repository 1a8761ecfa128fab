//! `phalanx demo`: a job on this machine that trains wide & deep on a synthetic click log, with a dashboard.

use crate::demo_task;
use crate::exit::ExitCode;
use phalanx_base::{Code, Error, Result, TaskId};
use phalanx_dashboard::Dashboard;
use phalanx_launch::{
    JobShape, Launch, Layout, Progress, Report, Rules, Signals, TerminalUi, ThisProgram, durability, kill_at, tailer,
};
use phalanx_run::{RunDir, new_token, now_ms};
use phalanx_wal::Durability;
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Steps of all trainers together
    #[arg(long, default_value_t = 16_000)]
    max_steps: u64,
    /// Directory for checkpoints, events, logs and the exported model [default: a new one in runs/]
    #[arg(long)]
    model_dir: Option<PathBuf>,
    /// Kill a task when the job reaches a step, as in ps/0@500, to test recovery
    #[arg(long, value_name = "TASK@STEP", value_delimiter = ',', value_parser = kill_at)]
    kill: Vec<(TaskId, u64)>,
    /// What happens to updates when a parameter server is killed: those since the newest checkpoint are lost, or none [default: log where there is memory for it]
    #[arg(long, value_name = "TIER", value_parser = durability)]
    durability: Option<Durability>,
    /// Do not serve the dashboard
    #[arg(long, alias = "no-page")]
    no_dashboard: bool,
    /// Print one line of JSON to standard output at the end, and everything else to standard error
    #[arg(long)]
    json: bool,
}

/// Runs the command; the exit code is the job's.
pub(crate) fn run(args: &Args, this: &ThisProgram) -> ExitCode {
    match demo(args, this) {
        Ok(code) => ExitCode::from(code),
        Err(error) => crate::exit::exit(Err(error)),
    }
}

fn demo(args: &Args, this: &ThisProgram) -> Result<u8> {
    let signals = Signals::listen()?;
    let started = now_ms();
    let model_dir = args.model_dir.clone().unwrap_or_else(|| format!("runs/demo-{}", started / 1000).into());
    let model_dir = std::path::absolute(&model_dir).unwrap_or(model_dir);
    let layout = Layout::local(&JobShape { ps: 2, workers: 2, evaluator: true, chief: "chief" })?;
    let tasks: Vec<TaskId> = layout.tasks().iter().map(|placed| placed.task).collect();
    check_kills(args, &tasks)?;
    take_model_dir(&model_dir)?;
    let run = RunDir::at(&model_dir);
    let launch = Launch {
        here: layout.tasks().to_vec(),
        layout,
        program: program(args, &model_dir, this)?,
        this: this.clone(),
        env: vec![(demo_task::STARTED.into(), started.to_string())],
        run,
        model_dir: model_dir.clone(),
        token: Some(new_token()?),
        rules: Rules::default(),
        ssh: None,
        kills: args.kill.clone(),
        durability: args.durability,
    };
    let tailer = tailer(&launch, Progress::Auto, !args.no_dashboard)?;
    let mut ui = TerminalUi::new(Progress::Auto, tailer.clone(), &tasks);
    if args.json {
        // Standard output is for the one line at the end.
        ui.leave_stdout();
    }
    ui.status("Cluster", &format!("{} on this machine", launch.layout.in_words()));
    ui.status("Model", "wide & deep on a synthetic click log: 13 numbers and 26 columns of ids");
    ui.status("Run", &model_dir.display().to_string());
    let dashboard = tailer.clone().filter(|_| !args.no_dashboard);
    let dashboard = dashboard.map(|tailer| Dashboard::start(tailer, ([127, 0, 0, 1], 0).into())).transpose()?;
    if let Some(dashboard) = &dashboard {
        ui.status("Dashboard", dashboard.url());
    }
    let report = launch.run(&signals, tailer.as_ref(), &mut ui)?;
    ui.finish(&report);
    let found = Found::read(&model_dir, &tasks);
    if report.exit_code() == 0 {
        found.print(&mut ui, &model_dir, !args.kill.is_empty());
    }
    if args.json {
        crate::output::print(&format!("{}\n", found.json(&model_dir, &report)));
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
            return Err(Error::new(Code::Flags, format!("--kill {task}@{step} would never take effect"))
                .because(format!("the demo ends at step {most} (--max-steps {most})")));
        }
    }
    Ok(())
}

/// Prepares the directory. A demo continues an earlier demo, but refuses the directory of another job.
fn take_model_dir(dir: &Path) -> Result<()> {
    let refused = |code, what: &str| {
        Error::new(code, format!("{} {what}", dir.display()))
            .help("choose another directory with --model-dir, or omit it to create one in runs/")
    };
    let run = RunDir::at(dir);
    let is_demo = run.read_job()?.is_some_and(|job| job.program.iter().any(|word| word == demo_task::NAME));
    if !is_demo && dir.join("checkpoint").exists() {
        return Err(refused(Code::JobResume, "contains another job").because("its checkpoints are not the demo's"));
    }
    // Checked here, so that the error names the flag.
    let created = run.create();
    // The results of an earlier demo.
    for old in [demo_task::TRAINED, demo_task::EVALUATED] {
        let _none = std::fs::remove_file(dir.join(old));
    }
    created.map_err(|error| refused(Code::StorageWrite, "cannot be written").because(error.why().unwrap_or_default()))
}

fn program(args: &Args, model_dir: &Path, this: &ThisProgram) -> Result<Vec<OsString>> {
    let options =
        [demo_task::NAME.into(), "--max-steps".into(), args.max_steps.to_string().into(), "--model-dir".into()];
    Ok(this.words()?.into_iter().chain(options).chain([model_dir.into()]).collect())
}

/// The results that the tasks have left.
struct Found {
    trained: serde_json::Value,
    evaluated: serde_json::Value,
    export: Option<PathBuf>,
    /// The updates that trainers were told the servers had, and that a server lacks.
    updates_lost: Option<u64>,
}

impl Found {
    fn read(model_dir: &Path, tasks: &[TaskId]) -> Self {
        let read = |name: &str| {
            let text = std::fs::read_to_string(model_dir.join(name)).ok();
            text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
        };
        let exports = std::fs::read_dir(model_dir.join("export").join(demo_task::EXPORT)).ok();
        let export = exports.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).max();
        let updates_lost = RunDir::at(model_dir).status().updates_lost(tasks);
        Self { trained: read(demo_task::TRAINED), evaluated: read(demo_task::EVALUATED), export, updates_lost }
    }

    fn json(&self, model_dir: &Path, report: &Report) -> serde_json::Value {
        let codes = report.tasks.iter().map(|(task, end)| (task.to_string(), json!(end.exit.code())));
        json!({
            "auc": self.evaluated["auc"],
            "best_auc": demo_task::best_auc(),
            "steps_per_s": self.trained["steps_per_s"],
            "first_step_s": self.trained["first_step_s"],
            "updates_lost": self.updates_lost,
            "model_dir": model_dir,
            "export_dir": self.export,
            "exit_codes": codes.collect::<serde_json::Map<_, _>>(),
        })
    }

    fn print(&self, ui: &mut TerminalUi, model_dir: &Path, killed: bool) {
        let trained = match (self.trained["steps_per_s"].as_f64(), self.trained["first_step_s"].as_f64()) {
            (Some(rate), Some(first)) => format!("{rate:.0} steps/s, first step after {first:.1} s"),
            _ => "no further steps: an earlier run had done all of them".to_owned(),
        };
        let auc = self.evaluated["auc"].as_f64().map(|auc| format!("AUC {auc:.4}"));
        let auc = auc.unwrap_or_else(|| "no AUC: the evaluator failed".to_owned());
        ui.status("Learned", &format!("{auc} (best attainable {:.4}), {trained}", demo_task::best_auc()));
        if let Some(lost) = self.updates_lost.filter(|_| killed) {
            ui.status("Lost", &format!("{lost} updates that servers had acknowledged"));
        }
        ui.status("Stored", &format!("checkpoints and event files in {}", model_dir.display()));
        if let Some(export) = &self.export {
            ui.status("Exported", &format!("a SavedModel in {}", export.display()));
        }
        let then = if killed {
            "phalanx launch --ps 1 --workers 2 -- PROGRAM    launches your own program"
        } else {
            "phalanx demo --kill ps/0@500    shows a recovery"
        };
        ui.status("Then", then);
    }
}
