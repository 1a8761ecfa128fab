//! The progress display of `fit`, `evaluate` and `predict`: the text of Keras 2.15, on a line that never wraps.
//!
//! ```text
//! Epoch 1/5
//! 469/469 [==============================] - 2s 4ms/step - loss: 0.2957 - accuracy: 0.9153
//! ```
//!
//! | read | for |
//! | --- | --- |
//! | [`Verbose`], [`ProgressMode`] | how much is shown: nothing, a bar, a line per epoch |
//! | [`Progress`] | the display itself: `epoch`, `update` per step, `finish` |
//! | [`columns`] | how wide the terminal is |
//!
//! Counts, times, numbers and the moments of a redraw are those of Keras, byte for byte, except that a redraw is a
//! carriage return without Keras' backspaces. Where a terminal is too narrow Keras wraps and leaves a trail of broken
//! lines; here the bar shrinks, then disappears, then a line that is still redrawn loses its last metrics to `…`. A
//! finished line loses nothing: metrics that do not fit go to a second line.

mod line;
mod number;
mod sink;
mod terminal;
#[cfg(test)]
mod tests;
mod timer;
mod verbose;

pub use number::eta;
pub use terminal::columns;
pub use verbose::{ProgressMode, Verbose};

use line::Row;
use sink::Sink;
use std::io::Write;
use std::time::{Duration, Instant};
use timer::PassTimer;

/// The display of one `fit`, `evaluate` or `predict`.
///
/// A `fit` calls [`epoch`](Self::epoch) before each pass over the data; an evaluation is one pass without a title.
/// Writing never fails: after an error of the output, nothing more is written.
///
/// ```
/// use phalanx_train::fit::progress::{ProgressMode, Progress};
///
/// let mut out = Vec::new();
/// let mut progress = Progress::new(&mut out, ProgressMode::Line, Some(469));
/// for epoch in 1..=2 {
///     progress.epoch(epoch, 2);
///     for step in 1..=469 {
///         progress.update(step, &[("loss", 1.0 / step as f64)]);
///     }
///     progress.finish(469, &[("loss", 0.2957), ("val_loss", 0.1537)]);
/// }
/// drop(progress);
/// let shown = String::from_utf8(out)?;
/// assert!(shown.starts_with("Epoch 1/2\n469/469 - 0s - loss: 0.2957 - val_loss: 0.1537 - "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Progress<W: Write> {
    out: Sink<W>,
    mode: ProgressMode,
    columns: Box<dyn Fn() -> usize + Send>,
    clock: Box<dyn Fn() -> Duration + Send>,
    target: Option<u64>,
    timer: PassTimer,
    /// The last logs, in the order in which their names first appeared.
    logs: Vec<(String, f64)>,
    /// Columns of the bar line that the cursor is in; `None` at the start of a line.
    open: Option<usize>,
}

impl<W: Write> Progress<W> {
    /// Creates a display of `target` steps per pass; the first pass starts now.
    ///
    /// With `None` there is no bar until the first pass has finished, which sets the target.
    pub fn new(out: W, mode: ProgressMode, target: Option<u64>) -> Self {
        let created = Instant::now();
        Self {
            out: Sink::new(out),
            mode,
            columns: Box::new(terminal::columns),
            clock: Box::new(move || created.elapsed()),
            target,
            timer: PassTimer::starting(Duration::ZERO),
            logs: Vec::new(),
            open: None,
        }
    }

    /// Takes the width of a line from `columns`, before every redraw, instead of from the terminal.
    #[must_use]
    pub fn with_columns(mut self, columns: impl Fn() -> usize + Send + 'static) -> Self {
        self.columns = Box::new(columns);
        self
    }

