//! No task outlives the process that started it.

use phalanx_base::{Code, Context, Error, Result};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Names the parent to a child that was started by [`crate::LocalJob`].
pub(crate) const PARENT: &str = "PHALANX_PARENT";

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
