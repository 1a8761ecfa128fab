//! How a process ended.

/// The exit of a task's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// A signal killed it.
    Signal(i32),
    /// SIGKILL killed it at a time when the kernel killed a process of this cgroup for lack of memory.
    OutOfMemory,
    /// The program cannot be executed.
    NotStarted(String),
    /// The operating system had no descriptors, processes or memory for it.
    NoResources(String),
    /// It exited with 0 and never joined the job that other tasks formed.
    NeverJoined,
    /// It was killed, but this process has not exited: it is stuck in the kernel.
    Stuck(u32),
}

/// What an exit means for the job, as in Kubeflow's `restartPolicy: ExitCode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitClass {
    /// The task is done.
    Done,
    /// A retry would fail in the same way: the program or its arguments are wrong.
    Permanent,
    /// A machine, a network or a person was the cause: a retry may succeed.
    Retryable,
}

impl Exit {
    /// Whether the task succeeded.
    #[must_use]
    pub fn success(&self) -> bool {
        *self == Self::Code(0)
    }

    /// The exit code that a shell shows: 128 plus the number of a signal, 127 for a program that does not exist.
    ///
    /// ```
    /// use phalanx_launch::{Exit, ExitClass};
    /// assert_eq!(Exit::Signal(9).code(), 137);
    /// assert_eq!(Exit::Signal(9).class(), ExitClass::Retryable);
    /// assert_eq!(Exit::Signal(11).class(), ExitClass::Permanent);
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

    /// The class of this exit. Codes 1 to 128 are permanent, and so are crashes that repeat (SIGILL, SIGFPE, SIGSEGV). An abort
    /// (SIGABRT) and a bus error (SIGBUS) may also come from a lack of memory or disk space, so they are retryable.
    #[must_use]
    pub fn class(&self) -> ExitClass {
        match self.code() {
            0 => ExitClass::Done,
            132 | 136 | 139 => ExitClass::Permanent,
            129..=255 => ExitClass::Retryable,
            _ => ExitClass::Permanent,
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

/// What Phalanx tasks mean by an exit code.
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
    fn classes_are_kubeflows_and_an_abort_or_a_bus_error_is_retryable() {
        for code in [1, 2, 126, 127, 128, 139] {
            assert_eq!(Exit::Code(code).class(), ExitClass::Permanent, "{code}");
        }
        for code in [130, 134, 135, 137, 138, 143] {
            assert_eq!(Exit::Code(code).class(), ExitClass::Retryable, "{code}");
        }
        assert_eq!(Exit::Code(0).class(), ExitClass::Done);
        for exit in [Exit::NotStarted(String::new()), Exit::NeverJoined, Exit::Signal(11), Exit::Signal(4)] {
            assert_eq!(exit.class(), ExitClass::Permanent, "{exit}");
        }
        for exit in [Exit::Signal(15), Exit::Signal(6), Exit::Signal(7), Exit::OutOfMemory] {
            assert_eq!(exit.class(), ExitClass::Retryable, "{exit}");
        }
        assert_eq!(Exit::NoResources(String::new()).class(), ExitClass::Retryable);
    }
}
