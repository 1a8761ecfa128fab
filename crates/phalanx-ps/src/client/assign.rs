//! Replacing values on servers.

use super::calls::Client;
use super::exchange::range;
use super::packing::pack;
use super::remote::Remote;
use bytes::Bytes;
use phalanx_base::{Code, Result};
use phalanx_wire::proto::params::{Assign, request};

impl Client {
    /// Replaces the values of one server's shards, in as many messages as it takes.
    pub(super) fn assign(&self, remote: &Remote, server: usize, values: &[Bytes]) -> Result<()> {
        self.assign_with(remote, server, remote.lives[server], values, Assign::default)
    }

    /// Replaces the values of all variables of a model that is being trained, one for each of the layout. Updates wait
    /// meanwhile; what was pushed before for rounds below `closed` is replaced too. Slots stay as they are.
    ///
    /// # Errors
    /// When the values do not fit, or a server refuses or does not answer; some servers may then have the new values.
    pub fn replace(&self, remote: &mut Remote, values: &[Bytes], closed: u64) -> Result<()> {
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
        remote: &mut Remote,
        server: usize,
        values: &[Bytes],
        next: &mut impl FnMut() -> Assign,
    ) -> Result<()> {
        loop {
            match self.assign_with(remote, server, remote.lives[server], values, &mut *next) {
                Err(error) if error.code() == Code::ServerRestarted => self.find_again(remote)?,
                done => return done,
            }
        }
    }

    fn assign_with(
        &self,
        remote: &Remote,
        server: usize,
        life: u64,
        values: &[Bytes],
        mut with: impl FnMut() -> Assign,
    ) -> Result<()> {
        let pieces = &remote.pieces[server];
        for part in pack(pieces, &[], &[]) {
            let pieces = &pieces[part.pieces];
            let ranges = pieces.iter().map(|piece| range(remote, piece, 0)).collect();
            let mut frame = self.frame_for(life, request::Op::Assign(Assign { ranges, ..with() }));
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
