//! How a process ended, and what follows from it.

/// The end of a task's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It could not be started.
    NotStarted(String),
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
            Self::NotStarted(_) => 127,
        }
    }

    /// What follows. Permanent: 1 to 128 and a program's own crash (SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV).
    #[must_use]
    pub fn class(&self) -> Class {
        match self.code() {
            0 => Class::Done,
            132 | 134 | 135 | 136 | 139 => Class::Permanent,
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
            Self::NotStarted(why) => write!(f, "not started: {why}"),
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
    fn classes_are_kubeflows() {
        for code in [1, 2, 126, 127, 128, 139] {
            assert_eq!(Exit::Code(code).class(), Class::Permanent, "{code}");
        }
        for code in [130, 137, 138, 143] {
            assert_eq!(Exit::Code(code).class(), Class::Retryable, "{code}");
        }
        assert_eq!(Exit::Code(0).class(), Class::Done);
        assert_eq!(Exit::NotStarted(String::new()).class(), Class::Permanent);
        assert_eq!((Exit::Signal(15).class(), Exit::Signal(6).class()), (Class::Retryable, Class::Permanent));
    }
}
