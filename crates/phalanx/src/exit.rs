//! The exit code of a task's process.

use phalanx_base::Result;
use std::process::ExitCode;

/// Returns the exit code of `main`, and reports an error on standard error. Orchestrators understand the codes: 0 done,
/// 1 user error, 2 usage, 130 Ctrl-C, 138 infrastructure, 143 SIGTERM.
///
/// ```
/// use phalanx::{Code, Error};
/// let code = phalanx::exit(Err(Error::new(Code::PortInUse, "port 2222 is taken")));
/// assert_eq!(format!("{code:?}"), format!("{:?}", std::process::ExitCode::from(2)));
/// ```
pub fn exit(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            phalanx_train::logging::report(&error);
            ExitCode::from(error.exit_code())
        }
    }
}
