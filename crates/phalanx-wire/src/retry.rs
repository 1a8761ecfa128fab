//! Trying again, for a bounded time, and saying honestly how it ended.

use phalanx_base::Error;
use std::time::{Duration, Instant};

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

/// How long to wait between tries: twice as long each time, a little different for each caller, and not beyond a
/// deadline. Time that the tries themselves take counts.
///
/// ```
/// use phalanx_wire::Backoff;
/// use std::time::{Duration, Instant};
/// let (mut now, patience) = (Instant::now(), Duration::from_secs(60));
/// let mut backoff = Backoff::new(now, patience, 7);
/// now += backoff.next_wait(now).unwrap();
/// now += Duration::from_secs(59); // a try that took long
/// assert!(backoff.left(now) < Duration::from_secs(1));
/// now += Duration::from_secs(1);
/// assert_eq!(backoff.next_wait(now), None);
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    next: Duration,
    until: Instant,
    random: u64,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_secs(2);

    /// Tries that end `patience` after `now`; `seed` tells callers apart.
    #[must_use]
    pub fn new(now: Instant, patience: Duration, seed: u64) -> Self {
        Self { next: Self::FIRST, until: now + patience, random: seed | 1 }
    }

    /// How much time is left.
    #[must_use]
    pub fn left(&self, now: Instant) -> Duration {
        self.until.saturating_duration_since(now)
    }

    /// The next wait, or `None` when no time would be left after it.
    pub fn next_wait(&mut self, now: Instant) -> Option<Duration> {
        // Xorshift: all that jitter needs.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let wait = self.next.mul_f64(0.5 + (self.random % 1024) as f64 / 2048.0);
        self.next = (self.next * 2).min(Self::LONGEST);
        (wait < self.left(now)).then_some(wait)
    }
}
