//! Warm starts: TensorFlow's `WarmStartSettings`.

use crate::trained::{newest, stored_rows};
use crate::{Estimator, Table, Trainable};
use phalanx_base::{Code, Error, Result, Shape, nearest};
use phalanx_formats::bundle::{BundleWriter, data_file, index_file};
use phalanx_nn::{ParameterRegistry, default_device};
use phalanx_optim::Optimizer;
use phalanx_ps::checkpoint::{Checkpoint, GLOBAL_STEP, table_keys, table_values};
use phalanx_storage::{Dir, StagedFile};
use phalanx_train::checkpoint::{BASENAME, CheckpointStore, Retention};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Selects the variables to warm-start.
type Chosen = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// A warm start from a checkpoint of Phalanx or TensorFlow's Estimator. It applies only if the run directory has no
/// checkpoint yet. Optimizer slots are initialized, not copied.
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
    prefixes: Vec<String>,
    names: BTreeMap<String, String>,
}

impl WarmStart {
    /// Starts from a run directory's newest checkpoint, a checkpoint such as `runs/a/model.ckpt-300`, or an exported
    /// model.
    #[must_use]
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), chosen: None, prefixes: Vec::new(), names: BTreeMap::new() }
    }

    /// Warm-starts only the variables for which `chosen` returns true.
    #[must_use]
    pub fn only(mut self, chosen: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.chosen = Some(Arc::new(chosen));
        self
    }

    /// Warm-starts only the variables whose names begin with one of `prefixes`, each of which must match one.
    #[must_use]
    pub fn only_prefixes(mut self, prefixes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.prefixes = prefixes.into_iter().map(Into::into).collect();
        self
    }

    /// Maps the variable `ours` to its name in the checkpoint.
    #[must_use]
    pub fn rename(mut self, ours: impl Into<String>, theirs: impl Into<String>) -> Self {
        self.names.insert(ours.into(), theirs.into());
        self
    }

    fn wants(&self, variable: &str) -> bool {
        let begins = |prefix: &String| variable.starts_with(prefix.as_str());
        self.chosen.as_ref().is_none_or(|chosen| chosen(variable))
            && (self.prefixes.is_empty() || self.prefixes.iter().any(begins))
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

/// Finds the newest checkpoint of a run directory, or the one that a path such as `runs/a/model.ckpt-300` names.
pub(crate) fn find_checkpoint(path: &str) -> Result<(Dir, String)> {
    let dir = Dir::open(path)?;
    // Checked first, since opening a catalog creates the directory.
    if dir.size("checkpoint")?.is_some()
        && let Some(name) = newest(&dir)?
    {
        return Ok((dir, name));
    }
    let (parent, name) = path.trim_end_matches('/').rsplit_once('/').unwrap_or((".", path));
    let parent = Dir::open(if parent.is_empty() { "/" } else { parent })?;
    if parent.size(&index_file(name))?.is_some() {
        return Ok((parent, name.to_owned()));
    }
    Err(Error::new(Code::CheckpointMissing, format!("there is no checkpoint at {path:?}"))
        .because("it is neither a run directory with a checkpoint nor a checkpoint's prefix")
        .help("give a run directory, or a checkpoint's path without `.index`; `phalanx checkpoint ls DIR` lists checkpoints"))
}

/// What a variable or table begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VariableStart {
    pub(crate) variable: String,
    /// The name in the checkpoint that it is taken from; `None` for its initial values.
    pub(crate) from: Option<String>,
}

impl VariableStart {
    pub(crate) fn log(&self) {
        let variable = self.variable.as_str();
        match &self.from {
            Some(from) if *from != self.variable => {
                tracing::info!(variable, from, "warm start: {variable} is taken from {from}");
            }
            Some(_) => tracing::info!(variable, "warm start: {variable} is taken"),
            None => tracing::info!(variable, "warm start: {variable} keeps its initial values"),
        }
    }
}

/// Lists names for a message.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    let more = names.len().saturating_sub(12);
    names.truncate(12);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.join(", "))
}

/// The checkpoint of a warm start.
struct Source<'a> {
    settings: &'a WarmStart,
    checkpoint: Checkpoint,
}

impl Source<'_> {
    /// Reads a variable of the model's size.
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
            .help("build the model with the same columns and layers, or exclude the variable with only(…)"))
    }

    fn missing(&self, name: &str, error: Error) -> Error {
        let known = self.checkpoint.index().tensors().keys().map(String::as_str);
        let near = nearest(name, known).map(|near| format!("; it has {near:?}")).unwrap_or_default();
        Error::new(Code::CheckpointMismatch, format!("the warm start has no variable {name:?}{near}"))
            .at(self.settings.path.clone())
            .because(error)
            .help("map its name with rename(ours, theirs), or exclude it with only(…)")
    }

    /// Reads the ids and rows of a table: all rows of a TensorFlow variable, or the stored rows of a Phalanx table.
    fn rows(&self, table: &Table) -> Result<(Vec<i64>, Vec<f32>)> {
        let name = self.settings.name(&table.spec.name);
        if let Some(stored) = stored_rows(&self.checkpoint, name, table.spec.dim)? {
            return Ok(stored);
        }
        let rows = self.read(&table.spec.name, table.rows * table.spec.dim)?;
        Ok(((0..table.rows as i64).collect(), rows))
    }
}

