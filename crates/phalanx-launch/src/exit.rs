//! How a process ended, and what follows from it.

/// The end of a task's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// SIGKILL ended it, and at that time the kernel killed a process of this cgroup for lack of memory.
    OutOfMemory,
    /// The program cannot be executed.
    NotStarted(String),
    /// The operating system had no descriptors, processes or memory for it.
    NoResources(String),
    /// It returned 0 and never joined the job that other tasks formed.
    NeverJoined,
    /// It was killed, and this process of it has not exited: it is stuck in the kernel.
    Stuck(u32),
}

/// What an end means for the job, as Kubeflow's `restartPolicy: ExitCode` reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The task is done.
    Done,
    /// The same would happen again: the program or its arguments are wrong.
    Permanent,
    /// A machine, a network or a person was the cause: another try makes sense.
    Retryable,
}

impl Exit {
    /// Whether the task did what it should.
    #[must_use]
    pub fn success(&self) -> bool {
        *self == Self::Code(0)
    }

    /// The code that a shell shows: 128 and the signal's number for a signal, 127 for a program that is not there.
    ///
    /// ```
    /// use phalanx_launch::{Class, Exit};
    /// assert_eq!(Exit::Signal(9).code(), 137);
    /// assert_eq!(Exit::Signal(9).class(), Class::Retryable);
    /// assert_eq!(Exit::Signal(11).class(), Class::Permanent);
    /// assert_eq!(Exit::Code(1).to_string(), "exit code 1");
    /// ```
    #[must_use]
    pub fn code(&self) -> i32 {
        match self {
            Self::Code(code) => *code,
            Self::Signal(signal) => 128 + signal,
            Self::OutOfMemory | Self::Stuck(_) => 137,
            Self::NotStarted(_) => 127,
            Self::NoResources(_) => 138,
            Self::NeverJoined => 2,
        }
    }

    /// What follows. Permanent: 1 to 128, and crashes that repeat themselves (SIGILL, SIGFPE, SIGSEGV). An abort (SIGABRT)
    /// and a bus error (SIGBUS) are also what a machine without memory or disk space causes, so they are tried again.
    #[must_use]
    pub fn class(&self) -> Class {
        match self.code() {
            0 => Class::Done,
            132 | 136 | 139 => Class::Permanent,
            129..=255 => Class::Retryable,
            _ => Class::Permanent,
        }
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}{}", meaning(*code)),
            Self::Signal(signal) => write!(f, "signal {signal} ({})", signal_name(*signal)),
            Self::OutOfMemory => f.write_str("signal 9 (killed: out of memory in this cgroup)"),
            Self::NotStarted(why) => write!(f, "not started: {why}"),
            Self::NoResources(why) => write!(f, "could not be started: {why}"),
            Self::NeverJoined => {
                write!(f, "{}: exit code 0, but it never joined the job", phalanx_base::Code::NeverJoined)
            }
            Self::Stuck(pid) => write!(f, "process {pid} has not exited after SIGKILL"),
        }
    }
}

/// What our own tasks mean by a code.
fn meaning(code: i32) -> &'static str {
    match code {
        2 => " (usage or configuration)",
        126 => " (cannot be executed)",
        127 => " (program not found)",
        130 => " (interrupted)",
        137 => " (killed)",
        138 => " (infrastructure)",
        143 => " (terminated)",
        _ => "",
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        6 => "aborted",
        7 => "bus error",
        8 => "arithmetic error",
        9 => "killed",
        11 => "segmentation fault",
        13 => "broken pipe",
        15 => "terminated",
        _ => "unnamed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_kubeflows_and_an_abort_or_a_bus_error_is_tried_again() {
        for code in [1, 2, 126, 127, 128, 139] {
            assert_eq!(Exit::Code(code).class(), Class::Permanent, "{code}");
        }
        for code in [130, 134, 135, 137, 138, 143] {
            assert_eq!(Exit::Code(code).class(), Class::Retryable, "{code}");
        }
        assert_eq!(Exit::Code(0).class(), Class::Done);
        for exit in [Exit::NotStarted(String::new()), Exit::NeverJoined, Exit::Signal(11), Exit::Signal(4)] {
            assert_eq!(exit.class(), Class::Permanent, "{exit}");
        }
        for exit in [Exit::Signal(15), Exit::Signal(6), Exit::Signal(7), Exit::OutOfMemory] {
            assert_eq!(exit.class(), Class::Retryable, "{exit}");
        }
        assert_eq!(Exit::NoResources(String::new()).class(), Class::Retryable);
    }
}
