//! `phalanx status`: the tasks of a run, or its variables, in one table.

use crate::exit::ExitCode;
use phalanx_base::{Code, Error, Result};
use phalanx_run::{JobState, PlacedVariable, RunDir, RunState, RunTailer, now_ms};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Shows the tasks of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Run directory [default: the newest one in runs/]
    dir: Option<PathBuf>,
    /// Show where the shards of every variable and table lie, instead of the tasks
    #[arg(long)]
    variables: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print the table every second until the run ends
    #[arg(long)]
    watch: bool,
}

/// Runs the command.
pub(crate) fn run(args: &StatusArgs) -> ExitCode {
    crate::output::finish(show(args))
}

fn show(args: &StatusArgs) -> Result<()> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => newest().ok_or_else(|| {
            Error::new(Code::DataMissing, "there is no run in runs/").help("pass a run directory: phalanx status DIR")
        })?,
    };
    let run = RunDir::at(&dir);
    if !run.events_file().exists() {
        return Err(Error::new(Code::DataMissing, format!("{} is not a run directory", dir.display()))
            .because("it has no logs/events.jsonl, which a launcher writes"));
    }
    let mut tailer = RunTailer::new(&run, false);
    tailer.poll();
    if !args.variables {
        // CPU usage needs two measurements.
        std::thread::sleep(Duration::from_millis(1100));
    }
    loop {
        tailer.poll();
        let state = tailer.state();
        if let Some(problem) = &state.problem {
            return Err(problem.clone());
        }
        let name = dir.display().to_string();
        crate::output::print(&match (args.variables, args.json) {
            (true, true) => format!("{}\n", json!({ "variables": state.variables() })),
            (true, false) => variables(&state.variables(), &name),
            (false, true) => format!("{}\n", state.to_json()),
            (false, false) => table(state, &name),
        });
        if !args.watch || state.state != JobState::Running {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The run that was written most recently.
fn newest() -> Option<PathBuf> {
    let runs = std::fs::read_dir("runs").ok()?.flatten().map(|entry| entry.path());
    let dated = runs.filter_map(|path| {
        let at = std::fs::metadata(RunDir::at(&path).events_file()).and_then(|about| about.modified()).ok()?;
        Some((at, path))
    });
    dated.max().map(|(_, path)| path)
}

/// One line for every shard.
fn variables(all: &[PlacedVariable], dir: &str) -> String {
    if all.is_empty() {
        return format!("{dir}: no task has recorded where its variables lie\n");
    }
    let heads = ["name", "kind", "shape", "type", "held by", "shard", "rows", "bytes"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for variable in all {
        let extents: Vec<String> = variable.shape.iter().map(u64::to_string).collect();
        // How many rows a table has, no task knows alone.
        let before = if variable.table { "?, " } else { "" };
        let what = if variable.is_mirrored() { "copy " } else { "" };
        for (at, shard) in variable.shards.iter().enumerate() {
            rows.push(vec![
                variable.name.clone(),
                if variable.table { "table" } else { "variable" }.to_owned(),
                format!("[{before}{}]", extents.join(", ")),
                variable.dtype.clone(),
                shard.task.to_string(),
                format!("{what}{} of {}", at + 1, variable.shards.len()),
                match (shard.rows, shard.count) {
                    (Some((from, to)), _) => format!("{from}..{to}"),
                    (None, Some(count)) => format!("by id, {count} now"),
                    (None, None) => "by id".to_owned(),
                },
                shard.bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string()),
            ]);
        }
    }
    let bytes: u64 = all.iter().flat_map(|variable| &variable.shards).filter_map(|shard| shard.bytes).sum();
    let head = format!("{dir}: {} variables and tables, {} shards, {bytes} bytes\n", all.len(), rows.len() - 1);
    head + &crate::output::table(&rows)
}

fn table(state: &RunState, dir: &str) -> String {
    let words = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let mut head = format!("{dir}: {}", state.state.as_str());
    for (label, value) in [
        ("step", state.step().map(|step| step.to_string())),
        ("steps/s", state.rate().map(|rate| format!("{rate:.1}"))),
        ("loss", state.loss().map(|loss| format!("{loss:.4}"))),
    ] {
        if let Some(value) = value {
            head += &format!(", {label} {value}");
        }
    }
    let mut rows = vec![
        ["task", "state", "pid", "attempt", "for", "steps/s", "lag", "cpu", "memory", "last end"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let until = state.ended_ms.unwrap_or_else(now_ms);
    for task in &state.tasks {
        let seconds = until.saturating_sub(task.since_ms) / 1000;
        rows.push(vec![
            task.task.to_string(),
            task.state.as_str().to_owned(),
            words(task.pid.map(|pid| pid.to_string())),
            task.attempt.to_string(),
            if task.since_ms == 0 { "-".to_owned() } else { format!("{}:{:02}", seconds / 60, seconds % 60) },
            words(task.status.as_ref().and_then(|status| status.steps_per_s).map(|rate| format!("{rate:.1}"))),
            words(task.status.as_ref().and_then(|status| status.lag).map(|lag| lag.to_string())),
            words(task.cpu.map(|cpu| format!("{:.0} %", cpu * 100.0))),
            words(task.memory.map(|bytes| format!("{} MiB", bytes >> 20))),
            if task.last_error.is_empty() { "-".to_owned() } else { task.last_error.clone() },
        ]);
    }
    head + "\n" + &crate::output::table(&rows)
}
