//! Steps that a lost trainer left half pushed: on some servers and not on others.
//!
//! The chief shuts the lost life out on every server, which also tells how far it came on each. Where its last step
//! reached only some, the chief sends its own newest gradients under that step's name: servers that have the step drop
//! them, the others apply them. Every server then counts the same steps.

use crate::Server;
use phalanx_base::{Incarnation, Result, TaskId, UpdateName};
use phalanx_ps::Client;
use phalanx_ps::client::{Mode, Push, Remote};

#[derive(Default)]
pub(super) struct Orphans {
    lost: Vec<(TaskId, Incarnation)>,
    /// What this task pushed last; a chief alone keeps it.
    newest: Option<Push>,
}

impl Orphans {
    pub(super) fn remember(&mut self, pushed: Push) {
        self.newest = Some(pushed);
    }

    /// Deals with every lost trainer. One whose step cannot be finished yet, because this task has no gradients, is
    /// kept for later.
    pub(super) fn finish(
        &mut self,
        server: &Server,
        client: &Client,
        remote: &mut Remote,
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
                server.say(&format!("{task} is lost after its step {newest}; the job goes on"));
                continue;
            }
            match &self.newest {
                Some(push) => {
                    let name = UpdateName { task, incarnation, sequence: newest };
                    // The lost one's input is not where this task's is.
                    let push = Push { name, note: bytes::Bytes::new(), ..push.clone() };
                    client.push(remote, &push, Mode::Asynchronous)?;
                    server
                        .say(&format!("{task} is lost in the middle of its step {newest}, which was finished for it"));
                }
                None => later.push((task, incarnation)),
            }
        }
        self.lost = later;
        Ok(())
    }
}
