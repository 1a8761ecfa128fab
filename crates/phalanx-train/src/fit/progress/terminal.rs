//! How wide the terminal is.

use std::io::IsTerminal;

/// What terminals have had since punched cards, for those that do not say.
const USUAL: usize = 80;

/// How many columns a line of standard output may have.
///
/// The terminal knows; one that does not say is as wide as `COLUMNS` says, or 80. Output that is not a terminal is not
/// limited, unless `COLUMNS` limits it.
pub fn columns() -> usize {
    let variable = std::env::var("COLUMNS").ok();
    decide(window(), variable.as_deref(), std::io::stdout().is_terminal())
}

/// The width that the terminal reports.
fn window() -> Option<u16> {
    rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| size.ws_col)
}

pub(super) fn decide(window: Option<u16>, variable: Option<&str>, terminal: bool) -> usize {
    // Pseudo-terminals that nobody has given a size report 0.
    let reported = window.map(usize::from).filter(|&columns| columns > 0);
    let asked = || variable.and_then(|text| text.trim().parse().ok()).filter(|&columns| columns > 0);
    reported.or_else(asked).unwrap_or(if terminal { USUAL } else { usize::MAX })
}
