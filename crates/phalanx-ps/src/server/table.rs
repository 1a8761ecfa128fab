//! A server's part of a table: rows by id, each laid out as value then slots.
//!
//! Hot path: the ids of a request are grouped by stripe, so each lock is taken once a request; no allocation per row.

use super::index::{STRIPES, stripe_of, tag};
use super::lock;
use super::round_counts::RoundCounts;
use super::slabs::{BLOCK, RowLocation};
use super::snapshot::{Clock, SnapshotKind};
use super::stripe::{Stripe, stages};
use crate::Executor;
use crate::plan::RowInitializer;
use phalanx_base::{Result, as_f32s, prefetch, read_f32s};
use phalanx_optim::{Optimizer, Rule};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) dim: usize,
    pub(crate) initializer: RowInitializer,
    pub(crate) optimizer: Optimizer,
    /// The server that holds all rows; `None` where they are spread by id.
    pub(crate) pinned: Option<usize>,
    /// Numbers in a row, slots included.
    width: usize,
    stripes: Vec<Mutex<Stripe>>,
    updates: AtomicU64,
    closed: AtomicU64,
    /// The updates of each round, where the table is updated as variables are. Locked after a stripe, or alone.
    rounds: Mutex<RoundCounts>,
    clock: Arc<Clock>,
}

impl Table {
    pub(crate) fn new(
        name: String,
        dim: usize,
        initializer: RowInitializer,
        optimizer: Optimizer,
        clock: Arc<Clock>,
    ) -> Self {
        let width = dim * (1 + optimizer.slot_count());
        let stripes = (0..STRIPES).map(|_| Mutex::new(Stripe::new(width))).collect();
        let (updates, closed) = (AtomicU64::new(0), AtomicU64::new(0));
        let rounds = Mutex::default();
        Self { name, dim, initializer, optimizer, pinned: None, width, stripes, updates, closed, rounds, clock }
    }

    /// Notes which server holds all rows.
    pub(crate) fn pinned(self, pinned: Option<usize>) -> Self {
        Self { pinned, ..self }
    }

