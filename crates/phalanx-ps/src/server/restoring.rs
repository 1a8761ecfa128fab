//! Restoring this server's part of a checkpoint from a directory that it sees, on a thread of its own.

use super::Store;
use super::background::Background;
use crate::checkpoint::{Checkpoint, Plan, restore_part};
use phalanx_base::Result;
use phalanx_storage::Dir;
use phalanx_wire::proto::params;
use std::sync::Arc;

/// An attempt to restore; its outcome is the bytes of tensors that were read.
pub(crate) type Restoring = Background<u64>;

/// Starts an attempt.
pub(crate) fn start(store: Arc<Store>, ask: params::Restore) -> Result<Arc<Restoring>> {
    Background::start("restore", move || restore(&store, &ask))
}

fn restore(store: &Store, ask: &params::Restore) -> Result<u64> {
    let dir = Dir::open(&ask.location)?;
    let checkpoint = Checkpoint::open(&dir, &ask.checkpoint)?;
    let plan = Plan::held(store, ask.server as usize, ask.servers as usize);
    restore_part(&checkpoint, &plan, &|assign, body| store.assign(&assign, &body))?;
    Ok(checkpoint.bytes_read())
}
