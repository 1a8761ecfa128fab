//! Memory for answers inside of a process, to be used again: fresh memory is filled with zeros, by one thread while all
//! others wait.

use std::sync::{Arc, Mutex, PoisonError};

/// Shorter answers are written into memory of their own.
const WORTH_KEEPING: usize = 1 << 16;
/// So many are kept at most: the answers to one step's parts, and to those of the step before.
const MOST: usize = 8;

/// What is free at the moment.
#[derive(Debug, Default)]
pub(crate) struct Spares(Mutex<Vec<Vec<u8>>>);

impl Spares {
    /// So many bytes, where that is worth it; what they hold is of no meaning.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Option<Spare> {
        if len < WORTH_KEEPING {
            return None;
        }
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = free.iter().enumerate().filter(|(_, bytes)| bytes.len() >= len).min_by_key(|(_, bytes)| bytes.len());
        let bytes = fits.map(|(at, _)| at).map(|at| free.swap_remove(at));
        drop(free);
        Some(Spare { bytes: bytes.unwrap_or_else(|| vec![0; len]), len, home: Arc::clone(self) })
    }

    fn put(&self, bytes: Vec<u8>) {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(bytes);
        if free.len() > MOST {
            let shortest = free.iter().enumerate().min_by_key(|(_, bytes)| bytes.len()).map(|(at, _)| at);
            shortest.map(|at| free.swap_remove(at));
        }
    }
}

/// Bytes that go home when they are let go.
#[derive(Debug)]
pub(crate) struct Spare {
    bytes: Vec<u8>,
    /// So many of them are in use.
    len: usize,
    home: Arc<Spares>,
}

impl AsRef<[u8]> for Spare {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl AsMut<[u8]> for Spare {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.home.put(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(spares: &Arc<Spares>, len: usize) -> Spare {
        spares.take(len).unwrap()
    }

    #[test]
    fn what_was_let_go_is_taken_again_and_what_is_in_use_is_not() {
        let spares = Arc::new(Spares::default());
        let mut first = take(&spares, 100_000);
        first.as_mut().fill(7);
        let (at, second) = (first.as_ref().as_ptr(), take(&spares, 100_000));
        assert_ne!(second.as_ref().as_ptr(), at);
        drop(first);
        let third = take(&spares, 90_000);
        assert_eq!((third.as_ref().as_ptr(), third.as_ref().len()), (at, 90_000));
        assert!(third.as_ref().iter().all(|&byte| byte == 7), "it was filled for nothing");
        assert_eq!(take(&spares, 100_001).as_ref(), vec![0; 100_001], "too short to be used again");
        assert!(spares.take(10).is_none());
    }

    #[test]
    fn only_so_many_are_kept_and_of_those_the_longest() {
        let spares = Arc::new(Spares::default());
        drop((0..2 * MOST).map(|i| take(&spares, WORTH_KEEPING + i)).collect::<Vec<_>>());
        let mut kept: Vec<usize> = spares.0.lock().unwrap().iter().map(Vec::len).collect();
        kept.sort_unstable();
        assert_eq!(kept, (MOST..2 * MOST).map(|i| WORTH_KEEPING + i).collect::<Vec<_>>());
    }
}
