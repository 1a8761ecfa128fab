//! The names of a batch's columns.

use phalanx_base::{Code, Error, Result, nearest};
use std::collections::HashSet;
use std::sync::Arc;

/// Column names in order, and which column is the label.
///
/// Made once by a reader and shared by every batch it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    names: Vec<Arc<str>>,
    label: Option<usize>,
}

impl Schema {
    /// A schema of these names.
    ///
    /// # Errors
    /// When a name occurs twice.
    pub fn new<N: Into<Arc<str>>>(names: impl IntoIterator<Item = N>) -> Result<Self> {
        let names: Vec<Arc<str>> = names.into_iter().map(Into::into).collect();
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(&***name)) {
            return Err(Error::new(Code::DataColumn, format!("two columns are named {twice:?}"))
                .help("rename one of them; a column is found by its name"));
        }
        Ok(Self { names, label: None })
    }

    pub(super) fn empty() -> Arc<Self> {
        Arc::new(Self { names: Vec::new(), label: None })
    }

    /// The names, in order.
    #[must_use]
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// Where the label is.
    #[must_use]
    pub fn label(&self) -> Option<usize> {
        self.label
    }

    /// Where a column is, if there is one of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| &**known == name)
    }

    /// Where a column is.
    ///
    /// # Errors
    /// When there is none of that name; says which there are, and the nearest.
    pub fn index(&self, name: &str) -> Result<usize> {
        self.find(name).ok_or_else(|| no_column("column", name, self.names.iter().map(|name| &**name)))
    }

    /// The same names with one marked as the label.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn with_label(&self, name: &str) -> Result<Self> {
        Ok(Self { names: self.names.clone(), label: Some(self.index(name)?) })
    }

    pub(super) fn with_name(&self, name: &str) -> Result<Self> {
        let names = self.names.iter().cloned().chain([Arc::from(name)]);
        Ok(Self { label: self.label, ..Self::new(names)? })
    }

    pub(super) fn without(&self, index: usize) -> Self {
        let mut names = self.names.clone();
        names.remove(index);
        let label = self.label.filter(|&label| label != index).map(|label| label - usize::from(label > index));
        Self { names, label }
    }

    pub(super) fn select(&self, picked: &[usize]) -> Result<Self> {
        let label = self.label.and_then(|label| picked.iter().position(|&index| index == label));
        Ok(Self { label, ..Self::new(picked.iter().map(|&index| self.names[index].clone()))? })
    }

    pub(super) fn beside(&self, other: &Self) -> Result<Self> {
        let label = self.label.or(other.label.map(|label| label + self.names.len()));
        Ok(Self { label, ..Self::new(self.names.iter().chain(&other.names).cloned())? })
    }
}

/// The error for a column that is missing: lists the columns there are, and suggests the most similar name. `what` is
/// what the source calls a column.
pub(crate) fn no_column<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    const SHOWN: usize = 24;
    let known: Vec<&str> = known.collect();
    let mut list = known.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    if known.len() > SHOWN {
        list += &format!(" and {} more", known.len() - SHOWN);
    }
    let list = if known.is_empty() { "none" } else { &list };
    let error =
        Error::new(Code::DataColumn, format!("there is no {what} {name:?}")).because(format!("the {what}s are {list}"));
    match nearest(name, known) {
        Some(near) => error.help(format!("did you mean {near:?}?")),
        None => error.help("use one of these names"),
    }
}
