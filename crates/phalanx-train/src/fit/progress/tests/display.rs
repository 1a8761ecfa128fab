//! Passes and outputs that end in unusual ways.

use super::super::terminal::decide;
use super::super::{Progress, ProgressMode, Verbose};
use super::display;
use std::cell::Cell;
use std::io::{Error, ErrorKind, Result, Write};
use std::rc::Rc;

#[test]
fn verbose_is_what_keras_numbers_mean() {
    let shown = |terminal| {
        [Verbose::Auto, Verbose::Silent, Verbose::Bar, Verbose::Line].map(|verbose| verbose.resolve_for(terminal))
    };
    assert_eq!(shown(true), [ProgressMode::Bar, ProgressMode::Silent, ProgressMode::Bar, ProgressMode::Line]);
    assert_eq!(shown(false), [ProgressMode::Line, ProgressMode::Silent, ProgressMode::Bar, ProgressMode::Line]);
    assert_eq!(Verbose::default(), Verbose::Auto);
}

#[test]
fn silent_prints_nothing() {
    let (mut progress, screen, ticks) = display(ProgressMode::Silent, Some(3), 80);
    progress.epoch(1, 2);
    ticks.set(600);
    progress.update(1, &[("loss", 0.5)]);
    progress.finish(3, &[("loss", 0.5)]);
    drop(progress);
    assert_eq!(screen.take(), "");
}

#[test]
fn a_line_that_ends_early_says_so_and_divides_by_the_steps_done() {
    let (mut progress, screen, ticks) = display(ProgressMode::Line, Some(100), 80);
    ticks.set(512);
    progress.finish(50, &[("loss", 0.5)]);
    assert_eq!(screen.take(), " 50/100 - 1s - loss: 0.5000 - 1s/epoch - 20ms/step\n");
}

#[test]
fn more_steps_than_promised_fill_the_bar_and_no_more() {
    let (mut progress, screen, ticks) = display(ProgressMode::Bar, Some(2), 80);
    ticks.set(512);
    progress.update(3, &[]);
    assert_eq!(screen.take(), "\r3/2 [==============================] - ETA: 0s");
}

#[test]
fn a_pass_without_a_step_is_shown() {
    let (mut progress, screen, _) = display(ProgressMode::Bar, None, 80);
    progress.finish(0, &[]);
    assert_eq!(screen.take(), "\r0/0 [==============================] - 0s 0s/step\n");
    let (mut progress, screen, _) = display(ProgressMode::Line, Some(0), 80);
    progress.finish(0, &[]);
    assert_eq!(screen.take(), "0/0 - 0s - 0s/epoch - 0s/step\n");
}

#[test]
fn a_clock_that_goes_back_is_no_harm() {
    let (mut progress, screen, ticks) = display(ProgressMode::Bar, Some(4), 80);
    ticks.set(512);
    progress.epoch(1, 1);
    progress.update(1, &[]);
    ticks.set(0);
    progress.update(2, &[]);
    progress.finish(4, &[]);
    assert!(screen.take().ends_with("\r4/4 [==============================] - 0s 0s/step\n"));
}

#[test]
fn an_open_line_is_ended_once() {
    let (mut progress, screen, ticks) = display(ProgressMode::Bar, Some(4), 80);
    ticks.set(512);
    progress.update(1, &[("loss", 123456.0)]);
    screen.take();
    progress.break_line();
    progress.break_line();
    assert_eq!(screen.take(), "\n");
    // Nothing is left under the cursor, so no blanks are needed over it.
    ticks.set(600);
    progress.update(2, &[("loss", 1.0)]);
    assert_eq!(screen.take(), "\r2/4 [==============>...............] - ETA: 0s - loss: 1.0000");
    drop(progress);
    assert_eq!(screen.take(), "\n");
}

#[test]
fn an_epoch_begins_on_a_line_of_its_own() {
    let (mut progress, screen, _) = display(ProgressMode::Bar, Some(4), 80);
    progress.update(1, &[]);
    screen.take();
    progress.epoch(2, 3);
    assert_eq!(screen.take(), "\nEpoch 2/3\n");
}

/// An output whose reader goes away after some writes.
struct Pipe {
    left: u32,
    refused: Rc<Cell<u32>>,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if self.left == 0 {
            self.refused.set(self.refused.get() + 1);
            return Err(Error::from(ErrorKind::BrokenPipe));
        }
        self.left -= 1;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_went_away_is_written_to_once_more_and_no_more() {
    let refused = Rc::new(Cell::new(0));
    let mut progress = Progress::new(Pipe { left: 1, refused: refused.clone() }, ProgressMode::Bar, Some(2));
    for epoch in 1..=3 {
        progress.epoch(epoch, 3);
        progress.update(1, &[("loss", 1.0)]);
        progress.finish(2, &[("loss", 0.5)]);
    }
    drop(progress);
    assert_eq!(refused.get(), 1);
}

#[test]
fn the_width_is_the_window_then_the_variable_then_eighty() {
    assert_eq!(decide(Some(120), Some("90"), true), 120);
    assert_eq!(decide(Some(0), Some(" 90 "), true), 90);
    assert_eq!(decide(None, Some("90"), false), 90);
    for useless in [None, Some(""), Some("0"), Some("-5"), Some("wide")] {
        assert_eq!(decide(None, useless, true), 80);
        assert_eq!(decide(None, useless, false), usize::MAX);
    }
}
