//! Where the text goes, for as long as somebody reads it.

use std::io::Write;

/// A writer that gives up at the first error: no training ends because nobody watches it any more.
pub(super) struct Sink<W> {
    out: W,
    lost: bool,
}

impl<W: Write> Sink<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, lost: false }
    }

    /// Writes `text` at once, in one piece, so that a redraw does not flicker.
    pub(super) fn show(&mut self, text: &str) {
        if !self.lost {
            self.lost = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).is_err();
        }
    }
}
