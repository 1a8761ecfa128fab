//! Replacing values on servers.

use super::calls::Client;
use super::exchange::range;
use super::packing::pack;
use super::remote_model::RemoteModel;
use crate::proto::{Assign, request};
use bytes::Bytes;
use phalanx_base::{Code, Result};

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