impl<M: Trainable> Estimator<M> {
    /// Writes the warm start to the run directory as its first checkpoint, unless there is one already. Returns its origin,
    /// and what each variable begins with.
    pub(crate) fn warm_start(&self) -> Result<Option<(String, Vec<VariableStart>)>> {
        let Some(settings) = &self.config.warm_start else { return Ok(None) };
        if self.latest_checkpoint()?.is_some() {
            return Ok(None);
        }
        let source = Source { settings, checkpoint: settings.open()? };
        let starts = self.variable_starts(&source)?;
        let mut catalog = CheckpointStore::open(&self.dir, BASENAME, Retention::default())?;
        let name = catalog.name(0);
        let mut out = BundleWriter::new(self.dir.stage(&data_file(&name, 0, 1))?);
        self.write_variables(&source, &mut out)?;
        for table in self.model.tables() {
            write_table(&source, table, &mut out)?;
        }
        out.add_i64s(GLOBAL_STEP, &Shape::new([])?, &[0])?;
        let (file, index) = out.finish()?;
        catalog.publish(&name, &[file.finish()?.name], &index)?;
        Ok(Some((format!("{} of {}", source.checkpoint.name(), settings.path), starts)))
    }

    /// Returns which variables are taken over. Settings that match no variable are mistakes.
    fn variable_starts(&self, source: &Source<'_>) -> Result<Vec<VariableStart>> {
        let settings = source.settings;
        let tables = self.model.tables().iter().map(|table| &table.spec.name);
        let names: Vec<&String> = self.variables.iter().chain(tables).collect();
        let known = || names.iter().map(|name| name.as_str());
        let wrong = |what: String, why: &str, name: &str| {
            let help = nearest(name, known()).map(|near| format!("did you mean {near:?}?"));
            let help = help.unwrap_or_else(|| format!("choose among {}", list(known())));
            Err(Error::new(Code::CheckpointMismatch, what).at(settings.path.clone()).because(why).help(help))
        };
        if let Some(ours) = settings.names.keys().find(|ours| !names.contains(ours)) {
            return wrong(format!("the warm start renames {ours:?}"), "the model has no such variable", ours);
        }
        let idle = |prefix: &&String| !names.iter().any(|name| name.starts_with(prefix.as_str()));
        if let Some(prefix) = settings.prefixes.iter().find(idle) {
            let what = format!("the warm start takes over no variable {prefix:?}");
            return wrong(what, "no variable of the model begins like this", prefix);
        }
        let start = |name: &&String| {
            let from = settings.wants(name).then(|| settings.name(name).to_owned());
            VariableStart { variable: (*name).clone(), from }
        };
        let starts: Vec<VariableStart> = names.iter().map(start).collect();
        if starts.iter().any(|start| start.from.is_some()) {
            return Ok(starts);
        }
        wrong("the warm start takes over no variable".to_owned(), "`only` accepts none of the model's variables", "")
    }

    fn write_variables(&self, source: &Source<'_>, out: &mut BundleWriter<StagedFile>) -> Result<()> {
        let module = self.model.module(&default_device())?;
        let registry = ParameterRegistry::of(&module)?;
        let starts = registry.values(&module)?.into_iter().chain(registry.state_values(&module)?);
        for ((parameter, optimizer), start) in self.planned(&registry)?.into_iter().zip(starts) {
            let elements = parameter.shape.elements();
            let numbers = if source.settings.wants(&parameter.name) {
                source.read(&parameter.name, elements)?
            } else {
                start.into()
            };
            out.add_f32s(&parameter.name, &parameter.shape, &numbers)?;
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
    out.add_i64s(&table_keys(&spec.name), &Shape::new([keys.len()])?, &keys)?;
    out.add_f32s(&table_values(&spec.name), &shape, &rows)?;
    slots(&spec.optimizer, &spec.name, |slot, name| {
        out.add_f32s(&table_values(&name), &shape, &vec![spec.optimizer.slot_init(slot); rows.len()])
    })
}

/// Calls `write` with the index and the tensor name of each slot of a variable.
fn slots(optimizer: &Optimizer, of: &str, mut write: impl FnMut(usize, String) -> Result<()>) -> Result<()> {
    (0..optimizer.slot_count()).try_for_each(|slot| write(slot, optimizer.slot_in_checkpoint(of, slot)))
}
