//! What commands print.

use crate::exit::ExitCode;
use phalanx_base::{Error, Result};
use serde_json::{Value, json};
use std::io::Write;

/// Turns the result of a command into its exit code, and prints an error.
pub(crate) fn finish<T>(result: Result<T>) -> ExitCode {
    match result {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprint(&error.report());
            ExitCode::from(error.exit_code())
        }
    }
}

/// Prints to standard output and returns whether that worked. A closed pipe, as with `| head`, is not an error.
pub(crate) fn print(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// Prints to standard error.
pub(crate) fn eprint(text: &str) {
    let _gone = std::io::stderr().lock().write_all(text.as_bytes());
}

/// An error as `code`, `message` and `help`.
pub(crate) fn error_json(error: &Error) -> Value {
    json!({ "code": error.code().to_string(), "message": error.to_string(), "help": error.next() })
}

/// Aligns rows in columns; the first row is the heading.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|row| row.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let line: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        text += line.join("  ").trim_end();
        text.push('\n');
    }
    text
}
