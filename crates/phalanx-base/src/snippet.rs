//! Carets under the user's own text.

use std::ops::Range;

/// The number of bytes of a long line that are shown on either side of the caret.
const WINDOW: usize = 60;

/// An excerpt of the user's text with one range marked.
///
/// ```
/// use phalanx_base::Snippet;
/// let text = r#"{"task": {"type": "wroker"}}"#;
/// let at = text.find("\"wroker\"").unwrap();
/// let shown = Snippet::new("TF_CONFIG", text, at..at + 8, "no such job").render();
/// assert!(shown.contains("^^^^^^^^ no such job"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snippet {
    source: String,
    line: usize,
    column: usize,
    text: String,
    indent: usize,
    width: usize,
    label: String,
}

impl Snippet {
    /// Marks the bytes `span` of `text`. A span outside of the text is drawn at its end.
    #[must_use]
    pub fn new(source: &str, text: &str, span: Range<usize>, label: impl Into<String>) -> Self {
        let start = floor_char(text, span.start.min(text.len()));
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = floor_char(text, span.end.clamp(start, line_end));
        let from = floor_char(text, line_start.max(start.saturating_sub(WINDOW)));
        let to = floor_char(text, line_end.min(end + WINDOW));
        let (head, tail) = (if from > line_start { "…" } else { "" }, if to < line_end { "…" } else { "" });
        let shown: String = text[from..to].chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self {
            source: source.to_owned(),
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            text: format!("{head}{shown}{tail}"),
            indent: head.chars().count() + text[from..start].chars().count(),
            width: text[start..end].chars().count().max(1),
            label: label.into(),
        }
    }

    /// Returns where the mark begins, such as `TF_CONFIG:2:10`.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}:{}", self.source, self.line, self.column)
    }

    /// Returns the lines that a terminal shows.
    #[must_use]
    pub fn render(&self) -> String {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        format!(
            " {margin}--> {}\n {margin} |\n {number} | {}\n {margin} | {}{} {}\n",
            self.place(),
            self.text,
            " ".repeat(self.indent),
            "^".repeat(self.width),
            self.label
        )
    }
}

fn floor_char(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_the_line_and_column() {
        let shown = Snippet::new("TF_CONFIG", "{\n  \"a\": 1,\n}", 11..12, "here").render();
        assert_eq!(Snippet::new("TF_CONFIG", "{\n  \"a\": 1,\n}", 11..12, "").place(), "TF_CONFIG:2:10");
        assert_eq!(shown, "  --> TF_CONFIG:2:10\n   |\n 2 |   \"a\": 1,\n   |          ^ here\n");
    }

    #[test]
    fn long_lines_are_cut_around_the_caret() {
        let text = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let shown = Snippet::new("t", &text, 500..501, "").render();
        assert!(shown.lines().all(|line| line.chars().count() < 140), "{shown}");
        assert!(shown.contains(&format!("{}X", "a".repeat(WINDOW))));
    }

    #[test]
    fn spans_outside_of_the_text_and_inside_characters_do_not_panic() {
        for start in 0..12 {
            for end in 0..12 {
                let _ = Snippet::new("t", "aé漢\n字b", start..end, "x").render();
            }
        }
    }
}
