//! The exit code of a command.

use phalanx_base::Result;

/// The exit code of a command. Unlike [`std::process::ExitCode`] it can be read, by a program that the command is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitCode(u8);

impl ExitCode {
    /// The command has done its work.
    pub const SUCCESS: Self = Self(0);

    /// Returns the number.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }
}

impl From<u8> for ExitCode {
    fn from(number: u8) -> Self {
        Self(number)
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.0)
    }
}

/// Returns the exit code of a task of a job, and reports an error as its log does.
pub(crate) fn exit(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            phalanx::logging::report(&error);
            ExitCode::from(error.exit_code())
        }
    }
}
