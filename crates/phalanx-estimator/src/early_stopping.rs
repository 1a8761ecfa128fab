//! Stops a training whose evaluations no longer improve.

use crate::estimator::eval_folder;
use crate::{Control, Hook};
use phalanx_base::Result;
use phalanx_formats::event::{EventPayload, EventReader, SummaryData};
use phalanx_storage::Dir;
use phalanx_train::Step;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The direction in which a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Lower,
    Higher,
}

/// Stops when a metric of the evaluations has not improved for a number of steps: TensorFlow's
/// `stop_if_no_decrease_hook` and `stop_if_no_increase_hook`. It reads the event files of evaluations in the run
/// directory, so it works whichever task evaluates. On the chief it ends the job.
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
    /// Fails if the run directory's location is malformed.
    pub fn no_decrease(model_dir: &str, metric: &str, max_steps_without_decrease: u64) -> Result<Self> {
        Self::new(model_dir, metric, Better::Lower, max_steps_without_decrease)
    }

    /// Stops when `metric` has not risen for `max_steps_without_increase` steps.
    ///
    /// # Errors
    /// Fails if the run directory's location is malformed.
    pub fn no_increase(model_dir: &str, metric: &str, max_steps_without_increase: u64) -> Result<Self> {
        Self::new(model_dir, metric, Better::Higher, max_steps_without_increase)
    }

    fn new(model_dir: &str, metric: &str, better: Better, patience: u64) -> Result<Self> {
        let dir = Dir::open(model_dir)?.child(&eval_folder(None))?;
        let every = Duration::from_secs(60);
        Ok(Self { dir, metric: metric.to_owned(), better, patience, every, looked: None })
    }

    /// Reads the evaluations of this name.
    ///
    /// # Errors
    /// Fails if the name cannot be part of a folder's name.
    pub fn evaluations(mut self, model_dir: &str, name: &str) -> Result<Self> {
        self.dir = Dir::open(model_dir)?.child(&eval_folder(Some(name)))?;
        Ok(self)
    }

    /// Sets how often evaluations are read; every 60 seconds by default.
    #[must_use]
    pub fn run_every_secs(mut self, seconds: u64) -> Self {
        self.every = Duration::from_secs(seconds);
        self
    }

    /// Returns whether the best evaluation is too old.
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

/// Reads the values of a scalar from a folder's event files, by step. An incomplete last event is ignored.
pub(crate) fn scalars(dir: &Dir, tag: &str) -> Result<BTreeMap<u64, f64>> {
    let mut found = BTreeMap::new();
    for file in dir.list("events.out.tfevents.")? {
        let bytes = dir.read(&file.name, 1 << 30)?;
        let mut events = EventReader::new(&bytes[..]);
        while let Ok(Some(event)) = events.next_event() {
            let EventPayload::Summary(values) = event.what else { continue };
            for value in values.iter().filter(|value| value.tag == tag) {
                if let SummaryData::Scalar(number) = value.value {
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
            hook.after_step(&Step { loss: 0.0, global_step: 1, value: () }).unwrap()
        };
        assert_eq!(hook(Better::Lower, 200), Control::Stop);
        assert_eq!(hook(Better::Lower, 201), Control::Continue);
        assert_eq!(hook(Better::Higher, 300), Control::Stop);
    }
}
