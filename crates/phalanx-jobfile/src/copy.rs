//! Copies of a job in its run directory and its exports.

use crate::paths::absolute;
use crate::{Job, Overrides};
use phalanx_base::{Code, Context, Error, Result};
use phalanx_storage::Dir;
use std::path::{Path, PathBuf};

/// The file name of a copy, in a run directory and in `assets.extra/` of an export.
pub(crate) const COPY: &str = "job.toml";

impl Job {
    /// The text of a copy: this file, followed by a table that records its origin.
    ///
    /// `files` pairs the path of each file that is copied too with its new name. `model_dir` is `None` in an export, which
    /// may be moved elsewhere.
    fn copy_text(&self, model_dir: Option<&str>, files: &[(String, String)]) -> String {
        // A copy of a copy keeps the first origin only.
        let text = self.source.text.split("\n[origin]").next().unwrap_or_default();
        let given = Overrides { model_dir: model_dir.map(absolute), ..self.overrides.clone() };
        let mut copy = format!("{}\n\n[origin]  # written by phalanx\n", text.trim_end());
        copy += &format!("folder = {}\n", quoted(&self.paths.folder.to_string_lossy()));
        for (key, value) in [("data_dir", given.data_dir.as_deref().map(absolute)), ("model_dir", given.model_dir)] {
            copy += &value.map_or_else(String::new, |value| format!("{key} = {}\n", quoted(&value)));
        }
        copy += &given.max_steps.map_or_else(String::new, |steps| format!("max_steps = {steps}\n"));
        copy += &given.seed.map_or_else(String::new, |seed| format!("seed = {}\n", seed.cast_signed()));
        if !given.set.is_empty() {
            let flags: Vec<String> = given.set.iter().map(|flag| quoted(flag)).collect();
            copy += &format!("set = [{}]\n", flags.join(", "));
        }
        if !files.is_empty() {
            copy += "[origin.files]\n";
            files.iter().for_each(|(path, name)| copy += &format!("{} = {}\n", quoted(path), quoted(name)));
        }
        copy
    }

    /// Returns the run directory that the file names.
    ///
    /// # Errors
    /// If it names none.
    pub fn trained(&self) -> Result<TrainedJob> {
        let Some(dir) = &self.model_dir else {
            let error = Error::new(Code::JobKey, "the job has no model_dir").help("give the model_dir itself");
            return Err(self.source.point(error, None, "no model_dir"));
        };
        Ok(TrainedJob::ModelDir(PathBuf::from(&dir.value)))
    }

    /// Writes a copy into a run directory.
    pub(crate) fn write_copy(&self, dir: &Dir) -> Result<()> {
        dir.create_all()?;
        dir.write(COPY, self.copy_text(Some(&dir.location()), &[]).as_bytes())
    }

    /// The files for `assets.extra/` of an export: a copy, and the vocabulary files.
    pub(crate) fn assets_extra(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let (mut names, mut assets) = (Vec::new(), Vec::new());
        for file in self.columns.iter().filter_map(|named| named.file.as_ref()) {
            if names.iter().any(|(path, _)| *path == file.value) {
                continue;
            }
            let path = self.paths.of_data(&file.value);
            let content = std::fs::read(&path).context(Code::DataMissing, format!("{path} cannot be read"));
            let content = content
                .map_err(|error| self.source.point_with(error, file.span.as_ref(), "this file", "correct the path"))?;
            let name = format!("vocabulary/{}", names.len());
            names.push((file.value.clone(), name.clone()));
            assets.push((name, content));
        }
        assets.extend(self.statistics_asset());
        assets.push((COPY.to_owned(), self.copy_text(None, &names).into_bytes()));
        Ok(assets)
    }
}

/// A text as a TOML string.
pub(crate) fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// A trained job: a run directory or an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrainedJob {
    /// A run directory.
    ModelDir(PathBuf),
    /// An exported model.
    Export(PathBuf),
}

impl TrainedJob {
    /// Returns what `path` is.
    ///
    /// # Errors
    /// If it is neither the run directory nor an export of a job.
    pub fn find(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if path.join("saved_model.pb").is_file() {
            return Ok(Self::Export(path.to_owned()));
        }
        if path.join(COPY).is_file() {
            return Ok(Self::ModelDir(path.to_owned()));
        }
        let what = format!("{} is not a trained job", path.display());
        let error = Error::new(Code::DataMissing, what);
        if !path.is_dir() {
            return Err(error
                .because("there is no such folder")
                .help("give the model_dir of `phalanx train`, or an export"));
        }
        let newest = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let newest = newest.filter(|path| path.join("saved_model.pb").is_file()).max();
        Err(match newest {
            Some(export) => {
                error.because("it is a folder of exports").help(format!("name one of them: {}", export.display()))
            }
            None => error
                .because(format!("it has neither {COPY} nor saved_model.pb"))
                .help("give the model_dir of `phalanx train`, or a folder that it exported"),
        })
    }

    /// Returns the job that produced it.
    ///
    /// # Errors
    /// If its copy of the job is missing or cannot be read.
    pub fn job(&self, overrides: Overrides) -> Result<Job> {
        let file = match self {
            Self::ModelDir(folder) => folder.join(COPY),
            Self::Export(folder) => folder.join("assets.extra").join(COPY),
        };
        if !file.is_file() {
            return Err(Error::new(Code::DataMissing, format!("{} is missing", file.display()))
                .because("only `phalanx train` and `phalanx export` write a copy of the job")
                .help("give the model_dir instead, or export the model again"));
        }
        let model_dir = match self {
            Self::ModelDir(folder) => Some(folder.to_string_lossy().into_owned()),
            Self::Export(_) => None,
        };
        Job::read(&file, Overrides { model_dir: overrides.model_dir.clone().or(model_dir), ..overrides })
    }
}
