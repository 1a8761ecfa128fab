//! Updates that a lost trainer left on some servers and not on others.
//!
//! The chief fences the lost incarnation on every server, which also reports how far it came on each. Where its last update
//! reached only some, the chief sends its own newest gradients under that update's id: servers that have the update drop
//! them, the others apply them. Every server then counts the same steps.

use crate::Server;
use phalanx_base::{Incarnation, Result, TaskId, UpdateId};
use phalanx_ps::Client;
use phalanx_ps::client::{Push, RemoteModel, UpdateMode};

#[derive(Default)]
pub(super) struct UnfinishedUpdates {
    lost: Vec<(TaskId, Incarnation)>,
    /// The newest update that this task pushed; only a chief keeps it.
    newest: Option<Push>,
}

impl UnfinishedUpdates {
    pub(super) fn keep_pushed(&mut self, pushed: Push) {
        self.newest = Some(pushed);
    }

    /// Fences every lost trainer and completes its last update. Where this task has no gradients to complete it with yet,
    /// the trainer is kept for later.
    pub(super) fn finish(
        &mut self,
        server: &Server,
        client: &Client,
        remote: &mut RemoteModel,
        synchronous: bool,
    ) -> Result<()> {
        self.lost.extend(server.job().take_lost());
        let mut later = Vec::new();
        for (task, incarnation) in std::mem::take(&mut self.lost) {
            let progress = client.fence(task, incarnation)?;
            let newest = progress.iter().map(|&(step, _)| step).max().unwrap_or(0);
            let whole = progress.iter().all(|&(step, complete)| step == newest && complete);
            // In a synchronous round each server averages what it got, so nothing is owed to the others.
            if whole || synchronous {
                server.in_scope(|| {
                    tracing::warn!(lost = %task, step = newest, "{task} is lost after its step {newest}; the job continues");
                });
                continue;
            }
            match &self.newest {
                Some(push) => {
                    let name = UpdateId { task, incarnation, sequence: newest };
                    // The input position is that of this task, not of the lost one.
                    let push = Push { id: name, input_position: bytes::Bytes::new(), ..push.clone() };
                    client.push(remote, &push, UpdateMode::Asynchronous)?;
                    server.in_scope(|| {
                        tracing::warn!(
                            lost = %task,
                            finished_step = newest,
                            "{task} is lost in the middle of its step {newest}, which was finished for it"
                        );
                    });
                }
                None => later.push((task, incarnation)),
            }
        }
        self.lost = later;
        Ok(())
    }
}
