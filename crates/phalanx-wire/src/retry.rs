//! Retries for a bounded time, and how a request ended.

use phalanx_base::{Error, SplitMix};
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
    /// Returns the answer, or the error of either kind.
    ///
    /// # Errors
    /// When the request failed, or its outcome is unknown.
    pub fn ok(self) -> Result<T, Error> {
        match self {
            Self::Done(answer) => Ok(answer),
            Self::Failed(error) | Self::Unknown(error) => Err(error),
        }
    }
}

/// The waits between attempts: exponential with jitter, up to a deadline. The duration of the attempts counts against it.
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
    random: SplitMix,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_secs(2);

    /// Starts attempts that end `patience` after `now`. Callers with different seeds wait for different times.
    #[must_use]
    pub fn new(now: Instant, patience: Duration, seed: u64) -> Self {
        Self { next: Self::FIRST, until: now + patience, random: SplitMix::new(seed) }
    }

    /// Returns the time that is left.
    #[must_use]
    pub fn left(&self, now: Instant) -> Duration {
        self.until.saturating_duration_since(now)
    }

    /// Returns the next wait, or `None` if no time would be left after it.
    pub fn next_wait(&mut self, now: Instant) -> Option<Duration> {
        let wait = self.next.mul_f64(0.5 + self.random.below(1024) as f64 / 2048.0);
        self.next = (self.next * 2).min(Self::LONGEST);
        (wait < self.left(now)).then_some(wait)
    }
}
