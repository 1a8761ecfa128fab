//! Colours of the terminal.

use std::io::IsTerminal;

/// Colours of tasks, legible on light and dark backgrounds.
const COLOURS: [&str; 6] = ["36", "35", "33", "34", "32", "31"];

/// Colours text for standard error and standard output, each if it is a terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    err: bool,
    out: bool,
}

impl Paint {
    /// Uses colours in a terminal unless `NO_COLOR` is set and not empty.
    pub(super) fn of_terminal(err: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { err: err && wanted, out: std::io::stdout().is_terminal() && wanted && !dumb }
    }

    /// Treats standard output as standard error.
    pub(super) fn out_is_err(&mut self) {
        self.out = self.err;
    }

    pub(super) fn verb(self, verb: &str) -> String {
        wrap(self.err, "1;32", &format!("{verb:>12}"))
    }

    pub(super) fn warning(self, verb: &str) -> String {
        wrap(self.err, "1;33", &format!("{verb:>12}"))
    }

    /// The first line of a failure in red, the rest unchanged.
    pub(super) fn failure(self, text: &str) -> String {
        match text.split_once('\n') {
            Some((first, rest)) => format!("{}\n{rest}", wrap(self.err, "1;31", first)),
            None => text.to_owned(),
        }
    }

    pub(super) fn bottom(self, line: &str) -> String {
        wrap(self.err, "1", line)
    }

    pub(super) fn task(self, at: usize, label: &str) -> String {
        wrap(self.out, COLOURS[at % COLOURS.len()], label)
    }
}

fn wrap(on: bool, colour: &str, text: &str) -> String {
    if on { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
}
