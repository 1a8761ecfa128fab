//! How long a job of six tasks takes from the command to its first step, what a task needs that only waits, and how large the
//! program is.

use crate::local_job::{LocalJob, die_with_parent, local_cluster};
use crate::model::{Batches, Kind, Net, Sizes};
use crate::stats::{bytes, digits, median};
use crate::{peer_scripts, usage};
use phalanx::prelude::*;
use phalanx::{Code, Error, Result};
use phalanx_base::Context;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the chief prints after its first step.
const FIRST: &str = "first step";
const DEADLINE: Duration = Duration::from_secs(120);

#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Measures so often
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The `phalanx` program, whose demo is measured as well
    #[arg(long)]
    demo: Option<PathBuf>,
    /// A Python interpreter with TensorFlow, to measure beside
    #[arg(long)]
    python: Option<PathBuf>,
}

/// One measurement: seconds to the first step, and the memory that each process has then.
struct Start {
    seconds: f64,
    resident: Vec<u64>,
}

/// Measures and prints.
pub(crate) fn measure(args: &Args) -> Result<()> {
    if args.rounds == 0 {
        return Err(Error::new(Code::BadSetting, "--rounds must be greater than 0"));
    }
    println!("| | first step after, s (all) | memory of a process then: least, most |");
    println!("| --- | --- | --- |");
    row("phalanx, 2 ps + 4 trainers, softmax", args.rounds, ours)?;
    if let Some(demo) = &args.demo {
        row("phalanx demo, chief + 2 workers + 2 ps + evaluator", args.rounds, || demo_start(demo))?;
    }
    if let Some(python) = &args.python {
        row("tensorflow, 2 ps + 3 workers + coordinator, softmax", args.rounds, || tensorflow(python))?;
    }
    let (server, worker) = idle()?;
    println!("\nA task that waits for its job: server {}, worker {}.", bytes(server as f64), bytes(worker as f64));
    let own = std::env::current_exe().context(Code::Internal, "no executable")?;
    println!("The program {}: {}.", name(&own), size(&own)?);
    args.demo.iter().try_for_each(|demo| {
        println!("The program {}: {}.", name(demo), size(demo)?);
        Ok(())
    })
}

fn row(name: &str, rounds: usize, one: impl Fn() -> Result<Start>) -> Result<()> {
    let starts = (0..rounds).map(|_| one()).collect::<Result<Vec<_>>>()?;
    let seconds: Vec<f64> = starts.iter().map(|start| start.seconds).collect();
    let all: Vec<String> = seconds.iter().map(|&second| digits(second)).collect();
    let of = |which: fn(&[u64]) -> Option<&u64>| {
        let each: Vec<f64> =
            starts.iter().filter_map(|start| which(&start.resident)).map(|&bytes| bytes as f64).collect();
        bytes(median(&each))
    };
    let memory = match starts.iter().all(|start| start.resident.is_empty()) {
        true => "-".to_owned(),
        false => format!("{}, {}", of(|all| all.iter().min()), of(|all| all.iter().max())),
    };
    println!("| {name} | {} ({}) | {memory} |", digits(median(&seconds)), all.join(", "));
    Ok(())
}

/// A job of this program.
fn ours() -> Result<Start> {
    let executable = std::env::current_exe().context(Code::Internal, "no executable")?;
    let (first, heard) = channel();
    let lines = Arc::new(move |_: TaskId, line: &str| {
        if line == FIRST {
            // Nobody listens any more when the first was heard.
            let _ = first.send(Instant::now());
        }
    });
    let since = Instant::now();
    let command = |_| {
        let mut command = Command::new(&executable);
        command.arg("start-task");
        command
    };
    let mut job = LocalJob::start(&local_cluster(2, 4)?, command, lines)?;
    let at = heard.recv_timeout(DEADLINE);
    let resident = children();
    let at = at.map_err(|_| Error::new(Code::JobFailed, "the job made no step"))?;
    job.wait(DEADLINE)?;
    Ok(Start { seconds: (at - since).as_secs_f64(), resident })
}

/// What the processes below this one have now.
fn children() -> Vec<u64> {
    let own = std::process::id();
    usage::tree(own).into_iter().filter(|(pid, _)| *pid != own).map(|(_, process)| process.resident_bytes).collect()
}

/// One task: a few steps of the smallest model.
pub(crate) fn task(_: &Args) -> Result<()> {
    die_with_parent()?;
    let server = Server::start_with(task_from_env()?, ServerOptions { threads: 1, ..ServerOptions::from_env()? })?;
    if server.task().role == Role::Ps {
        return server.join();
    }
    let sizes = Sizes::new(Kind::Softmax);
    let train = || {
        let mut batches = Batches::make(&sizes, Kind::Softmax.batch(), 1, 1);
        let supervisor = sizes.supervisor(&server)?;
        let mut session = supervisor.prepare_or_wait_for_session(Net::new(&sizes))?;
        let mut said = false;
        while let Some(step) = batches.step(&mut session)? {
            if server.is_chief() && !said {
                println!("{FIRST}");
                said = true;
            }
            if step.global_step >= 200 && server.is_chief() {
                break;
            }
        }
        supervisor.stop(session)
    };
    with_threads(1, train)
}

