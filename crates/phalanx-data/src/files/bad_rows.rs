//! What happens to rows that do not parse.

use phalanx_base::{Error, Result};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// What a reader does with a bad row: stop (the default), or skip and count it.
///
/// Clones share their count: keep one to query how many rows were skipped.
///
/// ```
/// use phalanx_data::BadRows;
/// let bad = BadRows::skip_at_most(100);
/// // csv("data/*.csv").bad_rows(bad.clone()) …
/// assert_eq!(bad.skipped(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct BadRows {
    /// `None` stops at the first one.
    limit: Option<u64>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Part and place of each, so that a second epoch does not count them again. Never more than the limit.
    places: HashSet<(usize, u64)>,
    first: Option<Error>,
}

impl BadRows {
    /// Stops reading at the first bad row, with its error.
    #[must_use]
    pub fn stop() -> Self {
        Self { limit: None, seen: Arc::default() }
    }

    /// Skips bad rows; more than `limit` different ones stop the reading.
    #[must_use]
    pub fn skip_at_most(limit: u64) -> Self {
        Self { limit: Some(limit), seen: Arc::default() }
    }

    /// Returns how many different rows were skipped so far.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.seen().places.len() as u64
    }

    /// Returns the error of the first row that was skipped.
    #[must_use]
    pub fn first(&self) -> Option<Error> {
        self.seen().first.clone()
    }

    /// Decides whether a reader may continue after this error, found in `part` at `place`.
    pub(crate) fn accept(&self, part: usize, place: u64, error: Error) -> Result<()> {
        let Some(limit) = self.limit else { return Err(error) };
        let mut seen = self.seen();
        if seen.places.contains(&(part, place)) {
            return Ok(());
        }
        if seen.places.len() as u64 >= limit {
            let help =
                format!("{limit} bad rows were skipped before it, which is the limit; raise it, or correct the data");
            return Err(error.help(help));
        }
        seen.places.insert((part, place));
        seen.first.get_or_insert(error);
        Ok(())
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for BadRows {
    fn default() -> Self {
        Self::stop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::Code;

    #[test]
    fn each_row_counts_once_up_to_the_limit() {
        let error = |what: &str| Error::new(Code::DataRow, what);
        let bad = BadRows::skip_at_most(2);
        bad.accept(0, 10, error("one")).unwrap();
        bad.accept(0, 10, error("one again")).unwrap();
        bad.clone().accept(1, 10, error("two")).unwrap();
        assert_eq!((bad.skipped(), bad.first().unwrap().what()), (2, "one"));
        let last = bad.accept(1, 20, error("three")).unwrap_err();
        assert!(last.what() == "three" && last.next().unwrap().contains("2 bad rows were skipped"));
        assert!(BadRows::stop().accept(0, 0, error("x")).is_err());
    }
}
