//! Named values of losses and metrics.

use phalanx_base::{Code, Error, Result, nearest};
use serde::{Deserialize, Serialize};

/// The values of a pass over the data: `loss` first, then the metrics, then those of the validation.
///
/// ```
/// use phalanx_train::fit::Logs;
/// let logs: Logs = [("loss", 0.25), ("accuracy", 0.9)].into_iter().collect();
/// assert_eq!(logs.get("accuracy"), Some(0.9));
/// assert!(logs.find("acuracy").unwrap_err().next().unwrap().contains("accuracy"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Logs(Vec<(String, f64)>);

impl Logs {
    /// Returns the value of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, number)| *number)
    }

    /// Returns the value of that name.
    ///
    /// # Errors
    /// Fails if there is none, and lists the known names.
    pub fn find(&self, name: &str) -> Result<f64> {
        self.get(name).ok_or_else(|| no_such(name, self.iter().map(|(known, _)| known)))
    }

    /// Sets a value; a new name goes to the end.
    pub fn set(&mut self, name: &str, number: f64) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = number,
            None => self.0.push((name.to_owned(), number)),
        }
    }

    /// Iterates over names and values, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, number)| (name.as_str(), *number))
    }

    /// Returns names and values, in order.
    pub(crate) fn pairs(&self) -> Vec<(&str, f64)> {
        self.iter().collect()
    }
}

impl<N: Into<String>> FromIterator<(N, f64)> for Logs {
    fn from_iter<I: IntoIterator<Item = (N, f64)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, number)| (name.into(), number)).collect())
    }
}

impl std::fmt::Display for Logs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (name, number)) in self.iter().enumerate() {
            write!(f, "{}{name}: {number:.4}", if at == 0 { "" } else { " - " })?;
        }
        Ok(())
    }
}

/// An error for a name that is not reported.
pub(super) fn no_such<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let known: Vec<&str> = known.collect();
    let error = Error::new(Code::BadSetting, format!("nothing is reported as {name:?}"));
    match nearest(name, known.iter().copied()) {
        Some(near) => error.help(format!("did you mean {near:?}?")),
        None => error.help(format!("there are {}", known.join(", "))),
    }
}
