//! No process of a task outlives the one that launched it, however that one dies.
//!
//! Between the launcher and a task stands a *guard*: a process of the launcher's own executable. The launcher holds one end
//! of a socket, the guard the other; when the launcher is gone, even by `kill -9`, the socket closes, and the guard ends
//! everything below it. It is the reaper of its descendants, so that a grandchild whose parent has died, or that made a
//! session of its own, is still found. If the guard itself is killed, the kernel ends the task's first process.

mod descendants;
mod life;

pub(crate) use descendants::lives;
use phalanx_base::{Code, Context, Error, Result};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsString;
use std::process::ExitCode;

/// Names the parent to a child that was started by [`crate::LocalJob`].
pub(crate) const PARENT: &str = "PHALANX_PARENT";
/// The first argument of a guard.
pub(crate) const GUARD: &str = "phalanx-guard";
/// The guard's second argument when the program's standard input is to stay open after the first line.
pub(crate) const FEED: &str = "--feed";

/// Orders to a guard, one byte each. The end of the socket is [`Order::Kill`] too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// SIGINT to the task's process group.
    Interrupt,
    /// SIGTERM to the task's process group.
    Terminate,
    /// SIGKILL to everything below the guard.
    Kill,
}

impl Order {
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Interrupt => b'i',
            Self::Terminate => b't',
            Self::Kill => b'k',
        }
    }
}

/// Becomes a guard if this process was started as one; call it first in `main` of any program that launches, and return what
/// it returns.
#[must_use]
pub fn guard_if_asked() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != GUARD {
        return None;
    }
    let mut program: Vec<OsString> = args.collect();
    let feed = program.first().is_some_and(|first| first == FEED);
    if feed {
        program.remove(0);
    }
    Some(life::guard(&program, feed))
}

/// Makes this process end with the one that launched it; does nothing in a process that was started by hand. Call it
/// first in `main`.
///
/// # Errors
/// When the launcher has already gone.
pub fn die_with_parent() -> Result<()> {
    let Ok(parent) = std::env::var(PARENT) else { return Ok(()) };
    set_parent_process_death_signal(Some(Signal::KILL)).context(Code::Internal, "the launcher cannot be watched")?;
    // It may have gone before the line above.
    let current = getppid().map(Pid::as_raw_nonzero);
    if current.is_some_and(|pid| pid.to_string() == parent) {
        Ok(())
    } else {
        Err(Error::new(Code::JobFailed, "the launcher has gone").because(format!("it was process {parent}")))
    }
}
