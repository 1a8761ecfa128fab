//! One process of a task, behind its guard.

use crate::Exit;
use crate::clock::now_ms;
use crate::guard::{FEED, GUARD, Order};
use crate::lines::each_line;
use phalanx_base::{Code, Context, Result, TaskId};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a task's output is waited for after its end.
const LAST_LINES: Duration = Duration::from_secs(1);

/// What comes from a process.
#[derive(Debug)]
pub(crate) enum Heard {
    Line { task: TaskId, at_ms: u64, text: String },
    Started { task: TaskId, pid: u32 },
    Ended { task: TaskId, exit: Exit },
}

/// What to run.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) words: Vec<OsString>,
    pub(crate) env: Vec<(String, String)>,
    /// A line for its standard input, which then stays open until the guard goes.
    pub(crate) feed: Option<String>,
}

/// A running guard. Dropping it ends the task.
#[derive(Debug)]
pub(crate) struct Process {
    guard: UnixStream,
}

impl Process {
    /// Starts `program` for `task`; what it says and how it ends goes to `heard`.
    pub(crate) fn spawn(task: TaskId, program: &Program, heard: &SyncSender<Heard>) -> Result<Self> {
        let wrong = || format!("{task} cannot be started");
        let (mut ours, theirs) = UnixStream::pair().context(Code::Internal, wrong())?;
        // The executable itself, even if its file has been replaced since.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("phalanx").arg(GUARD);
        if program.feed.is_some() {
            command.arg(FEED);
        }
        command
            .args(&program.words)
            .envs(program.env.iter().map(|(name, value)| (name, value)))
            // Ctrl-C goes to the launcher alone, which tells the tasks.
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context(Code::Internal, wrong())?;
        drop(command);
        if let Some(line) = &program.feed {
            writeln!(ours, "{line}").context(Code::Internal, wrong())?;
        }
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|stream| Box::new(stream) as _),
            child.stderr.take().map(|stream| Box::new(stream) as _),
        ];
        let readers = streams.into_iter().flatten().map(|stream| read(task, stream, heard.clone()));
        let readers = readers.collect::<Result<Vec<_>>>()?;
        let reports = ours.try_clone().context(Code::Internal, wrong())?;
        let heard = heard.clone();
        let watch = move || watch(task, reports, child, readers, &heard);
        std::thread::Builder::new().name(format!("watch-{task}")).spawn(watch).context(Code::Internal, wrong())?;
        Ok(Self { guard: ours })
    }

    /// Hands an order to the guard; one that has gone needs none.
    pub(crate) fn order(&mut self, order: Order) {
        let _ = self.guard.write_all(&[order.byte()]);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watching thread has the socket too, so that closing ours alone would tell nobody.
        let _ = self.guard.shutdown(std::net::Shutdown::Both);
    }
}

fn read(task: TaskId, stream: Box<dyn Read + Send>, heard: SyncSender<Heard>) -> Result<JoinHandle<()>> {
    let read = move || {
        each_line(stream, |line| {
            // Nobody listens any more: the job is over, and the rest of the output is of no use.
            let _ = heard.send(Heard::Line { task, at_ms: now_ms(), text: line.to_owned() });
        });
    };
    let thread = std::thread::Builder::new().name(format!("read-{task}")).spawn(read);
    thread.context(Code::Internal, format!("the output of {task} cannot be read"))
}

/// Follows a guard to its end. The end is reported after the last line.
fn watch(task: TaskId, reports: UnixStream, mut guard: Child, readers: Vec<JoinHandle<()>>, heard: &SyncSender<Heard>) {
    let (mut pid, mut exit) = (None, None);
    for report in BufReader::new(reports).lines().map_while(Result::ok) {
        match report.split_once(' ') {
            Some(("pid", number)) => {
                pid = number.parse::<u32>().ok();
                let _ = heard.send(Heard::Started { task, pid: pid.unwrap_or(0) });
            }
            Some(("exit", code)) => exit = code.parse().ok().map(Exit::Code),
            Some(("signal", signal)) => exit = signal.parse().ok().map(Exit::Signal),
            Some(("cannot", why)) => exit = Some(Exit::NotStarted(why.to_owned())),
            _ => {}
        }
    }
    let _ = guard.wait();
    if exit.is_none()
        && let Some(group) = pid.and_then(|pid| Pid::from_raw(pid.cast_signed()))
    {
        // The guard itself was killed: the kernel has ended the program, this ends the rest of its group.
        let _ = kill_process_group(group, Signal::KILL);
    }
    // The last lines are worth a moment; a process in the kernel's hands, which holds the pipe and cannot be ended, is not.
    let until = Instant::now() + LAST_LINES;
    while readers.iter().any(|reader| !reader.is_finished()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = heard.send(Heard::Ended { task, exit: exit.unwrap_or(Exit::Signal(9)) });
}
