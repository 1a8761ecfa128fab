//! Memory that values share whose lives do not overlap.

use crate::plan::Size;

/// How long something is needed: from the step in which it is written to the last one that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Interval {
    /// Returns the interval that contains both.
    pub(crate) fn with(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// Assigns slots to intervals, which are given by increasing start.
#[derive(Debug, Default)]
pub(crate) struct Slots(Vec<(Size, Vec<Interval>)>);

impl Slots {
    /// Returns the slot that has to grow least among those that are free for an interval.
    pub(crate) fn take(&mut self, interval: Interval, size: Size) -> usize {
        let free = |taken: &[Interval]| taken.iter().all(|own| own.end < interval.start || interval.end < own.start);
        // A slot of another kind would have to grow with the batch, or waste what grows.
        let grows = |own: Size| {
            ((own.each > 0) != (size.each > 0), own.each.abs_diff(size.each), own.fixed.abs_diff(size.fixed))
        };
        let found = (0..self.0.len()).filter(|slot| free(&self.0[*slot].1)).min_by_key(|slot| grows(self.0[*slot].0));
        let slot = found.filter(|slot| !grows(self.0[*slot].0).0).unwrap_or_else(|| {
            self.0.push((size, Vec::new()));
            self.0.len() - 1
        });
        let (own, taken) = &mut self.0[slot];
        *own = own.max(size);
        taken.push(interval);
        slot
    }

    pub(crate) fn sizes(self) -> Vec<Size> {
        self.0.into_iter().map(|(size, _)| size).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_at_the_same_time_has_slots_of_its_own() {
        let mut slots = Slots::default();
        let size = |each| Size { each, fixed: 0 };
        let mut take = |start, end, each| slots.take(Interval { start, end }, size(each));
        assert_eq!([take(0, 2, 8), take(1, 3, 4), take(3, 4, 6), take(4, 5, 5)], [0, 1, 0, 1]);
        assert_eq!(slots.sizes(), [size(8), size(5)]);
    }
}
