//! Columns that each have files of their own.

use super::Files;
use phalanx_base::{Code, Error, Result};
use std::sync::{Arc, OnceLock};

/// The files of columns that are read side by side: as many for each column, listed at first use.
#[derive(Clone, Debug, Default)]
pub(crate) struct SideBySide(OnceLock<Result<Arc<Vec<Vec<String>>>>>);

impl SideBySide {
    /// The files of every part, a path for each column.
    pub(crate) fn list<'a>(
        &self,
        columns: impl Iterator<Item = (&'a str, &'a Files)>,
    ) -> Result<Arc<Vec<Vec<String>>>> {
        let make = || {
            let mut lists: Vec<(&str, Vec<String>)> = Vec::new();
            for (name, files) in columns {
                let list = files.list()?;
                if let Some((first, parts)) = lists.first()
                    && parts.len() != list.len()
                {
                    return Err(Error::new(Code::DataMissing, "columns have different numbers of files")
                        .because(format!("{first:?} has {}, {name:?} has {}", parts.len(), list.len())));
                }
                lists.push((name, list));
            }
            let parts = lists.first().map_or(0, |(_, list)| list.len());
            let part = |at: usize| lists.iter().map(|(_, list)| list[at].clone()).collect();
            Ok(Arc::new((0..parts).map(part).collect()))
        };
        self.0.get_or_init(make).clone()
    }
}
