//! Row gradients of a round that is not closed yet (synchronous mode).

use super::index::hash;
use hashbrown::HashTable;

/// Sums of row gradients. Each row is averaged over the gradients that had it, as TensorFlow's sparse accumulator does, unless
/// the table is updated as variables are.
#[derive(Default)]
pub(super) struct PendingRows {
    pub(super) round: u64,
    index: HashTable<(i64, usize)>,
    ids: Vec<i64>,
    counts: Vec<u32>,
    sums: Vec<f32>,
}

impl PendingRows {
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn add(&mut self, id: i64, gradient: &[f32]) {
        let Self { index, ids, counts, sums, .. } = self;
        let entry = index.entry(hash(id), |&(known, _)| known == id, |&(known, _)| hash(known));
        let &mut (_, at) = entry
            .or_insert_with(|| {
                ids.push(id);
                counts.push(0);
                sums.resize(sums.len() + gradient.len(), 0.0);
                (id, ids.len() - 1)
            })
            .into_mut();
        counts[at] += 1;
        sums[at * gradient.len()..].iter_mut().zip(gradient).for_each(|(sum, x)| *sum += x);
    }

    /// Returns every row's id and the mean of its gradients, which have `dim` numbers: over those that had it, or over `all`.
    pub(super) fn means(&mut self, dim: usize, all: Option<u32>) -> impl Iterator<Item = (i64, &[f32])> {
        let rows = self.ids.iter().zip(&self.counts).zip(self.sums.chunks_exact_mut(dim));
        rows.map(move |((&id, &count), sum)| {
            let scale = 1.0 / all.unwrap_or(count).max(1) as f32;
            sum.iter_mut().for_each(|x| *x *= scale);
            (id, &*sum)
        })
    }
}
