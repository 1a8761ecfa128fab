//! Columns that each have files of their own.

use super::{Conversion, Layout, Opened, StridedReader};
use crate::files::{Files, InputFile, SideBySide};
use crate::{PartPosition, Reader};
use phalanx_base::Result;
use std::sync::Arc;

/// Columns read side by side, each from its own files of equal rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct StridedFiles {
    columns: Vec<(String, Files, Conversion)>,
    label: Option<String>,
    list: SideBySide,
}

impl StridedFiles {
    pub(crate) fn column(mut self, name: String, files: Files) -> Self {
        self.columns.push((name, files, Conversion::Natural));
        Self { list: SideBySide::default(), ..self }
    }

    pub(crate) fn label(mut self, name: String) -> Self {
        self.label = Some(name.clone());
        self.converted(&name, Conversion::Integers)
    }

    pub(crate) fn converted(mut self, name: &str, conversion: Conversion) -> Self {
        self.columns.iter_mut().filter(|column| column.0 == name).for_each(|column| column.2 = conversion);
        self
    }

    /// Returns the files of every part: a path for each column.
    fn list(&self) -> Result<Arc<Vec<Vec<String>>>> {
        self.list.list(self.columns.iter().map(|(name, files, _)| (name.as_str(), files)))
    }

    pub(crate) fn parts(&self) -> Result<usize> {
        Ok(self.list()?.len())
    }

    pub(crate) fn part_name(&self, part: usize) -> String {
        let first = |list: Arc<Vec<Vec<String>>>| list.get(part).map(|paths| paths[0].clone());
        self.list().ok().and_then(first).unwrap_or_else(|| format!("file {part}"))
    }

    /// Opens one part; `layout` reads the header of a file.
    pub(crate) fn open(
        &self,
        part: usize,
        from: PartPosition,
        layout: impl Fn(&str) -> Result<Layout>,
    ) -> Result<Box<dyn Reader>> {
        let list = self.list()?;
        let mut columns = Vec::with_capacity(self.columns.len());
        for ((name, _, conversion), path) in self.columns.iter().zip(&list[part]) {
            let layout = layout(path)?;
            let stride = layout.stride().unwrap_or(0) as u64;
            let stream = Box::new(InputFile::open(path, layout.start + from.row.min(layout.rows) * stride)?);
            let is_label = self.label.as_ref() == Some(name) && *conversion == Conversion::Natural;
            let conversion = if is_label { Conversion::Integers } else { *conversion };
            columns.push(Opened { place: format!("{path:?}"), name: name.clone(), layout, stream, conversion });
        }
        Ok(Box::new(StridedReader::new(columns, self.label.as_deref(), from.row)?))
    }
}
