//! A start from what another training learned: TensorFlow's `WarmStartSettings`.

use crate::trained::BASENAME;
use crate::{Estimator, Table, Trainable};
use phalanx_base::{Code, Error, Result, Shape, nearest};
use phalanx_formats::bundle::{BundleWriter, data_file, index_file};
use phalanx_nn::{Book, default_device};
use phalanx_optim::Optimizer;
use phalanx_ps::checkpoint::{Checkpoint, GLOBAL_STEP};
use phalanx_storage::{Dir, StagedFile};
use phalanx_train::checkpoint::{Catalog, Retention};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which variables start from another training's.
type Chosen = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Where a model starts from: a checkpoint of ours or of TensorFlow's Estimator. It counts only where the run directory has no
/// checkpoint yet; slots of optimizers start anew.
///
/// ```
/// use phalanx_estimator::{RunConfig, WarmStart};
/// let from = WarmStart::new("runs/last_year")
///     .only(|variable| variable.starts_with("dnn/"))
///     .rename("dnn/logits/kernel", "dnn/head/kernel");
/// let config = RunConfig::new().model_dir("runs/this_year").warm_start_from(from);
/// # let _ = config;
/// ```
#[derive(Clone)]
pub struct WarmStart {
    path: String,
    chosen: Option<Chosen>,
    names: BTreeMap<String, String>,
}

impl WarmStart {
    /// From a run directory's newest checkpoint, a checkpoint such as `runs/a/model.ckpt-300`, or an exported model.
    #[must_use]
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), chosen: None, names: BTreeMap::new() }
    }

    /// Only variables that `chosen` wants; the others start as they do without this.
    #[must_use]
    pub fn only(mut self, chosen: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.chosen = Some(Arc::new(chosen));
        self
    }

    /// What the variable `ours` is called there.
    #[must_use]
    pub fn rename(mut self, ours: impl Into<String>, theirs: impl Into<String>) -> Self {
        self.names.insert(ours.into(), theirs.into());
        self
    }

    fn wants(&self, variable: &str) -> bool {
        self.chosen.as_ref().is_none_or(|chosen| chosen(variable))
    }

    fn name<'a>(&'a self, variable: &'a str) -> &'a str {
        self.names.get(variable).map_or(variable, String::as_str)
    }

    fn open(&self) -> Result<Checkpoint> {
        let dir = Dir::open(&self.path)?;
        let exported = dir.child("variables")?;
        if exported.size("variables.index")?.is_some() {
            return Checkpoint::open(&exported, "variables");
        }
        let (dir, name) = find_checkpoint(&self.path)?;
        Checkpoint::open(&dir, &name)
    }
}

impl std::fmt::Debug for WarmStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WarmStart({:?})", self.path)
    }
}

/// The newest checkpoint of a run directory, or the one that a path such as `runs/a/model.ckpt-300` names.
pub(crate) fn find_checkpoint(path: &str) -> Result<(Dir, String)> {
    let dir = Dir::open(path)?;
    // Looked at first: a catalog makes the directory that it is opened on.
    if dir.size("checkpoint")?.is_some()
        && let Some(name) = Catalog::open(&dir, BASENAME, Retention::default())?.newest_first().into_iter().next()
    {
        return Ok((dir, name));
    }
    let (parent, name) = path.trim_end_matches('/').rsplit_once('/').unwrap_or((".", path));
    let parent = Dir::open(if parent.is_empty() { "/" } else { parent })?;
    if parent.size(&index_file(name))?.is_some() {
        return Ok((parent, name.to_owned()));
    }
    Err(Error::new(Code::CheckpointMissing, format!("there is no checkpoint at {path:?}"))
        .because("it is neither a run directory with one nor the name of one")
        .help("give a run directory, or a checkpoint's path without `.index`; `phalanx ckpt ls DIR` shows those there are"))
}

/// What is read from.
struct Source<'a> {
    settings: &'a WarmStart,
    checkpoint: Checkpoint,
}

