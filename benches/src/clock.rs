//! The chief's watch: a warm-up, then three measurements.

use crate::usage;
use phalanx::Result;
use std::time::Instant;

const MEASUREMENTS: usize = 3;

pub(crate) struct Clock {
    warm_up: u64,
    steps: u64,
    /// When this measurement began, and at which step of all.
    started: Option<(Instant, u64)>,
    rates: Vec<f64>,
    /// This process' own steps since the first measurement began, and its CPU seconds then.
    own: Option<(u64, f64)>,
    cpu_ms_per_step: Option<f64>,
}

impl Clock {
    /// Measures `steps` three times, after `warm_up`.
    pub(crate) fn new(warm_up: u64, steps: u64) -> Self {
        Self { warm_up, steps, started: None, rates: Vec::new(), own: None, cpu_ms_per_step: None }
    }

    /// Counts one own step; returns true when all is measured.
    pub(crate) fn tick(&mut self, global_step: u64) -> bool {
        if let Some((steps, _)) = &mut self.own {
            *steps += 1;
        }
        let due = self.started.map_or(self.warm_up, |(_, from)| from + self.steps);
        if global_step < due {
            return false;
        }
        let now = Instant::now();
        match self.started.replace((now, global_step)) {
            None => self.own = Some((0, usage::own_cpu_seconds())),
            Some((since, from)) => self.rates.push((global_step - from) as f64 / (now - since).as_secs_f64()),
        }
        let done = self.rates.len() == MEASUREMENTS;
        if let (true, Some((steps, since))) = (done, self.own) {
            self.cpu_ms_per_step = Some(1e3 * (usage::own_cpu_seconds() - since) / steps.max(1) as f64);
        }
        done
    }

    /// Measures `work`, which does `steps` steps.
    pub(crate) fn measure(&mut self, steps: u64, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let since = Instant::now();
        work()?;
        self.rates.push(steps as f64 / since.elapsed().as_secs_f64());
        Ok(())
    }

    /// Steps per second, of each measurement.
    pub(crate) fn rates(&self) -> &[f64] {
        &self.rates
    }

    pub(crate) fn best(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// CPU time of this process for one of its own steps.
    pub(crate) fn cpu_ms_per_step(&self) -> Option<f64> {
        self.cpu_ms_per_step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_then_three_measurements() {
        let mut clock = Clock::new(5, 10);
        let done: Vec<u64> = (0..100).filter(|&step| clock.tick(step)).collect();
        assert_eq!(done[0], 35);
        assert!(clock.rates().len() >= MEASUREMENTS && clock.best() > 0.0 && clock.cpu_ms_per_step().is_some());
    }
}
