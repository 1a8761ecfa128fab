//! The width of the terminal.

use std::io::IsTerminal;

/// The width of terminals that do not report one.
const USUAL: usize = 80;

/// Returns the columns of a line of standard output: those that the terminal reports, else `COLUMNS`, else 80 for a
/// terminal and no limit for other output.
pub fn columns() -> usize {
    let variable = std::env::var("COLUMNS").ok();
    decide(window(), variable.as_deref(), std::io::stdout().is_terminal())
}

/// Returns the width that the terminal reports.
fn window() -> Option<u16> {
    rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| size.ws_col)
}

pub(super) fn decide(window: Option<u16>, variable: Option<&str>, terminal: bool) -> usize {
    // Pseudo-terminals without a size report 0.
    let reported = window.map(usize::from).filter(|&columns| columns > 0);
    let asked = || variable.and_then(|text| text.trim().parse().ok()).filter(|&columns| columns > 0);
    reported.or_else(asked).unwrap_or(if terminal { USUAL } else { usize::MAX })
}
