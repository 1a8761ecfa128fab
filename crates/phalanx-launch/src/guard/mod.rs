//! No process of a task outlives the one that launched it, however that one dies.
//!
//! Between the launcher and a task is a *guard*: a process of the launcher's own executable. The launcher holds one end of a socket
//! and the guard the other; when the launcher dies, even by `kill -9`, the socket closes, and the guard kills everything below it.
//! The guard is the reaper of its descendants, so it also finds grandchildren whose parent has died or that started a new session.
//! If the guard itself is killed, the kernel kills the task's first process.

mod descendants;
mod run;
mod usage;

pub(crate) use descendants::is_alive;
use std::ffi::OsString;
use std::process::ExitCode;

/// The first argument of a guard.
pub(crate) const GUARD: &str = "phalanx-guard";
/// The guard's second argument if the program's standard input stays open after the first line.
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

/// Runs this process as a guard if it was started as one. Call it first in `main` of a program that launches jobs, and return the exit
/// code if there is one.
#[must_use]
pub fn guard_if_asked() -> Option<ExitCode> {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    guard(&args).map(ExitCode::from)
}

/// Runs this process as a guard if these arguments, without the name of the program, say so. Returns the exit code of the process.
/// [`guard_if_asked`] does it with the arguments of the process.
#[must_use]
pub fn guard(args: &[OsString]) -> Option<u8> {
    let (asked, program) = args.split_first()?;
    if asked != GUARD {
        return None;
    }
    Some(match program.split_first() {
        Some((first, program)) if first == FEED => run::guard(program, true),
        _ => run::guard(program, false),
    })
}
