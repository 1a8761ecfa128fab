//! `phalanx status`: a run's tasks in one table.

use phalanx_base::{Code, Error, Result};
use phalanx_launch::{Board, Follower, RunDir, now_ms};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Shows the tasks of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// The run directory [default: the newest below runs/]
    dir: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print it again every second until the run ends
    #[arg(long)]
    watch: bool,
}

/// Runs the command.
pub(crate) fn run(args: &StatusArgs) -> ExitCode {
    finish(show(args))
}

fn show(args: &StatusArgs) -> Result<()> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => newest().ok_or_else(|| {
            Error::new(Code::DataMissing, "there is no run below runs/")
                .help("name a run directory: phalanx status DIR")
        })?,
    };
    let run = RunDir::at(&dir);
    if !run.events_file().exists() {
        return Err(Error::new(Code::DataMissing, format!("{} is not a run directory", dir.display()))
            .because("it has no logs/events.jsonl, which a launcher writes"));
    }
    let mut follower = Follower::new(&run, false);
    follower.poll();
    // Processor shares need two looks.
    std::thread::sleep(Duration::from_millis(1100));
    loop {
        follower.poll();
        let board = follower.board();
        print(&if args.json { format!("{}\n", board.to_json()) } else { table(board, &dir.display().to_string()) });
        if !args.watch || board.state != phalanx_launch::JobState::Running {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The run that a launcher wrote to last.
fn newest() -> Option<PathBuf> {
    let runs = std::fs::read_dir("runs").ok()?.flatten().map(|entry| entry.path());
    let dated = runs.filter_map(|path| {
        let at = std::fs::metadata(RunDir::at(&path).events_file()).and_then(|about| about.modified()).ok()?;
        Some((at, path))
    });
    dated.max().map(|(_, path)| path)
}

fn table(board: &Board, dir: &str) -> String {
    let words = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let mut head = format!("{dir}: {}", board.state.as_str());
    for (label, value) in [
        ("step", board.step().map(|step| step.to_string())),
        ("steps/s", board.rate().map(|rate| format!("{rate:.1}"))),
        ("loss", board.loss().map(|loss| format!("{loss:.4}"))),
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
    let until = board.ended_ms.unwrap_or_else(now_ms);
    for task in &board.tasks {
        let seconds = until.saturating_sub(task.since_ms) / 1000;
        rows.push(vec![
            task.task.clone(),
            task.state.as_str().to_owned(),
            words(task.pid.map(|pid| pid.to_string())),
            task.attempt.to_string(),
            if task.since_ms == 0 { "-".to_owned() } else { format!("{}:{:02}", seconds / 60, seconds % 60) },
            words(task.status["steps_per_s"].as_f64().map(|rate| format!("{rate:.1}"))),
            words(task.status["lag"].as_u64().map(|lag| lag.to_string())),
            words(task.cpu.map(|cpu| format!("{:.0} %", cpu * 100.0))),
            words(task.memory.map(|bytes| format!("{} MiB", bytes >> 20))),
            if task.last_error.is_empty() { "-".to_owned() } else { task.last_error.clone() },
        ]);
    }
    let mut text = head + "\n";
    let widths: Vec<usize> =
        (0..rows[0].len()).map(|c| rows.iter().map(|row| row[c].chars().count()).max().unwrap_or(0)).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// The end of a command that prints and returns.
pub(crate) fn finish(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _gone = std::io::stderr().lock().write_all(error.report().as_bytes());
            ExitCode::from(error.exit_code())
        }
    }
}

/// Prints; a reader that has gone away, as behind `| head`, is no reason to fail.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _gone = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
