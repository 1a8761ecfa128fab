//! The lines of a task's output.

use std::io::Read;
use std::time::{Duration, Instant};

/// Longer lines are cut: they would be in memory several times.
const LONGEST: usize = 16 << 10;
/// How often a line that is rewritten in place, such as a progress bar, is taken.
const REWRITTEN: Duration = Duration::from_secs(1);

/// Passes every line of `stream` to `take`, until the stream ends.
///
/// A carriage return ends a line too, but only one such line per second is taken. Invalid UTF-8 is replaced; control characters
/// except tabs, and with them colours, are removed.
pub(crate) fn each_line(mut stream: impl Read, mut take: impl FnMut(&str)) {
    let mut pending = Vec::new();
    let mut buffer = [0_u8; 8192];
    let mut rewritten: Option<Instant> = None;
    let mut after_return = false;
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for &byte in &buffer[..count] {
            match byte {
                b'\n' if after_return && pending.is_empty() => {}
                b'\n' => emit(&mut pending, &mut take),
                b'\r' => {
                    // If a line feed follows, the line ends; otherwise it is rewritten.
                    after_return = true;
                    continue;
                }
                byte => {
                    if after_return {
                        rewrite(&mut pending, &mut rewritten, &mut take);
                    }
                    if pending.len() < LONGEST {
                        pending.push(byte);
                    }
                }
            }
            after_return = false;
        }
    }
    if !pending.is_empty() {
        emit(&mut pending, &mut take);
    }
}

fn rewrite(pending: &mut Vec<u8>, last: &mut Option<Instant>, take: &mut impl FnMut(&str)) {
    if last.is_none_or(|at| at.elapsed() >= REWRITTEN) && !pending.is_empty() {
        *last = Some(Instant::now());
        emit(pending, take);
    }
    pending.clear();
}

fn emit(pending: &mut Vec<u8>, take: &mut impl FnMut(&str)) {
    let text = String::from_utf8_lossy(pending);
    if text.chars().any(|c| c.is_control() && c != '\t') {
        take(&plain(&text))
    } else {
        take(&text)
    }
    pending.clear();
}

/// Removes control characters and the sequences that colour text or move the cursor.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.next_if_eq(&'[').is_some() => {
                // Parameters, then one final letter.
                while chars.next_if(|c| ('\u{20}'..='\u{3f}').contains(c)).is_some() {}
                chars.next_if(|c| ('\u{40}'..='\u{7e}').contains(c));
            }
            '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        each_line(bytes, |line| found.push(line.to_owned()));
        found
    }

    #[test]
    fn lines_end_at_line_feeds_and_at_the_end() {
        assert_eq!(lines(b"a\n\nb\r\nc"), ["a", "", "b", "c"]);
        assert_eq!(lines(b""), [""; 0]);
        assert_eq!(lines("höhe \u{1f600}\n".as_bytes()), ["höhe \u{1f600}"]);
    }

    #[test]
    fn a_rewritten_line_is_taken_once_and_its_last_form_always() {
        assert_eq!(lines(b"1/3\r2/3\r3/3\ndone\n"), ["1/3", "3/3", "done"]);
    }

    #[test]
    fn colours_and_control_characters_are_removed() {
        assert_eq!(lines(b"\x1b[1;32mok\x1b[0m\x07\tfine\x1b]\n"), ["ok\tfine]"]);
        assert_eq!(lines(b"\xff\xfe\n"), ["\u{fffd}\u{fffd}"]);
    }

    #[test]
    fn a_line_without_end_does_not_fill_the_memory() {
        let long = vec![b'x'; 1 << 20];
        assert_eq!(lines(&long), ["x".repeat(LONGEST)]);
    }
}
