//! The error type of the whole system: what, where, why, what to do next, and a stable code.

use crate::{Code, Snippet};

/// The result of anything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure, in the parts that its reader needs.
///
/// ```
/// use phalanx_base::{Code, Error};
/// let error = Error::new(Code::PeerUnreachable, "ps/1 is unreachable")
///     .at("127.0.0.1:2222")
///     .because("connection refused")
///     .help("start ps/1, or correct its address in the cluster");
/// assert_eq!(error.to_string(), "ps/1 is unreachable (127.0.0.1:2222): connection refused");
/// assert!(error.report().starts_with("error[PX0201]: ps/1 is unreachable\n"));
/// ```
#[derive(Clone, Debug)]
pub struct Error(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    code: Code,
    what: String,
    place: Option<String>,
    why: Option<String>,
    help: Option<String>,
    snippet: Option<Snippet>,
    relayed: bool,
}

impl Error {
    /// Creates an error that states what happened.
    #[must_use]
    pub fn new(code: Code, what: impl Into<String>) -> Self {
        let what = what.into();
        Self(Box::new(Parts { code, what, place: None, why: None, help: None, snippet: None, relayed: false }))
    }

    /// Adds where it happened: a task, an address, a file and line.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.0.place = Some(place.into());
        self
    }

    /// Adds the cause, or the evidence for the error.
    #[must_use]
    pub fn because(mut self, why: impl std::fmt::Display) -> Self {
        self.0.why = Some(why.to_string());
        self
    }

    /// Adds what the reader can do next.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Adds a pointer into the user's own text.
    #[must_use]
    pub fn snippet(mut self, snippet: Snippet) -> Self {
        self.0.snippet = Some(snippet);
        self
    }

    /// Marks the error as one that another task reported: the job did not fail here.
    #[must_use]
    pub fn relayed(mut self) -> Self {
        self.0.relayed = true;
        self
    }

    /// Returns whether another task reported this error.
    #[must_use]
    pub fn is_relayed(&self) -> bool {
        self.0.relayed
    }

    /// Returns the stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// Returns what happened, without place and cause.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.0.what
    }

    /// Returns where it happened, if known.
    #[must_use]
    pub fn place(&self) -> Option<&str> {
        self.0.place.as_deref()
    }

    /// Returns the cause, if known.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        self.0.why.as_deref()
    }

    /// Returns what to do next, if known.
    #[must_use]
    pub fn next(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// Returns the position in the user's own text that the report points at, such as `job.toml:12:5`, if there is one.
    #[must_use]
    pub fn pointed_at(&self) -> Option<String> {
        self.0.snippet.as_ref().map(Snippet::place)
    }

    /// Returns the exit code of a process that ends with this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.0.code.fault().exit_code()
    }

    /// Returns the full report over several lines, as a terminal shows it.
    #[must_use]
    pub fn report(&self) -> String {
        let parts = &*self.0;
        let mut text = format!("error[{}]: {}\n", parts.code, parts.what);
        if let Some(snippet) = &parts.snippet {
            text += &snippet.render();
        }
        for (label, line) in [("at", &parts.place), ("why", &parts.why), ("help", &parts.help)] {
            if let Some(line) = line {
                text += &format!("  = {label}: {line}\n");
            }
        }
        text
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.what)?;
        if let Some(place) = &self.0.place {
            write!(f, " ({place})")?;
        }
        if let Some(why) = &self.0.why {
            write!(f, ": {why}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Converts a foreign error into an [`Error`] that keeps its text as the cause.
pub trait Context<T> {
    /// Adds a code and what was being done when the foreign error occurred.
    ///
    /// # Errors
    /// When `self` is an error.
    fn context(self, code: Code, what: impl Into<String>) -> Result<T>;
}

impl<T, E: std::fmt::Display> Context<T> for Result<T, E> {
    fn context(self, code: Code, what: impl Into<String>) -> Result<T> {
        self.map_err(|error| Error::new(code, what).because(error))
    }
}
