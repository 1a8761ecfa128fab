//! The output of the display.

use std::io::Write;

/// A writer that stops at the first error, so that a closed terminal does not end a training.
pub(super) struct Sink<W> {
    out: W,
    lost: bool,
}

impl<W: Write> Sink<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, lost: false }
    }

    /// Writes `text` in one piece, so that a redraw does not flicker.
    pub(super) fn show(&mut self, text: &str) {
        if !self.lost {
            self.lost = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).is_err();
        }
    }
}
