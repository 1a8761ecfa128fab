//! Reads some numbers of a variable, or some rows of tables, and nothing else.

use super::answer::rows_of;
use super::calls::{Client, unexpected};
use super::exchange::{UpdateMode, range};
use super::packing::Piece;
use super::remote_model::RemoteModel;
use super::rows::RowSet;
use crate::plan::Layout;
use crate::proto::{Exchange, reply, request};
use phalanx_base::{Code, Error, Result, read_f32s};
use phalanx_wire::limits::PART_BYTES;
use std::ops::Range;

impl Client {
    /// Reads the numbers `elements` of the layout's variable number `variable`, in row-major order. In synchronous mode they
    /// include the closed rounds.
    ///
    /// # Errors
    /// When a server refuses or does not answer.
    pub fn read(
        &self,
        remote: &mut RemoteModel,
        variable: usize,
        elements: Range<usize>,
        mode: UpdateMode,
    ) -> Result<Vec<f32>> {
        let mut numbers = Vec::with_capacity(elements.len());
        for piece in pieces(remote.layout(), variable, &elements) {
            loop {
                match self.read_piece(remote, &piece, mode, &mut numbers) {
                    Err(error) if error.code() == Code::ServerRestarted => self.find_again(remote)?,
                    read => break read?,
                }
            }
        }
        Ok(numbers)
    }

    fn read_piece(&self, remote: &RemoteModel, piece: &Piece, mode: UpdateMode, out: &mut Vec<f32>) -> Result<()> {
        let server = remote.layout().shards()[piece.shard].server;
        let mut header = Exchange { dense_pull: vec![range(remote, piece, 0)], ..Exchange::default() };
        if let UpdateMode::Synchronous { round, closed } = mode {
            (header.round, header.closed) = (Some(round), closed);
        }
        let frame = self.frame(Some(remote.incarnation(server)), request::Op::Exchange(header));
        let (reply, body) = self.block(self.call(server, frame))?;
        let Some(reply::Result::Exchanged(_)) = reply.result else { return Err(unexpected(&reply.result)) };
        if body.len() != 4 * piece.elements.len() {
            return Err(Error::new(Code::BadMessage, "a server's answer is not what was asked for").because(format!(
                "{} bytes for {} numbers",
                body.len(),
                piece.elements.len()
            )));
        }
        let start = out.len();
        out.resize(start + piece.elements.len(), 0.0);
        read_f32s(&body, &mut out[start..]);
        Ok(())
    }

    /// Reads rows of tables: for each set its unique rows, back to back. Rows that do not exist yet are created.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_rows(&self, remote: &mut RemoteModel, sets: &[RowSet], mode: UpdateMode) -> Result<Vec<Vec<f32>>> {
        let answers = self.ask_for_rows(remote, sets, mode)?;
        let rows = |(number, set)| rows_of(number, set, remote, &answers, self.executor());
        Ok(sets.iter().enumerate().map(rows).collect())
    }
}

/// Returns the runs of the shards that hold `elements`, in order, each small enough for one message.
fn pieces(layout: &Layout, variable: usize, elements: &Range<usize>) -> Vec<Piece> {
    const MOST: usize = PART_BYTES / 4;
    let mut found = Vec::new();
    for (number, shard) in layout.shards().iter().enumerate().filter(|(_, shard)| shard.variable == variable) {
        let (first, end) = (elements.start.max(shard.elements.start), elements.end.min(shard.elements.end));
        let starts = (first..end).step_by(MOST);
        found.extend(starts.map(|at| {
            let local = at - shard.elements.start;
            Piece { shard: number, elements: local..local + MOST.min(end - at) }
        }));
    }
    found
}
