//! The text of a job and the places in it.

use phalanx_base::{Code, Error, Snippet, nearest};
use std::ops::Range;

/// Bytes of the text.
pub(crate) type Span = Range<usize>;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    /// `None` for what the file does not say: a default, or an option of the command line.
    pub(crate) span: Option<Span>,
}

impl<T> At<T> {
    pub(crate) fn new(value: T, span: &Span) -> Self {
        Self { value, span: Some(span.clone()) }
    }

    pub(crate) fn unsaid(value: T) -> Self {
        Self { value, span: None }
    }
}

/// A text and its name in messages.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Source {
    /// An error that points at a place; `label` stands beside the caret.
    pub(crate) fn wrong(&self, code: Code, span: &Span, what: impl Into<String>, label: impl Into<String>) -> Error {
        Error::new(code, what).snippet(self.snippet(span, label))
    }

    fn snippet(&self, span: &Span, label: impl Into<String>) -> Snippet {
        Snippet::new(&self.name, &self.text, span.clone(), label)
    }

    /// Lets an error from elsewhere point at the place that brought it about; without one, at the file.
    pub(crate) fn point(&self, error: Error, span: Option<&Span>, label: &str) -> Error {
        match span {
            _ if error.pointed_at().is_some() => error,
            Some(span) => error.snippet(self.snippet(span, label)),
            None => error.snippet(self.snippet(&(0..0), format!("{label} (not said in this file)"))),
        }
    }

    /// Lets an error from elsewhere point, and gives it the help that it lacks.
    pub(crate) fn point_with(&self, error: Error, span: Option<&Span>, label: &str, help: &str) -> Error {
        let error = if error.next().is_some() { error } else { error.help(help) };
        self.point(error, span, label)
    }
}

/// `did you mean "x"?`, or the names there are.
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
        return "there is none that could be meant; leave it out".to_owned();
    }
    let more = known.len().saturating_sub(24);
    known.truncate(24);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("use one of {}{more}", known.join(", "))
}
