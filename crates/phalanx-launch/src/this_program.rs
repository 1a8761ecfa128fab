//! How to start this very program again.

use crate::guard::GUARD;
use phalanx_base::{Code, Context, Result};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// How to start this program again: its guards are processes of it, and so are the launchers of other nodes. By default, it is the
/// running executable. A launcher that is a part of another program, such as a Python module, names the command that
/// ends in [`guard`](crate::guard).
///
/// ```
/// use phalanx_launch::ThisProgram;
/// let this = ThisProgram::command(["python3", "-m", "phalanx"]);
/// assert_eq!(this.words()?, ["python3", "-m", "phalanx"]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ThisProgram {
    command: Option<Vec<OsString>>,
}

impl ThisProgram {
    /// A program that this command starts.
    #[must_use]
    pub fn command(words: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { command: Some(words.into_iter().map(Into::into).collect()) }
    }

    /// Returns the command.
    ///
    /// # Errors
    /// When the operating system does not tell which executable is running.
    pub fn words(&self) -> Result<Vec<OsString>> {
        match &self.command {
            Some(words) => Ok(words.clone()),
            None => {
                let executable = std::env::current_exe().context(Code::Internal, "the running executable is not known");
                Ok(vec![executable?.into()])
            }
        }
    }

    /// Returns the command of a guard, without what it guards.
    pub(crate) fn guard(&self) -> Command {
        let mut command = match self.command.as_deref() {
            Some([program, args @ ..]) => {
                let mut command = Command::new(program);
                command.args(args);
                command
            }
            _ => {
                // The executable itself, even if its file has been replaced since.
                let mut command = Command::new("/proc/self/exe");
                command.arg0("phalanx");
                command
            }
        };
        command.arg(GUARD);
        command
    }
}