    /// Returns the number of numbers in a row, slots included.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| lock(stripe).ids.len()).sum()
    }

    /// Writes the rows of `ids` into `out` in order; rows that do not exist are created.
    pub(crate) fn pull(&self, ids: &[i64], out: &mut [u8], executor: Executor) -> Result<()> {
        if executor.splits(ids.len() * self.dim, BLOCK) {
            let (first, second) = ids.split_at(ids.len() / 2);
            let (one, other) = out.split_at_mut(4 * self.dim * first.len());
            let (one, other) = executor.join(|| self.pull(first, one, executor), || self.pull(second, other, executor));
            return one.and(other);
        }
        let closed = self.closed.load(Ordering::Acquire);
        let bytes = 4 * self.dim;
        let mut locations = Vec::new();
        self.each_stripe(ids, |stripe, group| {
            self.settle(stripe, closed)?;
            self.find_all(stripe, ids, group, &mut locations);
            let rows: Vec<&[f32]> = locations.iter().map(|&location| &stripe.rows.at(location)[..self.dim]).collect();
            for [ahead, ready] in stages(group.len()) {
                rows[ahead].iter().for_each(|row| prefetch(row));
                for (row, &at) in rows[ready.clone()].iter().zip(&group[ready]) {
                    out[at as usize * bytes..][..bytes].copy_from_slice(bytemuck::cast_slice(row));
                }
            }
            Ok(())
        })
    }

    /// Counts an update and returns its rule, with `rate` in place of the optimizer's if there is one. An update that
    /// `continues` one in an earlier message is not counted again.
    pub(crate) fn rule(&self, rate: Option<f32>, continues: bool) -> Rule {
        let step = if continues {
            self.updates.load(Ordering::Acquire).max(1)
        } else {
            self.updates.fetch_add(1, Ordering::AcqRel).saturating_add(1)
        };
        rate.map_or(self.optimizer, |rate| self.optimizer.with_learning_rate(rate)).at_step(step)
    }

    /// Applies row gradients at once. Ids are unique.
    pub(crate) fn push(&self, rule: &Rule, ids: &[i64], gradients: &[u8], executor: Executor) -> Result<()> {
        if executor.splits(ids.len() * self.dim, BLOCK) {
            let (first, second) = ids.split_at(ids.len() / 2);
            let (one, other) = gradients.split_at(4 * self.dim * first.len());
            let (one, other) =
                executor.join(|| self.push(rule, first, one, executor), || self.push(rule, second, other, executor));
            return one.and(other);
        }
        let mut gradient = vec![0.0; self.dim];
        let mut locations = Vec::new();
        self.each_stripe(ids, |stripe, group| {
            self.find_all(stripe, ids, group, &mut locations);
            for [ahead, ready] in stages(group.len()) {
                locations[ahead.clone()].iter().for_each(|&location| prefetch(stripe.rows.at(location)));
                // Another core or a socket has just written them: they are not cached here either.
                group[ahead].iter().for_each(|&at| prefetch(self.slice(gradients, at)));
                for (&location, &at) in locations[ready.clone()].iter().zip(&group[ready]) {
                    let gradient = as_f32s(self.slice(gradients, at), &mut gradient);
                    rule.apply(stripe.rows.change(location, self.clock.now()), gradient)?;
                }
            }
            Ok(())
        })
    }

    /// Counts an update of a round whose mean is over all its updates, with or without rows here; `counts` is false for the
    /// later parts of one that was counted.
    pub(crate) fn count_in_round(&self, round: u64, rate: Option<f32>, counts: bool) -> Result<()> {
        if round < self.close(round) {
            return Ok(());
        }
        if lock(&self.rounds).count(round, rate, counts) {
            // Every stripe takes the rounds before, so that their counts are not needed any more.
            for stripe in &self.stripes {
                self.settle(&mut lock(stripe), round)?;
            }
            lock(&self.rounds).drop_before(round);
        }
        Ok(())
    }

    /// Adds row gradients to their round; returns `false` if the round is closed already.
    pub(crate) fn contribute(&self, round: u64, ids: &[i64], gradients: &[u8]) -> Result<bool> {
        if round < self.close(round) {
            return Ok(false);
        }
        let mut gradient = vec![0.0; self.dim];
        let mut taken = true;
        self.each_stripe(ids, |stripe, group| {
            self.settle(stripe, round)?;
            if round < stripe.settled {
                // The round was closed since we looked.
                taken = false;
                return Ok(());
            }
            stripe.pending.round = round;
            for &at in group {
                read_f32s(self.slice(gradients, at), &mut gradient);
                stripe.pending.add(ids[at as usize], &gradient);
            }
            Ok(())
        })?;
        Ok(taken)
    }

    /// See [`super::dense::Dense::close`].
    pub(crate) fn close(&self, closed: u64) -> u64 {
        self.closed.fetch_max(closed, Ordering::AcqRel).max(closed)
    }

    /// Replaces rows with their slots, as a restore does.
    pub(crate) fn assign(&self, ids: &[i64], rows: &[u8]) -> Result<()> {
        let bytes = 4 * self.width();
        self.each_stripe(ids, |stripe, group| {
            for &at in group {
                read_f32s(&rows[at as usize * bytes..][..bytes], self.row(stripe, ids[at as usize]));
            }
            Ok(())
        })
    }

    /// Replaces the values of rows in a model in training, with the gradients of rounds below `closed`; slots are kept.
    pub(crate) fn replace(&self, closed: u64, ids: &[i64], rows: &[u8]) -> Result<()> {
        let closed = self.close(closed);
        self.each_stripe(ids, |stripe, group| {
            self.settle(stripe, closed)?;
            for &at in group {
                read_f32s(self.slice(rows, at), &mut self.row(stripe, ids[at as usize])[..self.dim]);
            }
            Ok(())
        })
    }

    /// Sets the number of updates, as a restore does.
    pub(crate) fn set_updates(&self, updates: u64, closed: u64) {
        self.updates.store(updates, Ordering::Release);
        self.close(closed);
    }

    /// Begins a snapshot and returns the numbers of updates, of rounds, and of rows of each stripe. Updates wait meanwhile.
    pub(crate) fn begin_snapshot(&self, closed: u64) -> Result<(u64, u64, Vec<usize>)> {
        let closed = self.close(closed);
        let mut rows = Vec::with_capacity(STRIPES);
        for stripe in &self.stripes {
            let mut stripe = lock(stripe);
            self.settle(&mut stripe, closed)?;
            rows.push(stripe.ids.len());
        }
        Ok((self.updates.load(Ordering::Acquire), closed, rows))
    }

    /// Calls `each` with the ids at the snapshot, which had `rows` in each stripe.
    pub(crate) fn read_snapshot_ids(&self, rows: &[usize], mut each: impl FnMut(&[i64]) -> Result<()>) -> Result<()> {
        let mut copy = Vec::with_capacity(BLOCK);
        for (stripe, &rows) in self.stripes.iter().zip(rows) {
            for first in (0..rows).step_by(BLOCK) {
                copy.clear();
                copy.extend_from_slice(&lock(stripe).ids[first..rows.min(first + BLOCK)]);
                each(&copy)?;
            }
        }
        Ok(())
    }

    /// Calls `each` with their values (`part` 0) or a slot (from 1) at the snapshot, in the same order.
    pub(crate) fn read_snapshot(
        &self,
        kind: SnapshotKind,
        part: usize,
        rows: &[usize],
        mut each: impl FnMut(&[f32]) -> Result<()>,
    ) -> Result<()> {
        let mut copy = Vec::with_capacity(BLOCK);
        for (stripe, &rows) in self.stripes.iter().zip(rows) {
            let block_rows = lock(stripe).rows.block_rows();
            for (block, first) in (0..rows).step_by(block_rows).enumerate() {
                let count = block_rows.min(rows - first);
                copy.clear();
                for row in lock(stripe).rows.read_snapshot(kind, block).chunks_exact(self.width).take(count) {
                    copy.extend_from_slice(&row[part * self.dim..][..self.dim]);
                }
                each(&copy)?;
            }
        }
        Ok(())
    }

    /// Drops the copies for `snapshot`.
    pub(crate) fn release_snapshot(&self, kind: SnapshotKind, snapshot: u64) {
        self.stripes.iter().for_each(|stripe| lock(stripe).rows.release_snapshot(kind, snapshot));
    }

    fn slice<'a>(&self, gradients: &'a [u8], at: u32) -> &'a [u8] {
        let bytes = 4 * self.dim;
        &gradients[at as usize * bytes..][..bytes]
    }

    fn settle(&self, stripe: &mut Stripe, closed: u64) -> Result<()> {
        stripe.settled = stripe.settled.max(closed);
        if stripe.pending.round >= closed || stripe.pending.is_empty() {
            return Ok(());
        }
        let mut pending = std::mem::take(&mut stripe.pending);
        let counted = lock(&self.rounds).of(pending.round);
        let rate = counted.and_then(|(_, rate)| rate);
        let optimizer = rate.map_or(self.optimizer, |rate| self.optimizer.with_learning_rate(rate));
        let rule = optimizer.at_step(pending.round + 1);
        for (id, mean) in pending.means(self.dim, counted.map(|(updates, _)| updates)) {
            rule.apply(self.row(stripe, id), mean)?;
        }
        Ok(())
    }

    /// Locates the rows of a group and creates those that do not exist. All are located before the first is touched:
    /// otherwise the lookups in between would keep prefetches of rows from being issued back to back.
    fn find_all(&self, stripe: &mut Stripe, ids: &[i64], group: &[u32], locations: &mut Vec<RowLocation>) {
        locations.clear();
        let tags: Vec<u64> = group.iter().map(|&at| tag(ids[at as usize])).collect();
        for [ahead, ready] in stages(group.len()) {
            tags[ahead].iter().for_each(|&tag| stripe.index.prefetch(tag));
            for (&tag, &at) in tags[ready.clone()].iter().zip(&group[ready]) {
                locations.push(self.find(stripe, ids[at as usize], tag));
            }
        }
    }

    /// Returns the row of an id, to be changed.
    fn row<'a>(&self, stripe: &'a mut Stripe, id: i64) -> &'a mut [f32] {
        let location = self.find(stripe, id, tag(id));
        stripe.rows.change(location, self.clock.now())
    }

    /// Locates the row of `id` with this tag; creates one that does not exist.
    fn find(&self, stripe: &mut Stripe, id: i64, tag: u64) -> RowLocation {
        let row = stripe.index.find(tag).unwrap_or_else(|| self.create(stripe, id, tag));
        stripe.rows.location(row)
    }

    /// Creates a row. Separate from [`Self::find`], which is hot and must stay short.
    #[cold]
    fn create(&self, stripe: &mut Stripe, id: i64, tag: u64) -> usize {
        let row = stripe.index.add(tag);
        stripe.ids.push(id);
        let numbers = stripe.rows.add(self.clock.now());
        self.optimizer.init_slots(numbers);
        self.initializer.fill(id, &mut numbers[..self.dim]);
        row
    }

    /// Calls `each` for every stripe that has some of `ids`, with their positions.
    fn each_stripe(&self, ids: &[i64], mut each: impl FnMut(&mut Stripe, &[u32]) -> Result<()>) -> Result<()> {
        // A counting sort by stripe.
        let mut starts = [0_u32; STRIPES + 1];
        ids.iter().for_each(|&id| starts[stripe_of(id) + 1] += 1);
        (0..STRIPES).for_each(|i| starts[i + 1] += starts[i]);
        let mut next = starts;
        let mut order = vec![0_u32; ids.len()];
        for (at, &id) in (0..).zip(ids) {
            let slot = &mut next[stripe_of(id)];
            order[*slot as usize] = at;
            *slot += 1;
        }
        // Threads that share a request start at different stripes, so that they seldom meet.
        let first = ids.first().map_or(0, |&id| stripe_of(id));
        for i in (first..STRIPES).chain(0..first) {
            let group = &order[starts[i] as usize..starts[i + 1] as usize];
            if !group.is_empty() {
                each(&mut lock(&self.stripes[i]), group)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::write_f32s;
    use phalanx_optim::{Adagrad, Sgd};

    fn table(optimizer: impl Into<Optimizer>) -> Table {
        Table::new("t".into(), 2, RowInitializer::constant(1.0), optimizer.into(), Arc::default())
    }

    fn rows(table: &Table, ids: &[i64]) -> Vec<f32> {
        let mut out = vec![0; 8 * ids.len()];
        table.pull(ids, &mut out, Executor::Serial).unwrap();
        let mut numbers = vec![0.0; 2 * ids.len()];
        read_f32s(&out, &mut numbers);
        numbers
    }

    fn bytes(numbers: &[f32]) -> Vec<u8> {
        let mut out = Vec::new();
        write_f32s(numbers, &mut out);
        out
    }

    #[test]
    fn only_touched_rows_change() {
        let table = table(Sgd::new(0.5));
        let rule = table.rule(None, false);
        table.push(&rule, &[7, -3], &bytes(&[1.0, 2.0, 4.0, 0.0]), Executor::Serial).unwrap();
        assert_eq!(rows(&table, &[-3, 5, 7]), [-1.0, 1.0, 1.0, 1.0, 0.5, 0.0]);
    }

    #[test]
    fn many_rows_keep_apart_and_come_back_in_the_order_asked_for() {
        let table =
            Table::new("t".into(), 2, RowInitializer::uniform(-1.0, 1.0, 3), Adagrad::new(0.1).into(), Arc::default());
        let ids: Vec<i64> = (0..5000).map(|i| i * 7919 - 1_000_000).collect();
        let first = rows(&table, &ids);
        let backwards: Vec<i64> = ids.iter().rev().copied().collect();
        let again = rows(&table, &backwards);
        assert!(ids.iter().enumerate().all(|(i, _)| first[2 * i] == again[2 * (ids.len() - 1 - i)]));
        let mut expected = [0.0; 2];
        RowInitializer::uniform(-1.0, 1.0, 3).fill(ids[4321], &mut expected);
        assert_eq!(first[2 * 4321..][..2], expected);
    }

    #[test]
    fn many_threads_make_of_a_push_what_one_makes() {
        let ids: Vec<i64> = (0..50_000).map(|i| i * 7919 - 1_000_000).collect();
        let gradients: Vec<f32> = (0..2 * ids.len()).map(|i| (i % 977) as f32 / 100.0).collect();
        let pushed = |executor| {
            let table = table(Adagrad::new(0.1));
            (0..2).for_each(|_| {
                table.push(&table.rule(None, false), &ids, &bytes(&gradients), executor).unwrap();
            });
            let mut out = vec![0; 8 * ids.len()];
            table.pull(&ids, &mut out, executor).unwrap();
            out
        };
        assert_eq!(pushed(Executor::Serial), pushed(Executor::Parallel));
    }

    #[test]
    fn a_round_averages_each_row_over_the_gradients_that_had_it() {
        let table = table(Sgd::new(1.0));
        assert!(table.contribute(0, &[1, 2], &bytes(&[1.0, 1.0, 1.0, 1.0])).unwrap());
        assert!(table.contribute(0, &[2], &bytes(&[3.0, 3.0])).unwrap());
        assert_eq!(rows(&table, &[1, 2]), [1.0; 4]);
        table.close(1);
        assert_eq!(rows(&table, &[1, 2]), [0.0, 0.0, -1.0, -1.0]);
        assert!(!table.contribute(0, &[1], &bytes(&[9.0, 9.0])).unwrap());
    }

    #[test]
    fn a_round_of_a_table_like_a_variable_averages_over_all_its_updates() {
        let table = table(Sgd::new(1.0));
        table.count_in_round(0, None, true).unwrap();
        assert!(table.contribute(0, &[1, 2], &bytes(&[1.0, 1.0, 1.0, 1.0])).unwrap());
        table.count_in_round(0, None, false).unwrap();
        table.count_in_round(0, None, true).unwrap();
        assert!(table.contribute(0, &[2], &bytes(&[2.0, 2.0])).unwrap());
        // The next round has begun before anybody looks at the rows, and has another learning rate.
        table.count_in_round(1, Some(0.5), true).unwrap();
        assert!(table.contribute(1, &[1], &bytes(&[1.0, 1.0])).unwrap());
        table.close(2);
        assert_eq!(rows(&table, &[1, 2]), [0.0, 0.0, -0.5, -0.5]);
        table.count_in_round(0, None, true).unwrap();
        table.replace(2, &[2], &bytes(&[7.0, 8.0])).unwrap();
        assert_eq!(rows(&table, &[1, 2]), [0.0, 0.0, 7.0, 8.0]);
    }
}
