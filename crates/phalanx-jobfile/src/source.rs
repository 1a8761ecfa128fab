//! The text of a job and positions in it.

use phalanx_base::{Code, Error, Snippet, nearest};
use std::ops::Range;

/// A range of bytes of the text.
pub(crate) type Span = Range<usize>;

/// A value and its position.
#[derive(Clone, Debug)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    /// `None` for a value that is not from the file: a default, or a command-line option.
    pub(crate) span: Option<Span>,
}

impl<T> Spanned<T> {
    pub(crate) fn new(value: T, span: &Span) -> Self {
        Self { value, span: Some(span.clone()) }
    }

    pub(crate) fn without_span(value: T) -> Self {
        Self { value, span: None }
    }

    pub(crate) fn span_or(&self, fallback: &Span) -> Span {
        self.span.clone().unwrap_or_else(|| fallback.clone())
    }

    /// The same position with another value.
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Spanned<U> {
        Spanned { value: change(self.value), span: self.span }
    }
}

/// A text and its name in messages, and the `--set` flags that change it. The positions in the flags follow those in the text.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
    /// Each flag with its first position.
    flags: Vec<(usize, String)>,
}

impl Source {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), text: text.to_owned(), flags: Vec::new() }
    }

    /// Adds a flag and returns its first position.
    pub(crate) fn add_flag(&mut self, flag: &str) -> usize {
        let last = self.flags.last().map_or(self.text.len(), |(start, flag)| start + flag.len());
        self.flags.push((last + 1, flag.to_owned()));
        last + 1
    }

    /// Returns whether a position is in a flag instead of the file.
    pub(crate) fn is_in_flag(&self, span: &Span) -> bool {
        span.start > self.text.len()
    }

    /// An error that points at `span`, with `label` next to the caret.
    pub(crate) fn wrong(&self, code: Code, span: &Span, what: impl Into<String>, label: impl Into<String>) -> Error {
        Error::new(code, what).snippet(self.snippet(span, label))
    }

    fn snippet(&self, span: &Span, label: impl Into<String>) -> Snippet {
        match self.flags.iter().rfind(|(start, _)| *start <= span.start) {
            Some((start, flag)) => {
                let end = (span.end - start).min(flag.len());
                Snippet::new("--set", flag, span.start - start..end, label)
            }
            None => Snippet::new(&self.name, &self.text, span.clone(), label),
        }
    }

    /// Makes an error point at its cause in the file, or at the file itself without a span.
    pub(crate) fn point(&self, error: Error, span: Option<&Span>, label: &str) -> Error {
        match span {
            _ if error.pointed_at().is_some() => error,
            Some(span) => error.snippet(self.snippet(span, label)),
            None => error.snippet(self.snippet(&(0..0), format!("{label} (not in this file)"))),
        }
    }

    /// Makes an error point at its cause, and adds `help` if it has none.
    pub(crate) fn point_with(&self, error: Error, span: Option<&Span>, label: &str, help: &str) -> Error {
        let error = if error.next().is_some() { error } else { error.help(help) };
        self.point(error, span, label)
    }
}

/// `did you mean "x"?`, or a list of the known names.
pub(crate) fn meant<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    if let Some(near) = nearest(word, known.clone()) {
        return format!("did you mean \"{near}\"?");
    }
    let mut known: Vec<&str> = known.into_iter().collect();
    let begins =
        |name: &&&str| name.len() > 2 && (word.starts_with(**name) || word.len() > 2 && name.starts_with(word));
    if let Some(near) = known.iter().find(begins) {
        return format!("did you mean \"{near}\"?");
    }
    if known.is_empty() {
        return "no name is known here; leave it out".to_owned();
    }
    let more = known.len().saturating_sub(24);
    known.truncate(24);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("use one of {}{more}", known.join(", "))
}
