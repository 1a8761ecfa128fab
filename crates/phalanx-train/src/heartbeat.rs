//! The heartbeat file of a run directory, from which evaluators learn that training continues, and how it ended.

use crate::job_state::HeartbeatWriter;
use phalanx_base::{Code, Error, Result};
use phalanx_storage::Dir;

/// The chief's heartbeat. When it is dropped, it writes how the training ended.
#[derive(Default)]
pub(crate) struct Heartbeat {
    writer: Option<HeartbeatWriter>,
    failure: Option<Error>,
}

impl Heartbeat {
    /// Starts it, unless it has been started.
    pub(crate) fn start(&mut self, dir: &Dir) -> Result<()> {
        if self.writer.is_none() {
            self.writer = Some(HeartbeatWriter::start(dir)?);
        }
        Ok(())
    }

    /// Records that the training has failed; the first error counts.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.failure.get_or_insert_with(|| error.clone());
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        if std::thread::panicking() {
            self.failure.get_or_insert_with(|| Error::new(Code::StepPanicked, "the chief panicked"));
        }
        if let Err(error) = writer.end(self.failure.as_ref()) {
            tracing::error!(code = %error.code(), "{error}");
        }
    }
}
