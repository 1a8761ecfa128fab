//! A pool of reply buffers for the in-process transport.

use std::sync::{Arc, Mutex, PoisonError};

/// Shorter replies are not pooled.
const MIN_LEN: usize = 1 << 16;
/// The most free buffers that are kept: enough for the replies to the parts of two steps.
const MAX_FREE: usize = 8;

/// The free buffers. Reusing them avoids zeroing fresh memory on the one thread that all others wait for.
#[derive(Debug, Default)]
pub(crate) struct BufferPool(Mutex<Vec<Vec<u8>>>);

impl BufferPool {
    /// Returns a buffer of `len` bytes with unspecified contents; `None` if `len` is too short to be worth pooling.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Option<PooledBuffer> {
        if len < MIN_LEN {
            return None;
        }
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = free.iter().enumerate().filter(|(_, bytes)| bytes.len() >= len).min_by_key(|(_, bytes)| bytes.len());
        let bytes = fits.map(|(at, _)| at).map(|at| free.swap_remove(at));
        drop(free);
        Some(PooledBuffer { bytes: bytes.unwrap_or_else(|| vec![0; len]), len, pool: Arc::clone(self) })
    }

    fn put(&self, bytes: Vec<u8>) {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(bytes);
        if free.len() > MAX_FREE {
            let shortest = free.iter().enumerate().min_by_key(|(_, bytes)| bytes.len()).map(|(at, _)| at);
            shortest.map(|at| free.swap_remove(at));
        }
    }
}

/// A buffer that returns to its pool when dropped.
#[derive(Debug)]
pub(crate) struct PooledBuffer {
    bytes: Vec<u8>,
    /// The number of bytes in use.
    len: usize,
    pool: Arc<BufferPool>,
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl AsMut<[u8]> for PooledBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        self.pool.put(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(pool: &Arc<BufferPool>, len: usize) -> PooledBuffer {
        pool.take(len).unwrap()
    }

    #[test]
    fn released_buffers_are_reused_and_others_are_not() {
        let pool = Arc::new(BufferPool::default());
        let mut first = take(&pool, 100_000);
        first.as_mut().fill(7);
        let (at, second) = (first.as_ref().as_ptr(), take(&pool, 100_000));
        assert_ne!(second.as_ref().as_ptr(), at);
        drop(first);
        let third = take(&pool, 90_000);
        assert_eq!((third.as_ref().as_ptr(), third.as_ref().len()), (at, 90_000));
        assert!(third.as_ref().iter().all(|&byte| byte == 7), "it was zeroed for nothing");
        assert_eq!(take(&pool, 100_001).as_ref(), vec![0; 100_001], "the free buffer is too short");
        assert!(pool.take(10).is_none());
    }

    #[test]
    fn the_longest_buffers_are_kept() {
        let pool = Arc::new(BufferPool::default());
        drop((0..2 * MAX_FREE).map(|i| take(&pool, MIN_LEN + i)).collect::<Vec<_>>());
        let mut kept: Vec<usize> = pool.0.lock().unwrap().iter().map(Vec::len).collect();
        kept.sort_unstable();
        assert_eq!(kept, (MAX_FREE..2 * MAX_FREE).map(|i| MIN_LEN + i).collect::<Vec<_>>());
    }
}
