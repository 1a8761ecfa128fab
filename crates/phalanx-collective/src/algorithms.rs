//! Three all-reduce algorithms. The choice, and the order of additions, depends only on the group's size and the length, so
//! every member has the same bits in every run.

use crate::Reduce;
use crate::exchange::{Into, Member};
use crate::reduce::part;
use bytemuck::{cast_slice, cast_slice_mut};
use phalanx_base::Result;
use std::ops::Range;

/// Up to this many bytes the latency of a message dominates, so fewer and longer messages win: each step exchanges everything.
const DOUBLING: usize = 32 << 10;
/// Up to this many bytes halving-doubling beats the ring, which has more steps from four members on.
const HALVING: usize = 256 << 10;

impl Member {
    /// Reduces in place. `scratch` keeps its memory from call to call.
    pub(crate) fn all_reduce(&mut self, numbers: &mut [f32], reduce: Reduce, scratch: &mut Vec<f32>) -> Result<()> {
        let bytes = size_of_val(numbers);
        if self.size > 1 {
            match bytes {
                ..=DOUBLING => self.folded(numbers, |member, numbers| member.doubling(numbers, reduce, scratch))?,
                ..=HALVING if self.size > 2 => {
                    self.folded(numbers, |member, numbers| member.halving(numbers, reduce))?;
                }
                _ => self.ring(numbers, reduce)?,
            }
        }
        Ok(())
    }

    /// Returns the largest power of two that does not exceed the size.
    fn power(&self) -> usize {
        1 << self.size.ilog2()
    }

    /// Reduces the group to a power of two: the members beyond it send their numbers to one below and receive the result.
    fn folded(&mut self, numbers: &mut [f32], inner: impl FnOnce(&mut Self, &mut [f32]) -> Result<()>) -> Result<()> {
        let power = self.power();
        if self.rank >= power {
            let twin = self.rank - power;
            self.exchange(Some((twin, cast_slice(numbers))), None)?;
            return self.exchange(None, Some((twin, Into::Copy(cast_slice_mut(numbers)))));
        }
        let twin = Some(self.rank + power).filter(|&twin| twin < self.size);
        if let Some(twin) = twin {
            self.exchange(None, Some((twin, Into::Add(numbers))))?;
        }
        inner(self, numbers)?;
        match twin {
            Some(twin) => self.exchange(Some((twin, cast_slice(numbers))), None),
            None => Ok(()),
        }
    }

    /// Recursive doubling: each step exchanges everything with one other member.
    fn doubling(&mut self, numbers: &mut [f32], reduce: Reduce, scratch: &mut Vec<f32>) -> Result<()> {
        let mut distance = self.power() / 2;
        while distance > 0 {
            let partner = self.rank ^ distance;
            // The numbers being sent must not change while sums are added.
            scratch.clear();
            scratch.extend_from_slice(numbers);
            self.exchange(Some((partner, cast_slice(scratch))), Some((partner, Into::Add(numbers))))?;
            distance /= 2;
        }
        reduce.finish(numbers, self.size);
        Ok(())
    }

    /// Recursive halving, then doubling: each step halves what a member adds up, then the sums go back the same way. The order
    /// of additions is that of [`Self::doubling`].
    fn halving(&mut self, numbers: &mut [f32], reduce: Reduce) -> Result<()> {
        let mut own = 0..numbers.len();
        let mut steps: Vec<(usize, Range<usize>, Range<usize>)> = Vec::with_capacity(32);
        let mut distance = self.power() / 2;
        while distance > 0 {
            let partner = self.rank ^ distance;
            let middle = own.start + own.len() / 2;
            let (low, high) = (own.start..middle, middle..own.end);
            let (keep, give) = if self.rank & distance == 0 { (low, high) } else { (high, low) };
            let (sent, sums) = two(numbers, give.clone(), keep.clone());
            self.exchange(Some((partner, cast_slice(sent))), Some((partner, Into::Add(sums))))?;
            steps.push((partner, keep.clone(), give));
            own = keep;
            distance /= 2;
        }
        reduce.finish(&mut numbers[own], self.size);
        for (partner, keep, give) in steps.into_iter().rev() {
            let (sent, filled) = two(numbers, keep, give);
            self.exchange(Some((partner, cast_slice(sent))), Some((partner, Into::Copy(cast_slice_mut(filled)))))?;
        }
        Ok(())
    }

    /// Ring: each part of the numbers is added up on its way around, part `k` starting at rank `k`; then the sums go around. All
    /// members send and receive all the time.
    fn ring(&mut self, numbers: &mut [f32], reduce: Reduce) -> Result<()> {
        let (n, rank, length) = (self.size, self.rank, numbers.len());
        let (next, previous) = ((rank + 1) % n, (rank + n - 1) % n);
        let at = |steps_back: usize| part(length, n, (rank + 2 * n - steps_back) % n);
        for step in 0..n - 1 {
            let (sent, sums) = two(numbers, at(step), at(step + 1));
            self.exchange(Some((next, cast_slice(sent))), Some((previous, Into::Add(sums))))?;
        }
        reduce.finish(&mut numbers[at(n - 1)], n);
        for step in 0..n - 1 {
            let (sent, filled) = two(numbers, at(n - 1 + step), at(step));
            self.exchange(Some((next, cast_slice(sent))), Some((previous, Into::Copy(cast_slice_mut(filled)))))?;
        }
        Ok(())
    }
}

/// Returns two disjoint parts: one to read, one to change.
fn two(numbers: &mut [f32], read: Range<usize>, change: Range<usize>) -> (&[f32], &mut [f32]) {
    if read.end <= change.start {
        let (low, high) = numbers.split_at_mut(change.start);
        (&low[read], &mut high[..change.len()])
    } else {
        let (low, high) = numbers.split_at_mut(read.start);
        (&high[..read.len()], &mut low[change])
    }
}
