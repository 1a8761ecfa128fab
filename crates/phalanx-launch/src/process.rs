//! The process of a task, and the guard between it and the launcher.

use crate::guard::{FEED, Order, is_alive};
use crate::lines::each_line;
use crate::participation::Participation;
use crate::{Exit, ThisProgram};
use phalanx_base::{Code, Context, Result, TaskId};
use phalanx_run::{ProcessUsage, now_ms};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long to wait for a task's output after its exit.
const LAST_LINES: Duration = Duration::from_secs(1);
/// How long a killed task, and then its guard, may take to exit.
pub(crate) const KILLED: Duration = Duration::from_secs(5);

/// An event of a process.
#[derive(Debug)]
pub(crate) enum ProcessEvent {
    Line {
        task: TaskId,
        at_ms: u64,
        text: String,
    },
    Started {
        task: TaskId,
        pid: u32,
    },
    /// What it used; nothing if its guard was killed.
    Used {
        task: TaskId,
        usage: ProcessUsage,
    },
    Exited {
        task: TaskId,
        attempt: u32,
        exit: Exit,
        participation: Participation,
    },
}

/// A program to run.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) words: Vec<OsString>,
    pub(crate) env: Vec<(String, String)>,
    /// A line for its standard input, which then stays open until the guard exits.
    pub(crate) feed: Option<String>,
}

/// A running guard. Dropping it kills the task.
#[derive(Debug)]
pub(crate) struct Process {
    socket: Arc<UnixStream>,
    guard: Arc<Mutex<Child>>,
    /// The program itself, once it has started.
    pub(crate) pid: Option<u32>,
    killed: Option<Instant>,
    guard_killed: Option<Instant>,
}

/// A killed task that has not exited in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// Its guard, this process, must be killed.
    Guard(u32),
    /// Its guard, this process, does not exit either; the task is given up.
    Lost(u32),
}

