//! How much is shown.

use std::io::IsTerminal;

/// How much is asked for: Keras' `verbose` argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verbose {
    /// Keras' `"auto"`: a bar where somebody watches, a line per epoch where a file or another program reads.
    #[default]
    Auto,
    /// Keras' `0`: nothing.
    Silent,
    /// Keras' `1`: a bar, redrawn in place.
    Bar,
    /// Keras' `2`: one line at the end of each pass.
    Line,
}

/// How much is shown: [`Verbose`], decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Silent,
    /// A bar, redrawn in place.
    Bar,
    /// One line at the end of each pass.
    Line,
}

impl Verbose {
    /// Decides [`Verbose::Auto`] by whether standard output is a terminal.
    pub fn resolve(self) -> Mode {
        self.resolve_for(std::io::stdout().is_terminal())
    }

    /// Decides [`Verbose::Auto`] for an output that is a terminal or is not.
    ///
    /// ```
    /// use phalanx_train::fit::progress::{Mode, Verbose};
    ///
    /// assert_eq!(Verbose::Auto.resolve_for(true), Mode::Bar);
    /// assert_eq!(Verbose::Auto.resolve_for(false), Mode::Line);
    /// assert_eq!(Verbose::Bar.resolve_for(false), Mode::Bar);
    /// ```
    pub fn resolve_for(self, terminal: bool) -> Mode {
        match self {
            Self::Auto if terminal => Mode::Bar,
            Self::Auto | Self::Line => Mode::Line,
            Self::Silent => Mode::Silent,
            Self::Bar => Mode::Bar,
        }
    }
}
