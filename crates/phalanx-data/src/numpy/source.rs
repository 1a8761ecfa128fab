//! Arrays as sources.

use super::header;
use super::members::{Member, members};
use crate::batch::no_column;
use crate::files::{FileList, Files, InputFile};
use crate::strided::{Conversion, Opened, StridedFiles, StridedReader};
use crate::{PartPosition, Reader, Source};
use phalanx_base::{Code, Error, Result};
use std::io::Read;

/// `.npy` files, a column each; made by [`npy`](crate::npy).
#[derive(Clone, Debug)]
pub struct Npy(StridedFiles);

impl Npy {
    pub(super) fn new(name: String, files: Files) -> Self {
        Self(StridedFiles::default().column(name, files))
    }

    /// Adds a column from other files: as many files, in the same order, with as many rows.
    #[must_use]
    pub fn column(self, name: impl Into<String>, files: impl Into<Files>) -> Self {
        Self(self.0.column(name.into(), files.into()))
    }

    /// Marks a column as the label; bytes in it become int64.
    #[must_use]
    pub fn label(self, name: impl Into<String>) -> Self {
        Self(self.0.label(name.into()))
    }
}

impl Source for Npy {
    fn parts(&self) -> Result<usize> {
        self.0.parts()
    }

    fn open(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>> {
        self.0.open(part, from, |path| header::read(&mut InputFile::open(path, 0)?, &format!("{path:?}")))
    }

    fn kind(&self) -> &str {
        "npy"
    }

    fn part_name(&self, part: usize) -> String {
        self.0.part_name(part)
    }
}

/// `.npz` files; made by [`npz`](crate::npz).
#[derive(Clone, Debug)]
pub struct Npz {
    files: FileList,
    select: Option<Vec<String>>,
    label: Option<String>,
}

impl Npz {
    pub(super) fn new(files: Files) -> Self {
        Self { files: FileList::new(files), select: None, label: None }
    }

    /// Reads these arrays only (and the label), in this order.
    #[must_use]
    pub fn select<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        Self { select: Some(names.into_iter().map(Into::into).collect()), ..self }
    }

    /// Marks an array as the label; bytes in it become int64.
    #[must_use]
    pub fn label(self, name: impl Into<String>) -> Self {
        Self { label: Some(name.into()), ..self }
    }

    /// The names of the arrays in the first file, in its order.
    ///
    /// # Errors
    /// When there is no such file, or it is not complete.
    pub fn names(&self) -> Result<Vec<String>> {
        let files = self.files.list()?;
        let Some(path) = files.first() else { return Ok(Vec::new()) };
        Ok(self.wanted(&members(path)?, path)?.into_iter().map(|(name, _)| name).collect())
    }

    fn wanted(&self, members: &[Member], path: &str) -> Result<Vec<(String, Member)>> {
        let named = |member: &Member| member.name.strip_suffix(".npy").unwrap_or(&member.name).to_owned();
        let all: Vec<(String, Member)> = members.iter().map(|member| (named(member), member.clone())).collect();
        let find = |name: &String| {
            let missing = || no_column("array", name, all.iter().map(|(name, _)| name.as_str())).at(path);
            all.iter().find(|(known, _)| known == name).cloned().ok_or_else(missing)
        };
        match &self.select {
            Some(select) => {
                let label = self.label.iter().filter(|label| !select.contains(label));
                select.iter().chain(label).map(find).collect()
            }
            None => {
                self.label.iter().try_for_each(|label| find(label).map(drop))?;
                Ok(all)
            }
        }
    }
}

impl Source for Npz {
    fn parts(&self) -> Result<usize> {
        Ok(self.files.list()?.len())
    }

    fn open(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>> {
        let path = &self.files.list()?[part];
        let mut columns = Vec::new();
        for (name, member) in self.wanted(&members(path)?, path)? {
            let place = format!("{:?} in {path:?}", member.name);
            let mut stream = member.open(path)?;
            let layout = header::read(&mut *stream, &place)?;
            skip(&mut *stream, from.row.min(layout.rows) * layout.stride().unwrap_or(0) as u64, &place)?;
            let conversion =
                if self.label.as_ref() == Some(&name) { Conversion::Integers } else { Conversion::Natural };
            columns.push(Opened { place, name, layout, stream, conversion });
        }
        Ok(Box::new(StridedReader::new(columns, self.label.as_deref(), from.row)?))
    }

    fn kind(&self) -> &str {
        "npz"
    }

    fn part_name(&self, part: usize) -> String {
        self.files.name(part)
    }
}

/// Compressed members cannot be entered in their middle.
fn skip(stream: &mut dyn Read, count: u64, place: &str) -> Result<()> {
    match std::io::copy(&mut stream.take(count), &mut std::io::sink()) {
        Ok(skipped) if skipped == count => Ok(()),
        Ok(_) => Err(Error::new(Code::DataFormat, format!("{place} is cut short"))),
        Err(error) => Err(Error::new(Code::DataFormat, format!("{place} cannot be read")).because(error)),
    }
}