impl Process {
    /// Starts `program` for one attempt of a task, under a guard that is a process of `this`, and sends its events to `events`. `participation` is called after its exit.
    pub(crate) fn spawn(
        (task, attempt): (TaskId, u32),
        (program, this): (&Program, &ThisProgram),
        events: &SyncSender<ProcessEvent>,
        participation: impl FnOnce() -> Participation + Send + 'static,
    ) -> Result<Self> {
        let wrong = || format!("{task} cannot be started");
        let (ours, theirs) = UnixStream::pair().context(Code::Internal, wrong())?;
        let mut command = this.guard();
        if program.feed.is_some() {
            command.arg(FEED);
        }
        command
            .args(&program.words)
            .envs(program.env.iter().map(|(name, value)| (name, value)))
            // Ctrl-C reaches the launcher alone, which then stops the tasks.
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context(Code::Internal, wrong())?;
        drop(command);
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|stream| Box::new(stream) as _),
            child.stderr.take().map(|stream| Box::new(stream) as _),
        ];
        let (socket, guard) = (Arc::new(ours), Arc::new(Mutex::new(child)));
        // From here on, dropping it kills what was started.
        let process = Self { socket, guard, pid: None, killed: None, guard_killed: None };
        if let Some(line) = &program.feed {
            writeln!(&*process.socket, "{line}").context(Code::Internal, wrong())?;
        }
        let readers = streams.into_iter().flatten().map(|stream| read(task, stream, events.clone()));
        let readers = readers.collect::<Result<Vec<_>>>()?;
        let (events, socket, guard) = (events.clone(), Arc::clone(&process.socket), Arc::clone(&process.guard));
        let watch = move || {
            let exit = watch(task, &socket, &guard, &readers, &events);
            let participation = participation();
            let _ = events.send(ProcessEvent::Exited { task, attempt, exit, participation });
        };
        std::thread::Builder::new().name(format!("watch-{task}")).spawn(watch).context(Code::Internal, wrong())?;
        Ok(process)
    }

    /// Sends an order to the guard, if it still exists.
    pub(crate) fn order(&mut self, order: Order, now: Instant) {
        if order == Order::Kill {
            self.killed.get_or_insert(now);
        }
        let _ = (&*self.socket).write_all(&[order.byte()]);
    }

    /// Returns what is overdue, each case once.
    pub(crate) fn overdue(&mut self, now: Instant) -> Option<Overdue> {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner).id();
        match (self.killed, self.guard_killed) {
            (Some(at), None) if at + KILLED <= now => {
                self.guard_killed = Some(now);
                Some(Overdue::Guard(guard))
            }
            (_, Some(at)) if at + KILLED <= now => {
                self.guard_killed = Some(now);
                Some(Overdue::Lost(guard))
            }
            _ => None,
        }
    }

    /// Kills the guard; the kernel kills the program with it.
    pub(crate) fn kill_guard(&self) {
        let _ = self.guard.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watching thread holds the socket too, so closing this end alone would have no effect.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

fn read(task: TaskId, stream: Box<dyn Read + Send>, events: SyncSender<ProcessEvent>) -> Result<JoinHandle<()>> {
    let read = move || {
        each_line(stream, |line| {
            // If the channel is closed, the job is over.
            let _ = events.send(ProcessEvent::Line { task, at_ms: now_ms(), text: line.to_owned() });
        });
    };
    let thread = std::thread::Builder::new().name(format!("read-{task}")).spawn(read);
    thread.context(Code::Internal, format!("the output of {task} cannot be read"))
}

/// Follows a guard until it exits. The exit is reported after the last line.
fn watch(
    task: TaskId,
    reports: &UnixStream,
    guard: &Mutex<Child>,
    readers: &[JoinHandle<()>],
    events: &SyncSender<ProcessEvent>,
) -> Exit {
    let (mut pid, mut exit) = (None, None);
    for report in BufReader::new(reports).lines().map_while(Result::ok) {
        match report.split_once(' ') {
            Some(("pid", number)) => {
                pid = number.parse::<u32>().ok();
                let _ = events.send(ProcessEvent::Started { task, pid: pid.unwrap_or(0) });
            }
            Some(("used", numbers)) => {
                if let Some(usage) = usage(numbers) {
                    let _ = events.send(ProcessEvent::Used { task, usage });
                }
            }
            Some(("exit", code)) => exit = code.parse().ok().map(Exit::Code),
            Some(("signal", signal)) => exit = signal.parse().ok().map(Exit::Signal),
            Some(("stuck", pid)) => exit = pid.parse().ok().map(Exit::Stuck),
            Some(("cannot", why)) => exit = Some(Exit::NotStarted(why.to_owned())),
            Some(("later", why)) => exit = Some(Exit::NoResources(why.to_owned())),
            _ => {}
        }
    }
    // It has closed its end of the socket, so it is about to exit.
    until(KILLED, || !matches!(guard.lock().unwrap_or_else(PoisonError::into_inner).try_wait(), Ok(None)));
    let exit = exit.unwrap_or_else(|| guard_was_killed(pid));
    // Bounded, because a process that is stuck in the kernel may hold the pipe.
    until(LAST_LINES, || readers.iter().all(JoinHandle::is_finished));
    exit
}

/// Parses the CPU time in microseconds and the peak memory in bytes.
fn usage(numbers: &str) -> Option<ProcessUsage> {
    let (cpu, peak) = numbers.split_once(' ')?;
    Some(ProcessUsage { cpu: Duration::from_micros(cpu.parse().ok()?), peak_bytes: peak.parse().ok()? })
}

/// The exit of a task whose guard was killed. The kernel killed the program with it; this kills the rest of its group.
fn guard_was_killed(pid: Option<u32>) -> Exit {
    let group = pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let (Some(pid), Some(group)) = (pid, group) else { return Exit::Signal(9) };
    let _ = kill_process_group(group, Signal::KILL);
    if until(LAST_LINES, || !is_alive(pid)) { Exit::Signal(9) } else { Exit::Stuck(pid) }
}

/// Waits until `condition` holds, at most for `longest`, and returns whether it does.
fn until(longest: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let last = Instant::now() + longest;
    loop {
        match condition() {
            true => return true,
            false if Instant::now() > last => return false,
            false => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn after_a_killed_task_its_guard_is_killed_and_then_the_task_is_given_up() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let guard = Command::new("sleep").arg("60").spawn().expect("sleep runs");
        let pid = guard.id();
        let guard = Arc::new(Mutex::new(guard));
        let mut process =
            Process { socket: Arc::new(ours), guard: Arc::clone(&guard), pid: None, killed: None, guard_killed: None };
        let now = Instant::now();
        process.order(Order::Terminate, now);
        assert_eq!(process.overdue(now + 100 * KILLED), None, "a stop was requested, not a kill");
        process.order(Order::Kill, now);
        process.order(Order::Kill, now + KILLED / 2);
        assert_eq!(process.overdue(now + KILLED / 2), None);
        assert_eq!(process.overdue(now + KILLED), Some(Overdue::Guard(pid)));
        assert_eq!(process.overdue(now + KILLED), None, "returned once");
        assert_eq!(process.overdue(now + 2 * KILLED), Some(Overdue::Lost(pid)));
        process.kill_guard();
        assert!(until(KILLED, || !matches!(guard.lock().unwrap().try_wait(), Ok(None))));
    }
}
