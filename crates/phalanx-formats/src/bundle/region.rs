//! Boxes of indices: what two of them share, and how its elements lie in each.

/// Per dimension where it starts and how long it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region(Vec<(usize, usize)>);

/// A run of elements that lie side by side in both of two regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The first element's place in the region copied from.
    pub(super) from: usize,
    /// The first element's place in the region copied to.
    pub(super) to: usize,
    /// How many elements.
    pub(super) count: usize,
}

impl Region {
    /// Starts and lengths; the caller has checked them against a shape, so nothing here overflows.
    pub(super) fn new(ranges: Vec<(usize, usize)>) -> Self {
        Self(ranges)
    }

    pub(super) fn dims(&self) -> Vec<usize> {
        self.0.iter().map(|&(_, length)| length).collect()
    }

    pub(super) fn elements(&self) -> usize {
        self.0.iter().map(|&(_, length)| length).product()
    }

    /// Where the region starts in dimension 0.
    pub(super) fn first_row(&self) -> usize {
        self.0.first().map_or(0, |&(start, _)| start)
    }

    /// The index after the last of dimension 0.
    pub(super) fn end_row(&self) -> usize {
        self.0.first().map_or(1, |&(start, length)| start + length)
    }

    /// What both have; `None` where that is nothing.
    pub(super) fn intersection(&self, other: &Self) -> Option<Self> {
        let shared = |(&(a, a_length), &(b, b_length)): (&(usize, usize), &(usize, usize))| {
            let start = a.max(b);
            let end = (a + a_length).min(b + b_length);
            (end > start).then(|| (start, end - start))
        };
        self.0.iter().zip(&other.0).map(shared).collect::<Option<_>>().map(Self)
    }

    /// The runs that bring what `from` and `to` share from one to the other, in ascending order of both places.
    pub(super) fn runs(from: &Self, to: &Self) -> impl Iterator<Item = Run> + use<> {
        let shared = from.intersection(to).map_or(Vec::new(), |shared| shared.0);
        let empty = shared.len() != from.0.len();
        // Dimensions from `inner` on are whole in both, so that they and the one before them make one run.
        let whole = |d: &usize| from.0[*d] == to.0[*d];
        let inner = (0..shared.len()).rev().take_while(whole).last().unwrap_or(shared.len());
        let outer = inner.saturating_sub(1);
        let count: usize = shared[outer..].iter().map(|&(_, length)| length).product();
        let runs: usize = shared[..outer].iter().map(|&(_, length)| length).product();
        let (from, to) = (from.clone(), to.clone());
        (0..if empty { 0 } else { runs }).map(move |mut number| {
            let mut index: Vec<usize> = shared.iter().map(|&(start, _)| start).collect();
            for d in (0..outer).rev() {
                index[d] += number % shared[d].1;
                number /= shared[d].1;
            }
            Run { from: from.place(&index), to: to.place(&index), count }
        })
    }

    /// Where the element at `index` lies among the region's.
    fn place(&self, index: &[usize]) -> usize {
        self.0.iter().zip(index).fold(0, |place, (&(start, length), &i)| place * length + (i - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs(from: &[(usize, usize)], to: &[(usize, usize)]) -> Vec<(usize, usize, usize)> {
        let runs = Region::runs(&Region::new(from.to_vec()), &Region::new(to.to_vec()));
        runs.map(|run| (run.from, run.to, run.count)).collect()
    }

    #[test]
    fn rows_are_one_run_and_columns_one_each() {
        assert_eq!(runs(&[(2, 3), (0, 4)], &[(0, 8), (0, 4)]), [(0, 8, 12)]);
        assert_eq!(runs(&[(0, 3), (1, 2)], &[(0, 3), (0, 4)]), [(0, 1, 2), (2, 5, 2), (4, 9, 2)]);
        assert_eq!(runs(&[(0, 2)], &[(2, 2)]), []);
        assert_eq!(runs(&[], &[]), [(0, 0, 1)]);
    }

    proptest! {
        #[test]
        fn runs_carry_what_is_shared_once(
            pairs in proptest::collection::vec(((0..5_usize, 0..5_usize), (0..5_usize, 0..5_usize)), 0..4)
        ) {
            let (from, to): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let (from, to) = (Region::new(from), Region::new(to));
            let shared = from.intersection(&to).map_or(0, |shared| shared.elements());
            let runs: Vec<Run> = Region::runs(&from, &to).collect();
            prop_assert_eq!(runs.iter().map(|run| run.count).sum::<usize>(), shared);
            prop_assert!(runs.is_sorted_by(|a, b| a.from + a.count <= b.from && a.to + a.count <= b.to));
            prop_assert!(runs.iter().all(|r| r.from + r.count <= from.elements() && r.to + r.count <= to.elements()));
        }
    }
}
