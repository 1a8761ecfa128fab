//! Ends a training that evaluations say is over.

use crate::estimator::eval_folder;
use crate::{Control, Hook};
use phalanx_base::Result;
use phalanx_formats::event::{EventReader, Value, What};
use phalanx_storage::Dir;
use phalanx_train::Step;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Which way a metric becomes better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Lower,
    Higher,
}

/// Stops when a metric of the evaluations has not become better for so many steps: TensorFlow's
/// `stop_if_no_decrease_hook` and `stop_if_no_increase_hook`. It reads what evaluations left in the run directory, so it
/// works whoever evaluates; on the chief it ends the job for everybody.
///
/// ```
/// use phalanx_estimator::EarlyStopping;
/// let hook = EarlyStopping::no_decrease("runs/census", "loss", 2_000)?.run_every_secs(10);
/// # let _ = hook;
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct EarlyStopping {
    dir: Dir,
    metric: String,
    better: Better,
    patience: u64,
    every: Duration,
    looked: Option<Instant>,
}

impl EarlyStopping {
    /// Stops when `metric` has not fallen for `max_steps_without_decrease` steps.
    ///
    /// # Errors
    /// When the run directory's location is malformed.
    pub fn no_decrease(model_dir: &str, metric: &str, max_steps_without_decrease: u64) -> Result<Self> {
        Self::new(model_dir, metric, Better::Lower, max_steps_without_decrease)
    }

    /// Stops when `metric` has not risen for `max_steps_without_increase` steps.
    ///
    /// # Errors
    /// When the run directory's location is malformed.
    pub fn no_increase(model_dir: &str, metric: &str, max_steps_without_increase: u64) -> Result<Self> {
        Self::new(model_dir, metric, Better::Higher, max_steps_without_increase)
    }

    fn new(model_dir: &str, metric: &str, better: Better, patience: u64) -> Result<Self> {
        let dir = Dir::open(model_dir)?.child(&eval_folder(None))?;
        let every = Duration::from_secs(60);
        Ok(Self { dir, metric: metric.to_owned(), better, patience, every, looked: None })
    }

    /// Follows the evaluations of this name.
    ///
    /// # Errors
    /// When the name is no part of a folder's name.
    pub fn evaluations(mut self, model_dir: &str, name: &str) -> Result<Self> {
        self.dir = Dir::open(model_dir)?.child(&eval_folder(Some(name)))?;
        Ok(self)
    }

    /// How often evaluations are looked at: every 60 seconds, unless said otherwise.
    #[must_use]
    pub fn run_every_secs(mut self, seconds: u64) -> Self {
        self.every = Duration::from_secs(seconds);
        self
    }

    /// Whether the newest evaluation is too far from the best.
    fn is_over(&self) -> Result<bool> {
        let values = scalars(&self.dir, &self.metric)?;
        let better = |a: f64, b: f64| if self.better == Better::Lower { a < b } else { a > b };
        let mut best: Option<(u64, f64)> = None;
        for (&step, &value) in &values {
            if best.is_none_or(|(_, than)| better(value, than)) {
                best = Some((step, value));
            }
        }
        let newest = values.keys().next_back().copied().unwrap_or(0);
        Ok(best.is_some_and(|(step, _)| newest >= step + self.patience))
    }
}

impl Hook for EarlyStopping {
    fn after_step(&mut self, _: &Step) -> Result<Control> {
        if self.looked.is_some_and(|looked| looked.elapsed() < self.every) {
            return Ok(Control::Continue);
        }
        self.looked = Some(Instant::now());
        Ok(if self.is_over()? { Control::Stop } else { Control::Continue })
    }
}

/// The points of a curve in a folder's event files, by step. A file that is being written ends where it ends.
pub(crate) fn scalars(dir: &Dir, tag: &str) -> Result<BTreeMap<u64, f64>> {
    let mut found = BTreeMap::new();
    for file in dir.list("events.out.tfevents.")? {
        let bytes = dir.read(&file.name, 1 << 30)?;
        let mut events = EventReader::new(&bytes[..]);
        while let Ok(Some(event)) = events.next_event() {
            let What::Summary(values) = event.what else { continue };
            for value in values.iter().filter(|value| value.tag == tag) {
                if let Value::Scalar(number) = value.value {
                    found.insert(event.stamp.step.max(0) as u64, number);
                }
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_train::SummaryWriter;

    #[test]
    fn a_metric_that_no_longer_improves_ends_a_training() {
        let dir = Dir::in_memory();
        let writer = SummaryWriter::open(&dir).unwrap();
        for (step, loss) in [(100, 0.5), (200, 0.4), (300, 0.45), (400, 0.41)] {
            writer.scalar(step, "loss", loss);
        }
        drop(writer);
        let hook = |better, patience| {
            let (every, looked) = (Duration::ZERO, None);
            let mut hook = EarlyStopping { dir: dir.clone(), metric: "loss".into(), better, patience, every, looked };
            hook.after_step(&Step { loss: 0.0, global_step: 1 }).unwrap()
        };
        assert_eq!(hook(Better::Lower, 200), Control::Stop);
        assert_eq!(hook(Better::Lower, 201), Control::Continue);
        assert_eq!(hook(Better::Higher, 300), Control::Stop);
    }
}
