//! Replacing values on servers.

use super::calls::Client;
use super::exchange::range;
use super::packing::pack;
use super::remote_model::RemoteModel;
use super::rows::RowSet;
use crate::proto::{Assign, Rows, request};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use phalanx_wire::limits::PART_BYTES;
use std::ops::Range;

impl Client {
    /// Replaces the values of one server's shards, in as many messages as needed.
    pub(super) fn assign(&self, remote: &RemoteModel, server: usize, values: &[Bytes]) -> Result<()> {
        self.assign_with(remote, server, values, Assign::default)
    }

    /// Replaces the values of all variables of a model in training. Updates wait meanwhile; gradients for rounds below
    /// `closed` are replaced too. Slots are kept.
    ///
    /// # Errors
    /// When the values do not fit, or a server refuses or does not answer; some servers may then have the new values.
    pub fn replace(&self, remote: &mut RemoteModel, values: &[Bytes], closed: u64) -> Result<()> {
        remote.check_values(values)?;
        let mut number = remote.replaced;
        let mut next = || {
            number += 1;
            Assign { replaces: true, closed, number, ..Assign::default() }
        };
        let done = (0..self.servers()).try_for_each(|server| self.replace_on(remote, server, values, &mut next));
        remote.replaced = number;
        done
    }

    /// Replaces rows of a model in training, in as many messages as needed; slots are kept. `rows` has the values of the ids
    /// `ids` of the layout's table number `table`, back to back.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn replace_rows(
        &self,
        remote: &mut RemoteModel,
        table: usize,
        ids: Range<i64>,
        rows: &[f32],
        closed: u64,
    ) -> Result<()> {
        let mut number = remote.replaced;
        let mut next = || {
            number += 1;
            Assign { replaces: true, closed, number, ..Assign::default() }
        };
        let done = self.each_row_message(remote, table, ids, rows, false, &mut next);
        remote.replaced = number;
        done
    }

    /// Sets rows of a model that is not ready, with fresh slots.
    ///
    /// # Errors
    /// As [`Self::replace`], and when the model is ready.
    pub fn assign_rows(&self, remote: &mut RemoteModel, table: usize, ids: Range<i64>, rows: &[f32]) -> Result<()> {
        self.each_row_message(remote, table, ids, rows, true, &mut Assign::default)
    }

    fn each_row_message(
        &self,
        remote: &mut RemoteModel,
        table: usize,
        ids: Range<i64>,
        rows: &[f32],
        with_slots: bool,
        next: &mut impl FnMut() -> Assign,
    ) -> Result<()> {
        let spec = remote.layout.tables()[table].clone();
        let count = usize::try_from(ids.end - ids.start).unwrap_or(0);
        if rows.len() != count * spec.dim {
            let what = format!("{} numbers for {count} rows of table {:?}", rows.len(), spec.name);
            return Err(Error::new(Code::ShapeMismatch, what).because(format!("a row has {}", spec.dim)));
        }
        let width = if with_slots { spec.dim * (1 + spec.optimizer.slot_count()) } else { spec.dim };
        let most = (PART_BYTES / (8 + 4 * width)).max(1);
        let ids: Vec<i64> = ids.collect();
        for (ids, rows) in ids.chunks(most).zip(rows.chunks(most * spec.dim)) {
            let set = RowSet::of(&remote.layout, table, ids);
            for server in 0..self.servers() {
                let places = set.on(server);
                if places.is_empty() {
                    continue;
                }
                let mut numbers = vec![0.0; places.len() * width];
                for (&at, row) in places.iter().zip(numbers.chunks_exact_mut(width)) {
                    spec.optimizer.init_slots(row);
                    row[..spec.dim].copy_from_slice(&rows[at as usize * spec.dim..][..spec.dim]);
                }
                let numbers = Bytes::from(bytemuck::cast_slice::<f32, u8>(&numbers).to_vec());
                let assign = next();
                loop {
                    let run =
                        Rows { handle: remote.tables[server][table], count: places.len() as u64, ..Rows::default() };
                    let op = request::Op::Assign(Assign { rows: vec![run], ..assign.clone() });
                    let mut frame = self.frame(Some(remote.incarnation(server)), op);
                    frame.push(set.ids_at(places));
                    frame.push(numbers.clone());
                    match self.block(self.call(server, frame)) {
                        Err(error) if error.code() == Code::ServerRestarted && !with_slots => {
                            self.find_again(remote)?
                        }
                        sent => break sent.map(drop)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn replace_on(
        &self,
        remote: &mut RemoteModel,
        server: usize,
        values: &[Bytes],
        next: &mut impl FnMut() -> Assign,
    ) -> Result<()> {
        loop {
            match self.assign_with(remote, server, values, &mut *next) {
                Err(error) if error.code() == Code::ServerRestarted => self.find_again(remote)?,
                done => return done,
            }
        }
    }

    fn assign_with(
        &self,
        remote: &RemoteModel,
        server: usize,
        values: &[Bytes],
        mut with: impl FnMut() -> Assign,
    ) -> Result<()> {
        let pieces = &remote.pieces[server];
        for part in pack(pieces, &[], &[]) {
            let pieces = &pieces[part.pieces];
            let ranges = pieces.iter().map(|piece| range(remote, piece, 0)).collect();
            let mut frame =
                self.frame(Some(remote.incarnation(server)), request::Op::Assign(Assign { ranges, ..with() }));
            for piece in pieces {
                let shard = &remote.layout.shards()[piece.shard];
                let at = shard.elements.start + piece.elements.start;
                frame.push(values[shard.variable].slice(4 * at..4 * (at + piece.elements.len())));
            }
            self.block(self.call(server, frame))?;
        }
        Ok(())
    }
}