impl Source<'_> {
    /// The numbers of a variable there, checked against the model's.
    fn read(&self, variable: &str, elements: usize) -> Result<Vec<f32>> {
        let name = self.settings.name(variable);
        let tensors = self.checkpoint.tensors();
        let numbers = tensors.read(name).map_err(|error| self.missing(name, error))?.f32s()?;
        if numbers.len() == elements {
            return Ok(numbers);
        }
        let found = &tensors.info(name)?.shape;
        Err(Error::new(Code::CheckpointMismatch, format!("variable {variable:?} has {elements} numbers"))
            .because(format!("{name:?} of {:?} has shape {found}", self.checkpoint.name()))
            .help("build the model with the same columns and layers, or leave the variable out with only(…)"))
    }

    fn missing(&self, name: &str, error: Error) -> Error {
        let known = self.checkpoint.index().tensors().keys().map(String::as_str);
        let near = nearest(name, known).map(|near| format!("; it has {near:?}")).unwrap_or_default();
        Error::new(Code::CheckpointMismatch, format!("the warm start has no variable {name:?}{near}"))
            .at(self.settings.path.clone())
            .because(error)
            .help("name it with rename(ours, theirs), or leave it out with only(…)")
    }

    /// The rows of a table there: all of a variable's, or those that a table of ours has.
    fn rows(&self, table: &Table) -> Result<(Vec<i64>, Vec<f32>)> {
        let name = self.settings.name(&table.spec.name);
        let keys = format!("{name}-keys");
        if !self.checkpoint.index().tensors().contains_key(&keys) {
            let rows = self.read(&table.spec.name, table.rows * table.spec.dim)?;
            return Ok(((0..table.rows as i64).collect(), rows));
        }
        let keys = self.checkpoint.tensors().read(&keys)?.i64s()?;
        let rows = self.checkpoint.tensors().read(&format!("{name}-values"))?.f32s()?;
        if rows.len() == keys.len() * table.spec.dim {
            return Ok((keys, rows));
        }
        let what = format!("table {:?} has rows of {} numbers", table.spec.name, table.spec.dim);
        Err(Error::new(Code::CheckpointMismatch, what).because(format!("not so in {:?}", self.checkpoint.name())))
    }
}

impl<M: Trainable> Estimator<M> {
    /// Puts the warm start into the run directory, as its first checkpoint; nothing where there is one already.
    pub(crate) fn warm_start(&self) -> Result<Option<String>> {
        let Some(settings) = &self.config.warm_start else { return Ok(None) };
        if self.latest_checkpoint()?.is_some() {
            return Ok(None);
        }
        let source = Source { settings, checkpoint: settings.open()? };
        let mut catalog = Catalog::open(&self.dir, BASENAME, Retention::default())?;
        let name = catalog.name(0);
        let mut out = BundleWriter::new(self.dir.stage(&data_file(&name, 0, 1))?);
        self.write_variables(&source, &mut out)?;
        for table in self.model.tables() {
            write_table(&source, table, &mut out)?;
        }
        out.add_i64s(GLOBAL_STEP, &Shape::new([])?, &[0])?;
        let (file, index) = out.finish()?;
        catalog.publish(&name, &[file.finish()?.name], &index)?;
        Ok(Some(format!("{} of {}", source.checkpoint.name(), settings.path)))
    }

    fn write_variables(&self, source: &Source<'_>, out: &mut BundleWriter<StagedFile>) -> Result<()> {
        let module = self.model.module(&default_device())?;
        let book = Book::of(&module)?;
        for (parameter, start) in book.parameters().iter().zip(book.values(&module)?) {
            let elements = parameter.shape.elements();
            let numbers = if source.settings.wants(&parameter.name) {
                source.read(&parameter.name, elements)?
            } else {
                start.into()
            };
            out.add_f32s(&parameter.name, &parameter.shape, &numbers)?;
            let optimizer = self.model.optimizer(&parameter.name)?;
            slots(&optimizer, &parameter.name, |slot, name| {
                out.add_f32s(&name, &parameter.shape, &vec![optimizer.slot_init(slot); elements])
            })?;
        }
        Ok(())
    }
}

fn write_table(source: &Source<'_>, table: &Table, out: &mut BundleWriter<StagedFile>) -> Result<()> {
    let spec = &table.spec;
    let (keys, rows) = if source.settings.wants(&spec.name) { source.rows(table)? } else { Default::default() };
    let shape = Shape::new([keys.len(), spec.dim])?;
    out.add_i64s(&format!("{}-keys", spec.name), &Shape::new([keys.len()])?, &keys)?;
    out.add_f32s(&format!("{}-values", spec.name), &shape, &rows)?;
    slots(&spec.optimizer, &spec.name, |slot, name| {
        out.add_f32s(&format!("{name}-values"), &shape, &vec![spec.optimizer.slot_init(slot); rows.len()])
    })
}

/// Calls `write` with the number and the checkpoint's name of each slot of a variable.
fn slots(optimizer: &Optimizer, of: &str, mut write: impl FnMut(usize, String) -> Result<()>) -> Result<()> {
    (0..optimizer.slot_count()).try_for_each(|slot| write(slot, optimizer.slot_in_checkpoint(of, slot)))
}
