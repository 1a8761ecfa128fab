//! Connections that die with their task.

use phalanx_base::{Code, Error};
use phalanx_wire::bulk::{Pending, Transport};
use phalanx_wire::{InFrame, OutFrame, Outcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A connection of a task. Once the task is killed, it sends nothing more, as the connection of a killed process does.
pub(crate) struct MortalTransport {
    connection: Box<dyn Transport>,
    killed: Arc<AtomicBool>,
}

impl MortalTransport {
    pub(crate) fn new(connection: Box<dyn Transport>, killed: Arc<AtomicBool>) -> Self {
        Self { connection, killed }
    }
}

impl Transport for MortalTransport {
    fn call(&self, frame: OutFrame, deadline: Duration) -> Pending<'_, Outcome<InFrame>> {
        if self.killed.load(Ordering::Acquire) {
            // A code for which nobody tries again.
            return Box::pin(std::future::ready(Outcome::Failed(Error::new(Code::JobFailed, "this task was killed"))));
        }
        self.connection.call(frame, deadline)
    }

    fn peer(&self) -> &str {
        self.connection.peer()
    }
}
