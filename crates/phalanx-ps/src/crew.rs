//! Who does the work of one exchange.

use rayon::iter::{
    IndexedParallelIterator, IntoParallelIterator, IntoParallelRefIterator, ParallelExtend, ParallelIterator,
};

/// Who does the work of one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crew {
    /// One thread. A server's other threads attend to other workers meanwhile.
    Alone,
    /// All threads that compute: in a job that is one process they wait for the exchange anyway.
    Compute,
}

impl Crew {
    /// What both return; side by side where there are several to do it.
    pub(crate) fn both<A: Send, B: Send>(
        self,
        one: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        match self {
            Self::Alone => (one(), other()),
            Self::Compute => rayon::join(one, other),
        }
    }

    /// What `each` makes of the items, in their order.
    pub(crate) fn map<T: Send, R: Send>(self, items: Vec<T>, each: impl Fn(T) -> R + Send + Sync) -> Vec<R> {
        match self {
            Self::Alone => items.into_iter().map(each).collect(),
            Self::Compute => items.into_par_iter().map(each).collect(),
        }
    }

    /// Appends numbers to others.
    pub(crate) fn append(self, numbers: &[f32], to: &mut Vec<f32>) {
        const ENOUGH: usize = 1 << 15;
        if self.shares(numbers.len(), ENOUGH) {
            to.par_extend(numbers.par_iter().with_min_len(ENOUGH).copied());
        } else {
            to.extend_from_slice(numbers);
        }
    }

    /// Whether so much work is worth a second thread, `enough` being what one does without noticing.
    pub(crate) fn shares(self, work: usize, enough: usize) -> bool {
        self == Self::Compute && work > 2 * enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_append_what_one_appends() {
        let numbers: Vec<f32> = (0..200_000_u32).map(|i| i as f32).collect();
        for crew in [Crew::Alone, Crew::Compute] {
            let mut all = vec![-1.0];
            crew.append(&numbers, &mut all);
            assert!(all[0] == -1.0 && all[1..] == numbers);
        }
    }
}
