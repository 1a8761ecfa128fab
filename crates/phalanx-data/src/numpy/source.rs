//! Arrays as sources.

use std::io::Read;
use std::sync::{Arc, OnceLock};

use phalanx_base::{Code, Error, Result, nearest};

use super::{header, zip};
use crate::files::{Files, InputFile, SideBySide};
use crate::strided::{Become, Opened, StridedReader};
use crate::{PartPosition, Reader, Source};

/// `.npy` files, a column each; made by [`npy`](crate::npy).
#[derive(Clone, Debug)]
pub struct Npy {
    columns: Vec<(String, Files)>,
    label: Option<String>,
    list: SideBySide,
}

impl Npy {
    pub(super) fn new(name: String, files: Files) -> Self {
        Self { columns: vec![(name, files)], label: None, list: SideBySide::default() }
    }

    /// Another column from other files of as many rows; as many files, in the same order.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, files: impl Into<Files>) -> Self {
        self.columns.push((name.into(), files.into()));
        Self { list: SideBySide::default(), ..self }
    }

    /// Marks a column as the label; bytes in it become int64.
    #[must_use]
    pub fn label(self, name: impl Into<String>) -> Self {
        Self { label: Some(name.into()), ..self }
    }

    /// The files of every part, a path for each column.
    fn list(&self) -> Result<Arc<Vec<Vec<String>>>> {
        self.list.list(self.columns.iter().map(|(name, files)| (name.as_str(), files)))
    }
}

impl Source for Npy {
    fn parts(&self) -> Result<usize> {
        Ok(self.list()?.len())
    }

    fn open(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>> {
        let list = self.list()?;
        let mut columns = Vec::with_capacity(self.columns.len());
        for ((name, _), path) in self.columns.iter().zip(&list[part]) {
            let place = format!("{path:?}");
            let layout = header::read(&mut InputFile::open(path, 0)?, &place)?;
            let stride = layout.stride().unwrap_or(0) as u64;
            let stream = Box::new(InputFile::open(path, layout.start + from.row.min(layout.rows) * stride)?);
            columns.push(Opened { place, name: name.clone(), layout, stream, become_: becomes(name, &self.label) });
        }
        Ok(Box::new(StridedReader::new(columns, self.label.as_deref(), from.row)?))
    }

    fn kind(&self) -> &str {
        "npy"
    }

    fn part_name(&self, part: usize) -> String {
        let first = |list: Arc<Vec<Vec<String>>>| list.get(part).map(|paths| paths[0].clone());
        self.list().ok().and_then(first).unwrap_or_else(|| format!("file {part}"))
    }
}

/// `.npz` files; made by [`npz`](crate::npz).
#[derive(Clone, Debug)]
pub struct Npz {
    files: Files,
    select: Option<Vec<String>>,
    label: Option<String>,
    list: OnceLock<Result<Arc<Vec<String>>>>,
}

impl Npz {
    pub(super) fn new(files: Files) -> Self {
        Self { files, select: None, label: None, list: OnceLock::new() }
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

    fn list(&self) -> Result<Arc<Vec<String>>> {
        self.list.get_or_init(|| self.files.list().map(Arc::new)).clone()
    }

    fn wanted(&self, members: &[zip::Member], path: &str) -> Result<Vec<(String, zip::Member)>> {
        let named = |member: &zip::Member| member.name.strip_suffix(".npy").unwrap_or(&member.name).to_owned();
        let all: Vec<(String, zip::Member)> = members.iter().map(|member| (named(member), member.clone())).collect();
        let find = |name: &String| {
            all.iter().find(|(known, _)| known == name).cloned().ok_or_else(|| {
                let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
                let error = Error::new(Code::DataColumn, format!("there is no array {name:?}"))
                    .at(path)
                    .because(format!("the arrays are {}", names.join(", ")));
                match nearest(name, names) {
                    Some(near) => error.help(format!("did you mean {near:?}?")),
                    None => error.help("use one of these names"),
                }
            })
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
        Ok(self.list()?.len())
    }

    fn open(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>> {
        let path = &self.list()?[part];
        let mut columns = Vec::new();
        for (name, member) in self.wanted(&zip::members(path)?, path)? {
            let place = format!("{:?} in {path:?}", member.name);
            let mut stream = member.open(path)?;
            let layout = header::read(&mut *stream, &place)?;
            skip(&mut *stream, from.row.min(layout.rows) * layout.stride().unwrap_or(0) as u64, &place)?;
            let become_ = becomes(&name, &self.label);
            columns.push(Opened { place, name, layout, stream, become_ });
        }
        Ok(Box::new(StridedReader::new(columns, self.label.as_deref(), from.row)?))
    }

    fn kind(&self) -> &str {
        "npz"
    }

    fn part_name(&self, part: usize) -> String {
        self.list().ok().and_then(|list| list.get(part).cloned()).unwrap_or_else(|| format!("file {part}"))
    }
}

fn becomes(name: &str, label: &Option<String>) -> Become {
    if label.as_deref() == Some(name) { Become::Integers } else { Become::Natural }
}

/// Compressed members cannot be entered in their middle.
fn skip(stream: &mut dyn Read, count: u64, place: &str) -> Result<()> {
    match std::io::copy(&mut stream.take(count), &mut std::io::sink()) {
        Ok(skipped) if skipped == count => Ok(()),
        Ok(_) => Err(Error::new(Code::DataFormat, format!("{place} is cut short"))),
        Err(error) => Err(Error::new(Code::DataFormat, format!("{place} cannot be read")).because(error)),
    }
}
