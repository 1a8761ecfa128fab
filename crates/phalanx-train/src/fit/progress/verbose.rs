//! The verbosity of the display.

use std::io::IsTerminal;

/// Keras' `verbose` argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verbose {
    /// Keras' `"auto"`: a bar on a terminal, else a line per epoch.
    #[default]
    Auto,
    /// Keras' `0`: nothing.
    Silent,
    /// Keras' `1`: a bar, redrawn in place.
    Bar,
    /// Keras' `2`: one line at the end of each pass.
    Line,
}

/// What the display shows: a resolved [`Verbose`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressMode {
    /// Nothing.
    Silent,
    /// A bar, redrawn in place.
    Bar,
    /// One line at the end of each pass.
    Line,
}

impl Verbose {
    /// Resolves [`Verbose::Auto`] for standard output.
    pub fn resolve(self) -> ProgressMode {
        self.resolve_for(std::io::stdout().is_terminal())
    }

    /// Resolves [`Verbose::Auto`] for an output that is, or is not, a terminal.
    ///
    /// ```
    /// use phalanx_train::fit::progress::{ProgressMode, Verbose};
    ///
    /// assert_eq!(Verbose::Auto.resolve_for(true), ProgressMode::Bar);
    /// assert_eq!(Verbose::Auto.resolve_for(false), ProgressMode::Line);
    /// assert_eq!(Verbose::Bar.resolve_for(false), ProgressMode::Bar);
    /// ```
    pub fn resolve_for(self, terminal: bool) -> ProgressMode {
        match self {
            Self::Auto if terminal => ProgressMode::Bar,
            Self::Auto | Self::Line => ProgressMode::Line,
            Self::Silent => ProgressMode::Silent,
            Self::Bar => ProgressMode::Bar,
        }
    }
}
