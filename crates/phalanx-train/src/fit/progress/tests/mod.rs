//! The display against Keras' own, in narrow terminals, and with a closed output.

mod display;
mod keras;
mod width;

use super::{Progress, ProgressMode};
use std::io::{Result, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// 1/512 of a second, the tick of the fixtures.
const TICK: Duration = Duration::from_nanos(1_953_125);

/// An output that can be read while a display writes to it.
#[derive(Clone, Default)]
struct Terminal(Arc<Mutex<Vec<u8>>>);

impl Terminal {
    /// Returns what was written since the last call.
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A clock that moves only when it is set.
#[derive(Clone, Default)]
struct Ticks(Arc<AtomicU64>);

impl Ticks {
    fn set(&self, ticks: u64) {
        self.0.store(ticks, Ordering::Relaxed);
    }

    fn now(&self) -> Duration {
        TICK * u32::try_from(self.0.load(Ordering::Relaxed)).unwrap()
    }
}

/// A display with its screen and its clock, in a terminal of `columns`.
fn display(mode: ProgressMode, target: Option<u64>, columns: usize) -> (Progress<Terminal>, Terminal, Ticks) {
    let (screen, ticks) = (Terminal::default(), Ticks::default());
    let clock = ticks.clone();
    let progress =
        Progress::new(screen.clone(), mode, target).with_columns(move || columns).with_clock(move || clock.now());
    (progress, screen, ticks)
}
