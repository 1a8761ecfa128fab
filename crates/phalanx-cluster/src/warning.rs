//! Warnings about what TensorFlow silently accepts.

use phalanx_base::{Code, Error};

/// Something that is allowed but probably a mistake.
///
/// ```
/// let text = r#"{"clusster": {"chief": ["a:1"]}}"#;
/// let config = phalanx_cluster::EstimatorConfig::read(Some(text), None).unwrap();
/// let warning = &config.warnings[0];
/// assert_eq!(warning.code().to_string(), "PX0112");
/// assert!(warning.report().contains("did you mean \"cluster\"?"));
/// ```
#[derive(Clone, Debug)]
pub struct Warning(Error);

impl Warning {
    /// Creates a warning with the parts of an error.
    #[must_use]
    pub fn new(error: Error) -> Self {
        Self(error)
    }

    /// Returns the stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code()
    }

    /// Returns what to do about it, if known.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        self.0.next()
    }

    /// Returns the full report over several lines, as a terminal shows it.
    #[must_use]
    pub fn report(&self) -> String {
        self.0.report().replacen("error[", "warning[", 1)
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
