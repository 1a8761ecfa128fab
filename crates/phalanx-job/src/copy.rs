//! Copies of a job, kept beside what was made with it.

use crate::paths::absolute;
use crate::{Job, Overrides};
use phalanx_base::{Code, Context, Error, Result};
use phalanx_storage::Dir;
use std::path::{Path, PathBuf};

/// What a copy is called, in a run directory and in `assets.extra/` of an export.
pub(crate) const COPY: &str = "job.toml";

impl Job {
    /// The text of a copy: this file, and a table at its end that says where it came from.
    ///
    /// `files` are copied along, each under the name that is given; `model_dir` is `None` in an export, which may be
    /// carried elsewhere.
    fn copy_text(&self, model_dir: Option<&str>, files: &[(String, String)]) -> String {
        // A copy of a copy has one origin: the first.
        let text = self.source.text.split("\n[origin]").next().unwrap_or_default();
        let said = Overrides { model_dir: model_dir.map(absolute), ..self.overrides.clone() };
        let mut copy = format!("{}\n\n[origin]  # written by phalanx\n", text.trim_end());
        copy += &format!("folder = {}\n", quoted(&self.paths.folder.to_string_lossy()));
        for (key, value) in [("data_dir", said.data_dir.as_deref().map(absolute)), ("model_dir", said.model_dir)] {
            copy += &value.map_or_else(String::new, |value| format!("{key} = {}\n", quoted(&value)));
        }
        copy += &said.max_steps.map_or_else(String::new, |steps| format!("max_steps = {steps}\n"));
        copy += &said.seed.map_or_else(String::new, |seed| format!("seed = {}\n", seed.cast_signed()));
        if !files.is_empty() {
            copy += "[origin.files]\n";
            files.iter().for_each(|(said, name)| copy += &format!("{} = {}\n", quoted(said), quoted(name)));
        }
        copy
    }

    /// The run directory that the file names.
    ///
    /// # Errors
    /// When it names none.
    pub fn place(&self) -> Result<Place> {
        let Some(dir) = &self.model_dir else {
            let error = Error::new(Code::JobKey, "the job names no model_dir").help("give the model_dir itself");
            return Err(self.source.point(error, None, "no model_dir"));
        };
        Ok(Place::ModelDir(PathBuf::from(&dir.value)))
    }

    /// Puts a copy into a run directory.
    pub(crate) fn keep(&self, dir: &Dir) -> Result<()> {
        dir.create_all()?;
        dir.write(COPY, self.copy_text(Some(&dir.location()), &[]).as_bytes())
    }

    /// What goes into `assets.extra/` of an export: a copy, and the files of its vocabularies.
    pub(crate) fn assets_extra(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let (mut names, mut assets) = (Vec::new(), Vec::new());
        for file in self.columns.iter().filter_map(|named| named.file.as_ref()) {
            if names.iter().any(|(said, _)| *said == file.value) {
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
        assets.push((COPY.to_owned(), self.copy_text(None, &names).into_bytes()));
        Ok(assets)
    }
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// Something that was trained by a job: a run directory, or an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A run directory.
    ModelDir(PathBuf),
    /// An exported model.
    Export(PathBuf),
}

impl Place {
    /// What `path` is.
    ///
    /// # Errors
    /// When it is neither a run directory of a job nor an export of one.
    pub fn find(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if path.join("saved_model.pb").is_file() {
            return Ok(Self::Export(path.to_owned()));
        }
        if path.join(COPY).is_file() {
            return Ok(Self::ModelDir(path.to_owned()));
        }
        let what = format!("{} holds no trained job", path.display());
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

    /// The job that made it.
    ///
    /// # Errors
    /// When the copy that was kept is missing or cannot be read.
    pub fn job(&self, overrides: Overrides) -> Result<Job> {
        let file = match self {
            Self::ModelDir(folder) => folder.join(COPY),
            Self::Export(folder) => folder.join("assets.extra").join(COPY),
        };
        if !file.is_file() {
            return Err(Error::new(Code::DataMissing, format!("{} is not there", file.display()))
                .because("only what `phalanx train` and `phalanx export` made has the description of its job with it")
                .help("give the model_dir instead, or export the model again"));
        }
        let model_dir = match self {
            Self::ModelDir(folder) => Some(folder.to_string_lossy().into_owned()),
            Self::Export(_) => None,
        };
        Job::read(&file, Overrides { model_dir: overrides.model_dir.clone().or(model_dir), ..overrides })
    }
}
