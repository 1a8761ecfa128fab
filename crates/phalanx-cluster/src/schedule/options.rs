//! What bounds a scheduler.

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
    /// A worker's steps are numbered as it takes them. A worker that had nothing in flight while the others went on is
    /// lifted to the lowest number that keeps the bound, so that one that joins late or comes back from a pause
    /// holds nobody up for longer than its first steps take.
    Bounded(u64),
    /// `sync[:backups]`: gradients are collected into rounds, and a round's mean is applied when it is closed.
    ///
    /// Steps that push fill rounds of `size` in the order in which they were scheduled, and nobody gets a step of the
    /// next round before this one is closed: when all but `backups` of its steps are in. What comes later is dropped.
    Rounds {
        /// How many steps are handed out for a round.
        size: u64,
        /// How many of them a round does not wait for.
        backups: u64,
    },
}

impl Consistency {
    /// Reads `async`, `ssp:K`, `sync` or `sync:BACKUPS`; `workers` is how many steps make a round.
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
        let number = number.map(|number| number.parse::<u64>().map_err(|_| wrong(format!("{number:?} is no number"))));
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
            ("ssp", None) => Err(wrong("how far workers may drift apart is missing".into())),
            _ => Err(wrong("it is none of the kinds there are".into())),
        }
    }
}

/// What bounds a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many steps may be unfinished.
    pub steps: usize,
    /// How many bytes of work may be unfinished.
    pub bytes: usize,
    /// How often a step may be tried before trouble of the infrastructure makes it fail.
    pub attempts: usize,
    /// After how long at one step a worker is reported as standing still.
    pub watchdog: Option<Duration>,
    /// How far workers may drift apart.
    pub consistency: Consistency,
}

impl Default for Options {
    /// TensorFlow's bound on steps, 1 GiB of work, five attempts, no watchdog, no bound on drift.
    fn default() -> Self {
        Self { steps: 262_144, bytes: 1 << 30, attempts: 5, watchdog: None, consistency: Consistency::Async }
    }
}
