//! What a guard does: starts one program, watches it and the launcher, leaves nothing behind.

use super::descendants;
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
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// How often children that others left are buried although nothing else happens.
const ROUND: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// How long a killed program may take to end, and how long what it leaves behind may. The launcher waits longer than both.
const KILLED: Duration = Duration::from_secs(2);
const DESCENDANTS: Duration = Duration::from_secs(3);
const BESIDE_A_STUCK_ONE: Duration = Duration::from_secs(1);

pub(super) fn guard(program: &[OsString], feed: bool) -> ExitCode {
    match run(program, feed) {
        Ok(()) => ExitCode::SUCCESS,
        // The launcher hears it from the socket, if it is there; whoever started a guard by hand, from here.
        Err(error) => {
            eprintln!("phalanx guard: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(program: &[OsString], feed: bool) -> Result<()> {
    let mut launcher = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    set_child_subreaper(Some(getpid()))?;
    let first_line = if feed { Some(read_line(&mut launcher)?) } else { None };
    let mut child = match spawn(program, feed) {
        Ok(child) => child,
        Err(error) if is_for_now(&error) => return writeln!(launcher, "later {error}"),
        Err(error) => return writeln!(launcher, "cannot {error}"),
    };
    // Held until the end: the program sees its standard input close when this guard is gone.
    let mut held = child.stdin.take();
    if let (Some(stdin), Some(line)) = (held.as_mut(), first_line) {
        stdin.write_all(&line)?;
    }
    let pid = Pid::from_raw(child.id().cast_signed()).ok_or_else(|| Error::other("a child without an id"))?;
    // A launcher that has gone is noticed below.
    let _ = writeln!(launcher, "pid {}", child.id());
    let Some(ended) = watch(&mut launcher, &pidfd_open(pid, PidfdFlags::empty())?, pid)? else {
        descendants::end_all(BESIDE_A_STUCK_ONE);
        let _ = writeln!(launcher, "stuck {}", child.id());
        return Ok(());
    };
    descendants::end_all(DESCENDANTS);
    let _ = match (ended.exit_status(), ended.terminating_signal()) {
        (Some(code), _) => writeln!(launcher, "exit {code}"),
        (None, signal) => writeln!(launcher, "signal {}", signal.unwrap_or(9)),
    };
    Ok(())
}

/// One byte at a time: what follows the line is an order.
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
        // The guard may have gone before the line above.
        if getppid() == Some(guard) { Ok(()) } else { Err(ErrorKind::NotConnected.into()) }
    };
    // SAFETY: between fork and exec only calls that are safe in signal handlers may be made: these are two system calls
    // and a comparison, and an error that is a plain value. Nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(tie) };
    command.spawn()
}

/// Whether a program could not be started for lack of something that may be there later.
fn is_for_now(error: &Error) -> bool {
    use rustix::io::Errno;
    let passing = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::TXTBSY];
    error.raw_os_error().is_some_and(|number| passing.iter().any(|one| one.raw_os_error() == number))
}

/// Carries out orders until the program has ended; `None` where it was killed and does not.
fn watch(launcher: &mut UnixStream, program: &OwnedFd, pid: Pid) -> Result<Option<WaitStatus>> {
    let mut listening = true;
    let mut killed: Option<Instant> = None;
    loop {
        if let Some(status) = bury(pid)? {
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
            listening = order != Taken::Last;
            if order != Taken::Signal {
                killed.get_or_insert_with(Instant::now);
            }
        }
    }
}

/// What an order was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    Signal,
    Kill,
    /// The launcher has gone, which is an order to kill too.
    Last,
}

/// Takes one order.
fn obey(launcher: &mut UnixStream, pid: Pid) -> Taken {
    let mut order = [0];
    let order = match launcher.read(&mut order) {
        Ok(1) => order[0],
        _ => 0,
    };
    // A group that has gone wants no signal.
    let _ = match order {
        b'i' => kill_process_group(pid, Signal::INT),
        b't' => kill_process_group(pid, Signal::TERM),
        // What left the group is ended when the program has: see `run`.
        _ => kill_process_group(pid, Signal::KILL),
    };
    match order {
        b'i' | b't' => Taken::Signal,
        0 => Taken::Last,
        _ => Taken::Kill,
    }
}

/// Takes leave of every child that has ended; returns the program's status if it is among them.
fn bury(program: Pid) -> Result<Option<WaitStatus>> {
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
