//! All of a server but its connections: a message's ids are read, found, and their rows written into an answer, or changed
//! by the optimizer.

use super::Ids;
use bytes::Bytes;
use phalanx::prelude::*;
use phalanx::{Incarnation, Result};
use phalanx_ps::proto;
use phalanx_ps::{Executor, Layout, Store};
use std::sync::Arc;

/// One table of a server, asked as a trainer of its own would.
pub(super) struct Asked {
    store: Arc<Store>,
    handle: u32,
    dim: usize,
    from: (TaskId, Incarnation),
    step: u64,
}

impl Asked {
    pub(super) fn new(store: Arc<Store>, table: TableSpec) -> Result<Self> {
        let dim = table.dim;
        let layout = Layout::new(Vec::new(), vec![table], 1, Placement::default())?;
        let handle = store.find(&layout.specs_for(0))?[0];
        Ok(Self { store, handle, dim, from: (TaskId::new(Role::Worker, 0), Incarnation(1)), step: 0 })
    }

    /// Makes the rows 0 to `rows`.
    pub(super) fn fill(&self, rows: u64) -> Result<()> {
        const AT_ONCE: u64 = 1 << 16;
        (0..rows).step_by(AT_ONCE as usize).try_for_each(|first| {
            let ids: Vec<i64> = (first as i64..rows.min(first + AT_ONCE) as i64).collect();
            self.answer(&self.pull(&ids))
        })
    }

    /// Asks for rows.
    pub(super) fn pull(&self, ids: &Ids) -> Message {
        let ask = proto::Exchange { row_pull: self.rows(ids), ..Default::default() };
        Message { ask, body: vec![words(ids).into()] }
    }

    /// Brings their gradients.
    pub(super) fn push(&mut self, ids: &Ids) -> Message {
        self.step += 1;
        let update = Some(proto::UpdatePart { step: self.step, part: 0, parts: 1 });
        let ask = proto::Exchange { update, row_push: self.rows(ids), ..Default::default() };
        let mut body = words(ids);
        phalanx_base::write_f32s(&vec![0.01; self.dim * ids.len()], &mut body);
        Message { ask, body: vec![body.into()] }
    }

    fn rows(&self, ids: &Ids) -> Vec<proto::Rows> {
        vec![proto::Rows { handle: self.handle, count: ids.len() as u64, ..proto::Rows::default() }]
    }

    pub(super) fn answer(&self, message: &Message) -> Result<()> {
        let answer =
            self.store.exchange(self.from, &message.ask, &message.body, Executor::Serial, |len| vec![0; len])?;
        drop(std::hint::black_box(answer));
        Ok(())
    }
}

/// What a trainer sends.
pub(super) struct Message {
    ask: proto::Exchange,
    body: Vec<Bytes>,
}

fn words(ids: &Ids) -> Vec<u8> {
    ids.iter().flat_map(|id| id.to_le_bytes()).collect()
}
