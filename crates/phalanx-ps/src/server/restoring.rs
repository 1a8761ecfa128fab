//! Restoring this server's part of a checkpoint from a directory that it sees, on a background thread.

use super::Store;
use super::background::Background;
use super::items::Item;
use crate::checkpoint::{Checkpoint, RestorePlan, ShardPlan, TablePlan, restore_part};
use crate::proto;
use phalanx_base::Result;
use phalanx_storage::Dir;
use std::sync::Arc;

/// An attempt to restore; its outcome is the bytes of tensors that were read.
pub(crate) type Restoring = Background<u64>;

/// Starts an attempt.
pub(crate) fn start(store: Arc<Store>, ask: proto::Restore) -> Result<Arc<Restoring>> {
    Background::start("restore", move || restore(&store, &ask))
}

fn restore(store: &Store, ask: &proto::Restore) -> Result<u64> {
    let dir = Dir::open(&ask.location)?;
    let checkpoint = Checkpoint::open(&dir, &ask.checkpoint)?;
    let plan = plan(store, ask.server as usize, ask.servers as usize);
    restore_part(&checkpoint, &plan, &|assign, body| store.assign(&assign, &body))?;
    Ok(checkpoint.bytes_read())
}

/// Plans the restore of everything that this server holds, which is number `server` of `servers`.
pub(super) fn plan(store: &Store, server: usize, servers: usize) -> RestorePlan {
    let mut plan = RestorePlan { server, servers: servers.max(1), shards: Vec::new(), tables: Vec::new() };
    for (handle, item) in (0..).zip(store.items().list()) {
        match item {
            Item::Dense(shard) => {
                let row = shard.shape.row_elements();
                plan.shards.push(ShardPlan {
                    handle,
                    variable: shard.name.clone(),
                    first_row: shard.rows.start,
                    elements: shard.rows.start * row..shard.rows.end * row,
                    optimizer: shard.optimizer,
                });
            }
            Item::Table(table) => {
                let (name, dim, optimizer) = (table.name.clone(), table.dim, table.optimizer);
                plan.tables.push(TablePlan { handle, name, dim, optimizer, pinned: table.pinned });
            }
        }
    }
    plan
}
