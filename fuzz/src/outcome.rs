//! What one input led to.

use crate::MEMORY;
use crate::watch::Watch;
use phalanx_base::Error;
use phalanx_fuzz::Parser;
use std::panic::catch_unwind;
use std::time::{Duration, Instant};

/// What one input led to.
pub(crate) struct Outcome {
    /// Success, or the kind of error: its code and its words without the numbers and names in them.
    pub(crate) class: String,
    /// Bytes in use at the most.
    pub(crate) peak: usize,
    pub(crate) time: Duration,
    /// Why it is a finding.
    pub(crate) finding: Option<String>,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { class, peak, time, finding } = self;
        let finding = finding.as_deref().unwrap_or("no finding");
        write!(f, "{class}, {peak} bytes at most, {time:?}: {finding}")
    }
}

/// Runs a parser on one input.
pub(crate) fn run(parser: &Parser, input: &[u8], watch: &Watch, limit_ms: u64) -> Outcome {
    watch.begin(parser.name, input);
    let start = Instant::now();
    let (result, peak) = MEMORY.peak_of(|| catch_unwind(|| (parser.run)(input)));
    let time = start.elapsed();
    watch.end();
    let allowed = parser.allowed_bytes(input.len());
    let (class, mut finding) = match result {
        Ok(Ok(())) => ("ok".to_owned(), None),
        Ok(Err(error)) => (class(&error), None),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
            ("panic".to_owned(), Some(format!("panic: {text}")))
        }
    };
    if finding.is_none() && peak > allowed {
        finding = Some(format!("memory: {peak} bytes for an input of {}, {allowed} are allowed", input.len()));
    }
    if finding.is_none() && time > Duration::from_millis(limit_ms) {
        finding = Some(format!("time: {time:?} for an input of {} bytes", input.len()));
    }
    Outcome { class, peak, time, finding }
}

/// An error without what differs from input to input.
fn class(error: &Error) -> String {
    let text = format!("{} {} {}", error.code(), error.what(), error.why().unwrap_or_default());
    let mut class = String::new();
    let mut quoted = false;
    let mut letters = text.chars().skip_while(|letter| *letter != ' ');
    while let Some(letter) = letters.next() {
        if letter == '\\' {
            letters.next();
            continue;
        }
        quoted ^= letter == '"';
        if !quoted && letter.is_ascii() && !letter.is_ascii_digit() && letter != '"' {
            class.push(letter);
        }
        if class.len() > 60 {
            break;
        }
    }
    format!("{}{class}", error.code())
}
