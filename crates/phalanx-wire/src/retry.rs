//! Trying again, for a bounded time, and saying honestly how it ended.

use phalanx_base::Error;
use std::time::Duration;

/// How a request ended.
#[derive(Debug)]
pub enum Outcome<T> {
    /// It took effect, and this is the answer.
    Done(T),
    /// It had no effect.
    Failed(Error),
    /// Whether it took effect is not known.
    Unknown(Error),
}

impl<T> Outcome<T> {
    /// The answer, or the error of either kind.
    ///
    /// # Errors
    /// When the request did not end well.
    pub fn ok(self) -> Result<T, Error> {
        match self {
            Self::Done(answer) => Ok(answer),
            Self::Failed(error) | Self::Unknown(error) => Err(error),
        }
    }
}

/// How long to wait between tries: twice as long each time, a little different for each caller, and no longer than
/// a total.
///
/// ```
/// use phalanx_wire::Backoff;
/// use std::time::Duration;
/// let mut backoff = Backoff::new(Duration::from_secs(1), 7);
/// let waits: Vec<_> = std::iter::from_fn(|| backoff.next_wait()).collect();
/// assert!(waits.len() > 3 && waits.iter().sum::<Duration>() <= Duration::from_secs(1));
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    next: Duration,
    left: Duration,
    random: u64,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_secs(2);

    /// Waits that add up to at most `total`; `seed` tells callers apart.
    #[must_use]
    pub fn new(total: Duration, seed: u64) -> Self {
        Self { next: Self::FIRST, left: total, random: seed | 1 }
    }

    /// The next wait, or `None` when the total is used up.
    pub fn next_wait(&mut self) -> Option<Duration> {
        // Xorshift: all that jitter needs.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let wait = self.next.mul_f64(0.5 + (self.random % 1024) as f64 / 2048.0);
        self.next = (self.next * 2).min(Self::LONGEST);
        self.left = self.left.checked_sub(wait)?;
        Some(wait)
    }
}
