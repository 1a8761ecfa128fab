//! A process that no later one is mistaken for.

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process of a machine. The number of a process is used again after its end; together with the time at which the process
/// started, it names one process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ProcessIdentity {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since the machine started.
    pub start_ticks: u64,
    /// Which start of the machine that was.
    pub boot_id: String,
}

impl ProcessIdentity {
    /// The process with this number; `None` if there is none, or if `/proc` does not show it.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Counted from the state, which is the third field of the file; the name before it may contain spaces.
        let start_ticks = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
        Some(Self { pid, start_ticks, boot_id })
    }

    /// Whether the process exists.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Sends SIGTERM to the process and to no other; returns whether it still existed.
    ///
    /// # Errors
    /// If this user may not signal the process, or the system cannot name a process by a descriptor (Linux before 5.3).
    pub fn terminate(&self) -> std::io::Result<bool> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(false) };
        // The descriptor stays with the process that has the number now. The check comes after it: if the process that was
        // meant exists then, it existed before, so the descriptor is its own.
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(false),
            opened => opened?,
        };
        if !self.is_alive() {
            return Ok(false);
        }
        match pidfd_send_signal(process, Signal::TERM) {
            Err(Errno::SRCH) => Ok(false),
            sent => sent.map(|()| true).map_err(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn only_the_process_that_was_meant_gets_the_signal() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = ProcessIdentity::of(child.id()).unwrap();
        assert!(process.is_alive());
        // A later process with the same number, and one after the machine was started again.
        for other in [
            ProcessIdentity { start_ticks: process.start_ticks + 1, ..process.clone() },
            ProcessIdentity { boot_id: "another".to_owned(), ..process.clone() },
        ] {
            assert!(!other.is_alive());
            assert!(!other.terminate().unwrap());
            assert!(child.try_wait().unwrap().is_none(), "the signal reached a process that was not meant");
        }
        assert!(process.terminate().unwrap());
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
        assert!(!process.is_alive() && !process.terminate().unwrap());
    }
}
