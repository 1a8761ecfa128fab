//! Assembling servers' replies into variables and rows.

use super::packing::{Part, Piece, RowRun};
use super::remote_model::RemoteModel;
use super::rows::RowSet;
use crate::Executor;
use bytes::Bytes;
use phalanx_base::{Code, Error, Result, in_place};
use std::ops::Deref;

/// One server's replies: the bytes of each piece and of each row run.
pub(super) struct Answer {
    pub(super) global_step: u64,
    pub(super) repeated: bool,
    pub(super) stale: bool,
    pub(super) pieces: Vec<Option<Bytes>>,
    pub(super) versions: Vec<u64>,
    pub(super) rows: Vec<(RowRun, Bytes)>,
}

impl Answer {
    pub(super) fn new(pieces: usize) -> Self {
        let (pieces, versions) = (vec![None; pieces], vec![0; pieces]);
        Self { global_step: 0, repeated: false, stale: false, pieces, versions, rows: Vec::new() }
    }

    /// Splits a part's body into its pieces and rows.
    pub(super) fn take(
        &mut self,
        pieces: &[Piece],
        part: Part,
        versions: &[u64],
        mut body: Bytes,
        dim: impl Fn(usize) -> usize,
    ) -> Result<()> {
        let short = || Error::new(Code::BadMessage, "a server's answer is shorter than what was asked for");
        if versions.len() != part.pieces.len() {
            return Err(short());
        }
        let mut next = |bytes: usize| if bytes <= body.len() { Ok(body.split_to(bytes)) } else { Err(short()) };
        for (i, &version) in part.pieces.zip(versions) {
            if version != 0 {
                self.versions[i] = version;
                self.pieces[i] = Some(next(4 * pieces[i].elements.len())?);
            }
        }
        for run in part.row_pull {
            let bytes = next(4 * run.range.len() * dim(run.set))?;
            self.rows.push((run, bytes));
        }
        Ok(())
    }
}

/// Returns the rows of one set in order.
pub(super) fn rows_of(
    number: usize,
    set: &RowSet,
    remote: &RemoteModel,
    answers: &[Answer],
    executor: Executor,
) -> Vec<f32> {
    let dim = remote.dim(set);
    if let Some(server) = (0..answers.len()).find(|&server| set.all_on(server)) {
        let runs = answers[server].rows.iter().filter(|(run, _)| run.set == number);
        return numbers_of(runs.map(|(_, bytes)| bytes), executor);
    }
    let mut numbers = vec![0.0; set.unique().len() * dim];
    for (server, answer) in answers.iter().enumerate() {
        for (run, bytes) in answer.rows.iter().filter(|(run, _)| run.set == number) {
            let rows = bytes.chunks_exact(4 * dim);
            for (&at, row) in set.on(server)[run.range.clone()].iter().zip(rows) {
                phalanx_base::read_f32s(row, &mut numbers[at as usize * dim..][..dim]);
            }
        }
    }
    numbers
}

/// Assembles the pieces of each variable. A variable of which only some pieces changed counts as unchanged and is pulled
/// completely next time.
pub(super) fn assemble(
    remote: &mut RemoteModel,
    answers: Vec<Answer>,
    executor: Executor,
) -> Vec<Option<PulledValues>> {
    let RemoteModel { layout, pieces, held, .. } = remote;
    let mut found: Vec<Vec<(usize, Bytes)>> = vec![Vec::new(); layout.variables().len()];
    let mut missing = vec![false; layout.variables().len()];
    for (server, answer) in answers.into_iter().enumerate() {
        for (i, bytes) in answer.pieces.into_iter().enumerate() {
            let piece = &pieces[server][i];
            let shard = &layout.shards()[piece.shard];
            match bytes {
                Some(bytes) => {
                    held[server][i] = answer.versions[i];
                    found[shard.variable].push((shard.elements.start + piece.elements.start, bytes));
                }
                None => missing[shard.variable] = true,
            }
        }
    }
    for (variable, found) in found.iter_mut().enumerate() {
        if missing[variable] && !found.is_empty() {
            found.clear();
            for (held, pieces) in held.iter_mut().zip(pieces.iter()) {
                let of_variable = |piece: &Piece| layout.shards()[piece.shard].variable == variable;
                held.iter_mut().zip(pieces).filter(|(_, piece)| of_variable(piece)).for_each(|(held, _)| *held = 0);
            }
        }
        found.sort_unstable_by_key(|&(at, _)| at);
    }
    executor.map(found, |found| match &found[..] {
        [] => None,
        // Not copied, where one server sent it as one piece.
        [(_, bytes)] if in_place(bytes).is_some() => Some(PulledValues(bytes.clone())),
        pieces => {
            Some(PulledValues(Bytes::from_owner(Owned(numbers_of(pieces.iter().map(|(_, bytes)| bytes), executor)))))
        }
    })
}

/// A variable's numbers, aligned and in native byte order. They may lie in memory of the connection: keeping them beyond the
/// next exchange keeps that memory.
#[derive(Clone, Debug)]
pub struct PulledValues(Bytes);

impl Deref for PulledValues {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // Checked at construction.
        bytemuck::try_cast_slice(&self.0).unwrap_or_default()
    }
}

impl AsRef<[u8]> for PulledValues {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

struct Owned(Vec<f32>);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

fn numbers_of<'a>(pieces: impl Iterator<Item = &'a Bytes> + Clone, executor: Executor) -> Vec<f32> {
    let mut numbers = Vec::with_capacity(pieces.clone().map(|bytes| bytes.len() / 4).sum());
    for bytes in pieces {
        match in_place(bytes) {
            Some(piece) => executor.append(piece, &mut numbers),
            None => numbers.extend(bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four))),
        }
    }
    numbers
}