    /// Takes the time from `clock`, and restarts the pass.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> Duration + Send + 'static) -> Self {
        self.timer = PassTimer::starting(clock());
        self.clock = Box::new(clock);
        self
    }

    /// Starts the pass of epoch `number` of `of`, counted from 1. A single epoch has no title.
    pub fn epoch(&mut self, number: u64, of: u64) {
        self.break_line();
        if self.mode != ProgressMode::Silent && of > 1 {
            self.out.show(&format!("Epoch {number}/{of}\n"));
        }
        self.logs.clear();
        self.timer = PassTimer::starting((self.clock)());
    }

    /// Shows that `seen` steps of this pass are done, with the current values of the metrics.
    ///
    /// Cheap enough for every step: the bar is redrawn at most every 50 ms.
    pub fn update(&mut self, seen: u64, logs: &[(&str, f64)]) {
        if self.mode != ProgressMode::Bar {
            return;
        }
        self.record(logs);
        let now = (self.clock)();
        if !self.timer.is_due(now) {
            return;
        }
        let per_step = self.timer.per_step(seen, now);
        let mut row = Row::new(seen, self.target);
        match self.target {
            Some(target) => row.push(&format!("ETA: {}", number::eta(per_step * target.saturating_sub(seen) as f64))),
            None => row.push(&self.elapsed_and_rate(now, per_step)),
        }
        self.push_logs(&mut row);
        let line = row.running(self.width());
        let text = self.over_the_open_line(&line);
        self.out.show(&text);
        self.open = Some(line::width(&line));
        self.timer.drawn(now);
    }

    /// Ends the pass after `seen` steps with its final values: the metrics and those of the validation.
    pub fn finish(&mut self, seen: u64, logs: &[(&str, f64)]) {
        if self.mode == ProgressMode::Silent {
            return;
        }
        self.record(logs);
        let target = *self.target.get_or_insert(seen);
        let now = (self.clock)();
        let text = match self.mode {
            ProgressMode::Bar => self.finished_bar(seen, target, now),
            _ => self.finished_line(seen, target, now),
        };
        self.out.show(&text);
        self.open = None;
    }

    /// Ends a bar line that is still being redrawn, so that other output starts on a new line.
    ///
    /// The next update draws the bar below. Dropping the display does this too.
    pub fn break_line(&mut self) {
        if self.open.take().is_some() {
            self.out.show("\n");
        }
    }

    fn finished_bar(&mut self, seen: u64, target: u64, now: Duration) -> String {
        let per_step = self.timer.per_step(seen, now);
        let mut row = Row::new(seen, Some(target));
        row.push(&self.elapsed_and_rate(now, per_step));
        self.push_logs(&mut row);
        let lines = row.finished(self.width());
        let mut text = self.over_the_open_line(&lines[0]);
        for line in &lines[1..] {
            text.push('\n');
            text.push_str(line);
        }
        text.push('\n');
        text
    }

    fn finished_line(&self, seen: u64, target: u64, now: Duration) -> String {
        let elapsed = self.timer.elapsed(now);
        let mut row = Row::new(seen, Some(target));
        row.push(&format!("{elapsed:.0}s"));
        self.push_logs(&mut row);
        row.push(&number::rate(elapsed, "epoch"));
        row.push(&number::rate(if seen == 0 { 0.0 } else { elapsed / seen as f64 }, "step"));
        format!("{}\n", row.plain())
    }

    fn elapsed_and_rate(&self, now: Duration, per_step: f64) -> String {
        format!("{:.0}s {}", self.timer.elapsed(now), number::rate(per_step, "step"))
    }

    fn record(&mut self, logs: &[(&str, f64)]) {
        for &(name, value) in logs {
            match self.logs.iter_mut().find(|(known, _)| known == name) {
                Some((_, last)) => *last = value,
                None => self.logs.push((name.to_owned(), value)),
            }
        }
    }

    fn push_logs(&self, row: &mut Row) {
        for (name, value) in &self.logs {
            row.push(&format!("{name}: {}", number::metric(*value, self.mode)));
        }
    }

    /// Returns the usable columns. The last one stays free: some terminals wrap as soon as it is written.
    fn width(&self) -> usize {
        (self.columns)().saturating_sub(1)
    }

    /// Returns `line`, padded to erase the line under the cursor. As in Keras that takes blanks and no escape sequences,
    /// so a bar redirected to a file stays readable.
    fn over_the_open_line(&self, line: &str) -> String {
        // The terminal may have become narrower since the last redraw.
        let under = self.open.unwrap_or(0).min(self.width());
        let blanks = under.saturating_sub(line::width(line));
        format!("\r{line}{}", " ".repeat(blanks))
    }
}

impl<W: Write> Drop for Progress<W> {
    fn drop(&mut self) {
        self.break_line();
    }
}
