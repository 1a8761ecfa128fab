//! What the chief does beside training: save, and write summaries, each at its own pace.

use phalanx_base::{Result, Shape};
use std::time::{Duration, Instant};

/// A model at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The committed steps it contains.
    pub global_step: u64,
    /// Every variable: name, extents, values.
    pub variables: Vec<(String, Shape, Vec<f32>)>,
}

/// Keeps checkpoints somewhere. Without one, a job starts from its model's initial values and saves nothing.
pub trait Saver: Send {
    /// The newest checkpoint, if there is one.
    ///
    /// # Errors
    /// When there is one and it cannot be read.
    fn restore(&mut self) -> Result<Option<Checkpoint>>;

    /// Keeps a checkpoint.
    ///
    /// # Errors
    /// When it cannot be written. Training goes on; the error is told.
    fn save(&mut self, checkpoint: &Checkpoint) -> Result<()>;
}

/// Takes the numbers that describe a run.
pub trait SummaryWriter: Send {
    /// Writes named numbers of one step.
    ///
    /// # Errors
    /// When they cannot be written. Training goes on; the error is told.
    fn scalars(&mut self, global_step: u64, scalars: &[(&str, f32)]) -> Result<()>;
}

/// Something done at once and then every so often.
#[derive(Debug)]
pub(crate) struct Timer {
    every: Duration,
    next: Option<Instant>,
}

impl Timer {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, next: None }
    }

    /// Whether it is time; the first answer is yes, as TensorFlow's services fire when they start.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let due = self.next.is_none_or(|next| now >= next);
        if due {
            self.next = Some(now + self.every);
        }
        due
    }
}

/// The chief's services; empty on other tasks.
#[derive(Default)]
pub(crate) struct Services {
    pub(crate) saver: Option<(Timer, Box<dyn Saver>)>,
    pub(crate) summaries: Option<(Timer, Box<dyn SummaryWriter>)>,
    pub(crate) rate: Option<(Instant, u64)>,
}

impl Services {
    /// Writes the summaries of a step if it is time.
    pub(crate) fn summarize(&mut self, now: Instant, global_step: u64, loss: f32) -> Result<()> {
        let Some((timer, writer)) = &mut self.summaries else { return Ok(()) };
        if !timer.is_due(now) {
            return Ok(());
        }
        let mut scalars = vec![("loss", loss)];
        if let Some((since, step)) = self.rate {
            scalars.push(("global_step/sec", global_step.saturating_sub(step) as f32 / (now - since).as_secs_f32()));
        }
        self.rate = Some((now, global_step));
        writer.scalars(global_step, &scalars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_fires_at_once_and_then_at_its_pace() {
        let start = Instant::now();
        let mut timer = Timer::new(Duration::from_secs(10));
        let due: Vec<bool> =
            [0, 1, 9, 10, 11, 20].iter().map(|&s| timer.is_due(start + Duration::from_secs(s))).collect();
        assert_eq!(due, [true, false, false, true, false, true]);
    }
}
