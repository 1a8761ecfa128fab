//! Restoring this server's part of a checkpoint from a directory that it sees, on a thread of its own.

use super::{Store, lock};
use crate::checkpoint::{Checkpoint, Plan, restore_part};
use phalanx_base::{Code, Context, Result};
use phalanx_storage::Dir;
use phalanx_wire::proto::params;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// An attempt to restore.
pub(crate) struct Restoring {
    /// The bytes of tensors that were read, once it has ended.
    outcome: Mutex<Option<Result<u64>>>,
    done: Notify,
}

impl Restoring {
    /// Starts an attempt.
    pub(crate) fn start(store: Arc<Store>, ask: params::Restore) -> Result<Arc<Self>> {
        let restoring = Arc::new(Self { outcome: Mutex::default(), done: Notify::new() });
        let shared = Arc::clone(&restoring);
        let restore = move || {
            let outcome = restore(&store, &ask);
            *lock(&shared.outcome) = Some(outcome);
            shared.done.notify_waiters();
        };
        let thread = std::thread::Builder::new().name("restore".into()).spawn(restore);
        thread.context(Code::Internal, "no thread can be started to restore")?;
        Ok(restoring)
    }

    /// Whether the attempt has ended, well or badly.
    pub(crate) fn has_ended(&self) -> bool {
        lock(&self.outcome).is_some()
    }

    /// Waits for the end, but not for longer than `wait`.
    pub(crate) async fn wait(&self, wait: Duration) -> Option<Result<u64>> {
        let done = self.done.notified();
        tokio::pin!(done);
        // Listen before looking.
        done.as_mut().enable();
        if let Some(outcome) = lock(&self.outcome).clone() {
            return Some(outcome);
        }
        let _ = tokio::time::timeout(wait, done).await;
        lock(&self.outcome).clone()
    }
}

fn restore(store: &Store, ask: &params::Restore) -> Result<u64> {
    let dir = Dir::open(&ask.location)?;
    let checkpoint = Checkpoint::open(&dir, &ask.checkpoint)?;
    let plan = Plan::held(store, ask.server as usize, ask.servers as usize);
    restore_part(&checkpoint, &plan, &|assign, body| store.assign(&assign, &body))?;
    Ok(checkpoint.bytes_read())
}