/// The demo says itself how long its first step took.
fn demo_start(program: &Path) -> Result<Start> {
    let folder = tempfile::tempdir().context(Code::StorageWrite, "no directory for temporary files")?;
    let mut command = Command::new(program);
    command
        .args(["demo", "--json", "--no-dashboard", "--max-steps", "300", "--model-dir"])
        .arg(folder.path().join("run"));
    let output = command.stdin(Stdio::null()).output().context(Code::Internal, "the demo cannot be started")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().rev().find_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let seconds = line.and_then(|line| line["first_step_s"].as_f64());
    let seconds = seconds.ok_or_else(|| Error::new(Code::JobFailed, "the demo did not say when its first step was"))?;
    Ok(Start { seconds, resident: Vec::new() })
}

/// The same job of TensorFlow's.
fn tensorflow(python: &Path) -> Result<Start> {
    let folder = tempfile::tempdir().context(Code::StorageWrite, "no directory for temporary files")?;
    let script = folder.path().join("peer_tf.py");
    peer_scripts::write(folder.path())?;
    let mut command = Command::new(python);
    command.arg(&script).args(["softmax", "--ps", "2", "--workers", "3", "--first-step"]);
    command.env_remove("TF_CONFIG").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let since = Instant::now();
    let mut child = command.spawn().context(Code::Internal, "the interpreter cannot be started")?;
    let stdout = child.stdout.take();
    let (first, heard) = channel();
    std::thread::spawn(move || {
        let lines = stdout.into_iter().flat_map(|stream| BufReader::new(stream).lines().map_while(Result::ok));
        for _ in lines.filter(|line| line == FIRST) {
            // Nobody listens any more when the first was heard.
            let _ = first.send(Instant::now());
        }
    });
    let at = heard.recv_timeout(DEADLINE);
    let tree = usage::tree(child.id());
    // It ends its tasks itself; only one that hangs is ended here.
    let until = Instant::now() + Duration::from_secs(20);
    while child.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    tree.iter().filter(|(pid, process)| usage::is_alive(**pid, process.started)).for_each(|(&pid, _)| usage::kill(pid));
    let at = at.map_err(|_| Error::new(Code::JobFailed, "TensorFlow's job made no step"))?;
    // Python's own helper processes are not tasks.
    let resident = tree.values().map(|process| process.resident_bytes).filter(|&bytes| bytes > 100 << 20).collect();
    Ok(Start { seconds: (at - since).as_secs_f64(), resident })
}

/// Memory of a server and of a worker whose chief never comes.
fn idle() -> Result<(u64, u64)> {
    let executable = std::env::current_exe().context(Code::Internal, "no executable")?;
    let cluster = local_cluster(1, 2)?;
    let command = |task: TaskId| {
        let mut command = Command::new(&executable);
        match task.role {
            // In its place a process that only waits.
            Role::Chief => command = Command::new("sleep"),
            _ => drop(command.arg("start-task")),
        }
        if task.role == Role::Chief {
            command.arg("60");
        }
        command
    };
    let said = Arc::new(Mutex::new(String::new()));
    let last = Arc::clone(&said);
    let lines = Arc::new(move |_: TaskId, line: &str| {
        line.clone_into(&mut last.lock().unwrap_or_else(PoisonError::into_inner));
    });
    let job = LocalJob::start(&cluster, command, lines)?;
    std::thread::sleep(Duration::from_secs(2));
    let of = |role| {
        let pid = job.pid(TaskId::new(role, 0)).unwrap_or(0);
        let process = usage::tree(pid).remove(&pid).map(|process| process.resident_bytes);
        process.ok_or_else(|| {
            let why = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Error::new(Code::JobFailed, "a task did not wait for its job").because(why)
        })
    };
    Ok((of(Role::Ps)?, of(Role::Worker)?))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The file's size, and without what only a debugger reads.
fn size(path: &Path) -> Result<String> {
    let file = std::fs::read(path).context(Code::Internal, "the program cannot be read")?;
    let whole = bytes(file.len() as f64);
    Ok(match loaded(&file) {
        Some(loaded) => format!("{whole}, of which {} are loaded", bytes(loaded as f64)),
        None => whole,
    })
}

/// Bytes of the segments that are loaded, of a program in the ELF format of 64 bits.
fn loaded(file: &[u8]) -> Option<u64> {
    let number = |at: usize, len: usize| {
        let bytes = file.get(at..at.checked_add(len)?)?;
        Some(bytes.iter().rev().fold(0_u64, |sum, &byte| (sum << 8) | u64::from(byte)))
    };
    if file.get(..5)? != [0x7f, b'E', b'L', b'F', 2] {
        return None;
    }
    let (table, each, count) = (number(32, 8)? as usize, number(54, 2)? as usize, number(56, 2)? as usize);
    let mut sum = 0;
    for at in (0..count).map(|segment| table + segment * each) {
        // Type 1 is loaded; its size in the file stands at 32.
        if number(at, 4)? == 1 {
            sum += number(at + 32, 8)?;
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_segments_that_are_loaded() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let loaded = loaded(&file).unwrap();
        assert!(loaded > 100_000 && loaded <= file.len() as u64);
        assert_eq!(super::loaded(b"no program"), None);
    }
}
