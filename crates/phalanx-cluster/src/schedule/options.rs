//! The options of a scheduler.

use phalanx_base::{Code, Error, Result};
use std::time::Duration;

/// How far workers may drift apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Without bound.
    #[default]
    Async,
    /// `ssp:k`: any two steps in flight are at most `k` numbers apart.
    ///
    /// A worker's steps are numbered as it takes them. A worker that had nothing in flight is raised to the lowest
    /// number that keeps the bound, so one that joins late or returns from a pause delays the others for no longer than
    /// its first steps.
    Bounded(u64),
    /// `sync[:backups]`: gradients are collected into rounds, and a round's mean is applied when the round is closed.
    ///
    /// Steps that push fill rounds of `size` in scheduling order. Steps of the next round are handed out once this one
    /// is closed, which is when all but `backups` of its steps are committed. Later ones are dropped.
    Rounds {
        /// The number of steps handed out for a round.
        size: u64,
        /// The number of them for which a round does not wait.
        backups: u64,
    },
}

impl Consistency {
    /// Parses `async`, `ssp:K`, `sync` or `sync:BACKUPS`. `workers` is the number of steps in a round.
    ///
    /// # Errors
    /// When it is none of those, or there are not more workers than backups.
    ///
    /// ```
    /// use phalanx_cluster::schedule::Consistency;
    /// assert_eq!(Consistency::parse("ssp:2", 3)?, Consistency::Bounded(2));
    /// assert_eq!(Consistency::parse("sync:1", 3)?, Consistency::Rounds { size: 3, backups: 1 });
    /// assert!(Consistency::parse("sync:3", 3).is_err());
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    pub fn parse(text: &str, workers: u64) -> Result<Self> {
        let wrong = |why: String| {
            Error::new(Code::BadSetting, format!("consistency {text:?} cannot be used"))
                .because(why)
                .help("write async, ssp:K, sync, or sync:BACKUPS")
        };
        let (kind, number) = text.split_once(':').map_or((text, None), |(kind, number)| (kind, Some(number)));
        let number =
            number.map(|number| number.parse::<u64>().map_err(|_| wrong(format!("{number:?} is not a number"))));
        match (kind, number.transpose()?) {
            ("async", None) => Ok(Self::Async),
            ("ssp", Some(bound)) => Ok(Self::Bounded(bound)),
            ("sync", backups) => {
                let backups = backups.unwrap_or(0);
                if backups >= workers {
                    return Err(wrong(format!("of {workers} workers, {backups} cannot be backups")));
                }
                Ok(Self::Rounds { size: workers, backups })
            }
            ("ssp", None) => Err(wrong("the staleness bound is missing".into())),
            _ => Err(wrong("there is no such kind".into())),
        }
    }
}

/// The limits of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerOptions {
    /// The most unfinished steps.
    pub steps: usize,
    /// The most bytes of unfinished work.
    pub bytes: usize,
    /// The number of attempts after which a step fails for reasons of the infrastructure.
    pub attempts: usize,
    /// How long a worker may be at one step before it is reported as stalled.
    pub watchdog: Option<Duration>,
    /// How far workers may drift apart.
    pub consistency: Consistency,
}

impl Default for SchedulerOptions {
    /// TensorFlow's limit on steps, 1 GiB of work, five attempts, no watchdog, no staleness bound.
    fn default() -> Self {
        Self { steps: 262_144, bytes: 1 << 30, attempts: 5, watchdog: None, consistency: Consistency::Async }
    }
}
