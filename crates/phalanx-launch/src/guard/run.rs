//! The guard process: starts one program, watches it and the launcher, and leaves no process behind.

use super::{descendants, usage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process_group, pidfd_open,
    set_child_subreaper, set_parent_process_death_signal, wait,
};
use std::ffi::OsString;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often orphaned children are reaped even if nothing else happens.
const ROUND: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// How long a killed program and then its descendants may take to exit. The launcher waits longer than both.
const KILLED: Duration = Duration::from_secs(2);
const DESCENDANTS: Duration = Duration::from_secs(3);
const BESIDE_A_STUCK_ONE: Duration = Duration::from_secs(1);

pub(super) fn guard(program: &[OsString], feed: bool) -> u8 {
    match run(program, feed) {
        Ok(()) => 0,
        // Only someone who started a guard by hand sees this.
        Err(error) => {
            eprintln!("phalanx guard: {error}");
            2
        }
    }
}

fn run(program: &[OsString], feed: bool) -> Result<()> {
    let mut launcher = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    set_child_subreaper(Some(getpid()))?;
    let first_line = if feed { Some(read_line(&mut launcher)?) } else { None };
    let mut child = match spawn(program, feed) {
        Ok(child) => child,
        Err(error) if is_temporary(&error) => return writeln!(launcher, "later {error}"),
        Err(error) => return writeln!(launcher, "cannot {error}"),
    };
    // Held until the end: the program's standard input closes when this guard exits.
    let mut held = child.stdin.take();
    if let (Some(stdin), Some(line)) = (held.as_mut(), first_line) {
        stdin.write_all(&line)?;
    }
    let pid = Pid::from_raw(child.id().cast_signed()).ok_or_else(|| Error::other("a child without an id"))?;
    // If the launcher is gone, `watch` notices.
    let _ = writeln!(launcher, "pid {}", child.id());
    let Some(status) = watch(&mut launcher, &pidfd_open(pid, PidfdFlags::empty())?, pid)? else {
        descendants::kill_all(BESIDE_A_STUCK_ONE);
        let _ = writeln!(launcher, "stuck {}", child.id());
        return Ok(());
    };
    descendants::kill_all(DESCENDANTS);
    let used = usage::of_children();
    let _ = writeln!(launcher, "used {} {}", used.cpu.as_micros(), used.peak_bytes);
    let _ = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => writeln!(launcher, "exit {code}"),
        (None, signal) => writeln!(launcher, "signal {}", signal.unwrap_or(9)),
    };
    Ok(())
}

/// Reads a line byte by byte, because orders follow it.
fn read_line(launcher: &mut UnixStream) -> Result<Vec<u8>> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') && line.len() < 1 << 16 {
        let mut byte = [0];
        launcher.read_exact(&mut byte)?;
        line.extend(byte);
    }
    Ok(line)
}

#[allow(unsafe_code)]
fn spawn(program: &[OsString], feed: bool) -> Result<Child> {
    let [name, args @ ..] = program else { return Err(Error::other("no program was named")) };
    let guard = getpid();
    let mut command = Command::new(name);
    command.args(args).process_group(0).stdin(if feed { Stdio::piped() } else { Stdio::null() });
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The guard may have died before the line above.
        if getppid() == Some(guard) { Ok(()) } else { Err(ErrorKind::NotConnected.into()) }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. The closure makes two system calls and a comparison, and its
    // error is a plain value: it allocates nothing and takes no lock.
    unsafe { command.pre_exec(tie) };
    command.spawn()
}

/// Whether a program could not be started for lack of a resource that may become available.
fn is_temporary(error: &Error) -> bool {
    use rustix::io::Errno;
    let temporary = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::TXTBSY];
    error.raw_os_error().is_some_and(|number| temporary.iter().any(|one| one.raw_os_error() == number))
}

/// Carries out orders until the program has exited; `None` if it was killed and does not exit.
fn watch(launcher: &mut UnixStream, program: &OwnedFd, pid: Pid) -> Result<Option<WaitStatus>> {
    let mut listening = true;
    let mut killed: Option<Instant> = None;
    loop {
        if let Some(status) = reap(pid)? {
            return Ok(Some(status));
        }
        if killed.is_some_and(|at| at.elapsed() > KILLED) {
            return Ok(None);
        }
        let mut both = [
            PollFd::new(program, PollFlags::IN),
            PollFd::new(launcher, if listening { PollFlags::IN } else { PollFlags::empty() }),
        ];
        let watched = if listening { &mut both[..] } else { &mut both[..1] };
        match poll(watched, Some(&ROUND)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if listening && !both[1].revents().is_empty() {
            let order = obey(launcher, pid);
            listening = order != OrderKind::LauncherGone;
            if order != OrderKind::Signal {
                killed.get_or_insert_with(Instant::now);
            }
        }
    }
}

/// The kind of an order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OrderKind {
    Signal,
    Kill,
    /// The launcher is gone, which means to kill too.
    LauncherGone,
}

/// Reads and carries out one order.
fn obey(launcher: &mut UnixStream, pid: Pid) -> OrderKind {
    let mut order = [0];
    let order = match launcher.read(&mut order) {
        Ok(1) => order[0],
        _ => 0,
    };
    // An error means that the group is gone.
    let _ = match order {
        b'i' => kill_process_group(pid, Signal::INT),
        b't' => kill_process_group(pid, Signal::TERM),
        // Processes that left the group are killed after the program: see `run`.
        _ => kill_process_group(pid, Signal::KILL),
    };
    match order {
        b'i' | b't' => OrderKind::Signal,
        0 => OrderKind::LauncherGone,
        _ => OrderKind::Kill,
    }
}

/// Reaps every child that has exited; returns the status of the program if it is among them.
fn reap(program: Pid) -> Result<Option<WaitStatus>> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == program => return Ok(Some(status)),
            Ok(Some(_)) => {}
            Ok(None) => return Ok(None),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
