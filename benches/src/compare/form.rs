//! The shape of a job that is compared.

use phalanx::{Code, Error};
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One process, no servers.
    One,
    /// Parameter servers and workers.
    Servers { ps: usize, workers: usize },
    /// Workers that all hold the model, and average gradients.
    Mirrored { workers: usize },
}

impl Form {
    /// Returns the number of tasks.
    pub(crate) fn tasks(self) -> usize {
        match self {
            Self::One => 1,
            Self::Servers { ps, workers } => ps + workers,
            Self::Mirrored { workers } => workers,
        }
    }
}

impl FromStr for Form {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let count = |text: &str| text.parse().ok().filter(|&count: &usize| count > 0);
        let form = match text.split_once('+') {
            Some((ps, workers)) => count(ps).zip(count(workers)).map(|(ps, workers)| Self::Servers { ps, workers }),
            None if text == "one" => Some(Self::One),
            None => match text.strip_prefix("mirrored") {
                Some("") => Some(Self::Mirrored { workers: 2 }),
                Some(rest) => rest.strip_prefix(':').and_then(count).map(|workers| Self::Mirrored { workers }),
                None => None,
            },
        };
        form.ok_or_else(|| {
            Error::new(Code::BadSetting, format!("{text:?} is no form of a job"))
                .help("one, PS+WORKERS such as 2+2, or mirrored (mirrored:3)")
        })
    }
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One => f.write_str("one process"),
            Self::Servers { ps, workers } => write!(f, "{ps} ps + {workers}"),
            Self::Mirrored { workers } => write!(f, "{workers} mirrored"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read() {
        let form = |text: &str| text.parse::<Form>().ok();
        assert_eq!(form("one"), Some(Form::One));
        assert_eq!(form("2+3"), Some(Form::Servers { ps: 2, workers: 3 }));
        assert_eq!(form("mirrored"), Some(Form::Mirrored { workers: 2 }));
        assert_eq!(form("mirrored:4"), Some(Form::Mirrored { workers: 4 }));
        assert!(["", "2", "0+1", "2+", "mirrored4", "two"].iter().all(|text| form(text).is_none()));
    }
}
