//! Who does the work of one exchange.

use rayon::iter::{IntoParallelIterator, ParallelIterator};

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

    /// Whether so much work is worth a second thread, `enough` being what one does without noticing.
    pub(crate) fn shares(self, work: usize, enough: usize) -> bool {
        self == Self::Compute && work > 2 * enough
    }
}
