//! A synthetic click log: the default data of demonstrations and benchmarks.
//!
//! 13 numbers and 26 columns of ids with the cardinalities of a public click log, ids by a power law, and labels drawn
//! from a fixed teacher, 25.6 % of them positive. The teacher is known, and with it the best AUC that any model can
//! reach ([`Clicks::best`]). A row is a function of the seed and its number alone: nothing is stored, any part can be
//! read anywhere, and a position is a number.

mod columns;
mod generator;
mod math;
mod quality;
mod source;
mod teacher;

pub use quality::AttainableMetrics;
pub use source::Clicks;

/// A click log of `rows` rows.
///
/// Logs of different seeds have different rows and the same teacher: train on one and evaluate on another.
///
/// ```
/// use phalanx_data::{PartPosition, Source, synthetic_clicks};
/// let log = synthetic_clicks(7, 10_000);
/// let batch = log.open(0, PartPosition::START)?.read(512)?.unwrap();
/// assert_eq!((batch.f32("I1")?.len(), batch.i64("C26")?.len()), (512, 512));
/// assert!(batch.label().unwrap().as_i64()?.iter().all(|label| [0, 1].contains(label)));
/// assert!(log.best().auc > 0.75);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[must_use]
pub fn synthetic_clicks(seed: u64, rows: u64) -> Clicks {
    Clicks::new(seed, rows)
}
