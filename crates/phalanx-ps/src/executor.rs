//! The threads that do the work of one exchange.

use rayon::iter::{
    IndexedParallelIterator, IntoParallelIterator, IntoParallelRefIterator, ParallelExtend, ParallelIterator,
};

/// The threads that do the work of one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// The calling thread. A server's other threads serve other workers meanwhile.
    Serial,
    /// All compute threads: in a job that is one process they wait for the exchange anyway.
    Parallel,
}

impl Executor {
    /// Runs both closures, in parallel if there are several threads, and returns their results.
    pub(crate) fn join<A: Send, B: Send>(
        self,
        one: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        match self {
            Self::Serial => (one(), other()),
            Self::Parallel => rayon::join(one, other),
        }
    }

    /// Maps the items in order.
    pub(crate) fn map<T: Send, R: Send>(self, items: Vec<T>, each: impl Fn(T) -> R + Send + Sync) -> Vec<R> {
        match self {
            Self::Serial => items.into_iter().map(each).collect(),
            Self::Parallel => items.into_par_iter().map(each).collect(),
        }
    }

    /// Appends `numbers` to `to`.
    pub(crate) fn append(self, numbers: &[f32], to: &mut Vec<f32>) {
        const ENOUGH: usize = 1 << 15;
        if self.splits(numbers.len(), ENOUGH) {
            to.par_extend(numbers.par_iter().with_min_len(ENOUGH).copied());
        } else {
            to.extend_from_slice(numbers);
        }
    }

    /// Whether `work` is worth a second thread, where `enough` is worth one.
    pub(crate) fn splits(self, work: usize, enough: usize) -> bool {
        self == Self::Parallel && work > 2 * enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_append_what_one_appends() {
        let numbers: Vec<f32> = (0..200_000_u32).map(|i| i as f32).collect();
        for executor in [Executor::Serial, Executor::Parallel] {
            let mut all = vec![-1.0];
            executor.append(&numbers, &mut all);
            assert!(all[0] == -1.0 && all[1..] == numbers);
        }
    }
}
