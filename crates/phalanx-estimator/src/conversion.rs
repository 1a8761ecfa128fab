//! Checkpoints for TensorFlow's Estimator, written from those of a run directory.

use crate::trained::stored_rows;
use crate::{Estimator, Table, Trainable};
use phalanx_base::{Code, Error, Result, Shape};
use phalanx_formats::bundle::{BundleWriter, Dtype, data_file};
use phalanx_nn::{ParameterRegistry, default_device};
use phalanx_optim::Optimizer;
use phalanx_ps::checkpoint::{Checkpoint, GLOBAL_STEP};
use phalanx_storage::{Dir, StagedFile};
use phalanx_train::checkpoint::{BASENAME, CheckpointStore, Retention};
use std::collections::HashMap;

/// The names that an Estimator gives to optimizer state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EstimatorNames {
    /// Those of `tf.compat.v1.estimator` with an optimizer of `tf.compat.v1.train`: `NAME/t_0/Adagrad`, `beta1_power`.
    V1,
    /// Those of `tf.estimator` with an optimizer of `tf.keras.optimizers.legacy`: `training/Adagrad/NAME/accumulator`.
    V2,
}

/// A checkpoint that [`Estimator::convert_checkpoint`] wrote.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Converted {
    /// Its name.
    pub name: String,
    /// The committed steps in it.
    pub global_step: u64,
    /// The number of its tensors.
    pub tensors: usize,
}

impl<M: Trainable> Estimator<M> {
    /// Writes the newest checkpoint of the run directory into `to`, as TensorFlow's Estimator of the same model and optimizers
    /// would have: that Estimator, with `to` as its `model_dir`, predicts and continues from it. Tables become dense
    /// variables, whose rows without training have their initial values.
    ///
    /// # Errors
    /// Fails if there is no checkpoint, it is not of this model, TensorFlow has no such optimizer, a table is too large for a
    /// dense variable, or `to` already has a checkpoint or cannot be written.
    pub fn convert_checkpoint(&self, names: EstimatorNames, to: &str) -> Result<Converted> {
        let newest = self.latest_checkpoint()?.ok_or_else(|| {
            Error::new(Code::CheckpointMissing, "there is no checkpoint to convert")
                .at(self.dir.location())
                .help("train the model first, or give the run directory of an earlier training")
        })?;
        let checkpoint = Checkpoint::open(&self.dir, &newest)?;
        self.check_fits(&checkpoint)?;
        let dir = Dir::open(to)?;
        let mut store = CheckpointStore::open(&dir, BASENAME, Retention::default())?;
        if let Some(there) = store.newest_first().first() {
            return Err(Error::new(Code::StorageLocation, format!("{to} already has the checkpoint {there}"))
                .because("a converted checkpoint begins a directory")
                .help("give --out a new directory"));
        }
        let step = checkpoint.global_step()?;
        let name = store.name(step);
        let scopes = self.scopes(names)?;
        self.check_convertible(&scopes)?;
        let mut out = Output { out: BundleWriter::new(dir.stage(&data_file(&name, 0, 1))?), tensors: 0 };
        self.write_all(&checkpoint, &scopes, &mut out)?;
        scopes.write_counters(self, &checkpoint, step, &mut out)?;
        out.scalar_i64(GLOBAL_STEP, step)?;
        let Output { out, tensors } = out;
        let (file, index) = out.finish()?;
        store.publish(&name, &[file.finish()?.name], &index)?;
        Ok(Converted { name, global_step: step, tensors })
    }

    /// Returns the scopes of the linear and the deep part, each with its optimizer.
    fn scopes(&self, names: EstimatorNames) -> Result<Scopes> {
        let tables = self.model.tables().iter().map(|table| Ok((table.spec.name.as_str(), table.spec.optimizer)));
        let variables = self.variables.iter().map(|name| Ok((name.as_str(), self.model.optimizer(name)?)));
        let all = variables.chain(tables).collect::<Result<Vec<_>>>()?;
        let of = |is_linear: bool| {
            let own = |(name, _): &&(&str, Optimizer)| name.starts_with(LINEAR) == is_linear && !is_average(name);
            all.iter().find(own).map(|&(_, optimizer)| optimizer)
        };
        Ok(Scopes { names, deep: of(false), linear: of(true) })
    }

    fn check_convertible(&self, scopes: &Scopes) -> Result<()> {
        for optimizer in [scopes.deep, scopes.linear].into_iter().flatten() {
            let amsgrad = optimizer.slots().iter().any(|slot| slot.name == "vhat");
            if optimizer.keras_name().is_none() || (amsgrad && scopes.names == EstimatorNames::V1) {
                return Err(Error::new(Code::BadSetting, format!("TensorFlow's Estimator has no {optimizer}"))
                    .because("a checkpoint for it has the state of an optimizer that it can train with")
                    .help("convert with --to tf-v2, or train with sgd, momentum, adagrad, adam, rmsprop or ftrl"));
            }
        }
        if let Some(Table { spec, rows }) = self.model.tables().iter().find(|table| table.is_growing()) {
            let what = format!("table {:?} is too large for a variable of TensorFlow", spec.name);
            return Err(Error::new(Code::BadSetting, what)
                .because(format!("it has {rows} rows of {} numbers", spec.dim))
                .help("export the model with `phalanx export`, which writes the rows that were seen"));
        }
        Ok(())
    }

    fn write_all(&self, checkpoint: &Checkpoint, scopes: &Scopes, out: &mut Output) -> Result<()> {
        let registry = ParameterRegistry::of(&self.model.module(&default_device())?)?;
        for parameter in registry.parameters() {
            let (name, shape) = (&parameter.name, &parameter.shape);
            let optimizer = self.model.optimizer(name)?;
            for (part, tensor) in scopes.parts(&optimizer, name) {
                let numbers = match part {
                    Some(part) => scaled(checkpoint.read_part(&optimizer, name, part)?, scopes.scale(&optimizer, part)),
                    None => vec![0.0; shape.elements()],
                };
                out.floats(&tensor, shape, [numbers.as_slice()])?;
            }
        }
        self.model.tables().iter().try_for_each(|table| write_table(checkpoint, table, scopes, out))
    }
}

/// Writes a table as a dense variable.
fn write_table(checkpoint: &Checkpoint, table: &Table, scopes: &Scopes, out: &mut Output) -> Result<()> {
    let (spec, optimizer, dim) = (&table.spec, &table.spec.optimizer, table.spec.dim);
    let shape = Shape::new([table.rows, dim])?;
    let positions: Option<HashMap<i64, usize>> = stored_rows(checkpoint, &spec.name, dim)?
        .map(|(keys, _)| keys.into_iter().enumerate().map(|(at, id)| (id, at)).collect());
    for (part, tensor) in scopes.parts(optimizer, &spec.name) {
        let stored = match part {
            Some(part) => scaled(checkpoint.read_part(optimizer, &spec.name, part)?, scopes.scale(optimizer, part)),
            None => Vec::new(),
        };
        let mut initial = vec![0.0; dim];
        let rows = (0..table.rows).map(|id| {
            let at = positions.as_ref().map_or(Some(id), |positions| positions.get(&(id as i64)).copied());
            if let Some(row) = at.and_then(|at| stored.get(at * dim..(at + 1) * dim)) {
                return row.to_vec();
            }
            match part {
                Some(0) => spec.initializer.fill(id as i64, &mut initial),
                Some(slot) => initial.fill(optimizer.slot_init(slot - 1)),
                None => initial.fill(0.0),
            }
            initial.clone()
        });
        out.floats(&tensor, &shape, rows)?;
    }
    Ok(())
}

fn scaled(mut numbers: Vec<f32>, scale: f32) -> Vec<f32> {
    if scale != 1.0 {
        numbers.iter_mut().for_each(|number| *number *= scale);
    }
    numbers
}

/// The bundle that is written.
struct Output {
    out: BundleWriter<StagedFile>,
    tensors: usize,
}

impl Output {
    fn floats<R: AsRef<[f32]>>(&mut self, name: &str, shape: &Shape, runs: impl IntoIterator<Item = R>) -> Result<()> {
        let mut tensor = self.out.begin(name, Dtype::F32, shape)?;
        runs.into_iter().try_for_each(|run| tensor.write_f32s(run.as_ref()))?;
        self.tensors += 1;
        tensor.finish()
    }

    fn scalar(&mut self, name: &str, number: f32) -> Result<()> {
        self.floats(name, &Shape::new([])?, [[number]])
    }

    fn scalar_i64(&mut self, name: &str, number: u64) -> Result<()> {
        self.tensors += 1;
        self.out.add_i64s(name, &Shape::new([])?, &[number.cast_signed()])
    }
}

/// The prefix of the variables of a linear part.
const LINEAR: &str = "linear/";

/// Returns whether a variable is a moving average, which has no optimizer in TensorFlow.
fn is_average(name: &str) -> bool {
    name.contains("/moving_")
}

/// The optimizers of a model's parts, and the names of their state.
struct Scopes {
    names: EstimatorNames,
    deep: Option<Optimizer>,
    linear: Option<Optimizer>,
}

impl Scopes {
    /// Returns the parts of a variable - values, then slots - under TensorFlow's names. `None` is a slot that only TensorFlow
    /// has: the momentum of an RMSprop without any.
    fn parts(&self, optimizer: &Optimizer, of: &str) -> Vec<(Option<usize>, String)> {
        let mut parts = vec![(Some(0), of.to_owned())];
        if is_average(of) {
            return parts;
        }
        for slot in 0..optimizer.slot_count() {
            parts.push((Some(slot + 1), self.slot(optimizer, of, slot)));
        }
        if let (EstimatorNames::V1, Optimizer::RmsProp(_)) = (self.names, optimizer)
            && !optimizer.slots().iter().any(|slot| slot.name == "momentum")
        {
            let scope = self.v1_scope();
            parts.push((None, format!("{of}{scope}/RMSProp_{}", optimizer.slot_count())));
        }
        parts
    }

    fn slot(&self, optimizer: &Optimizer, of: &str, slot: usize) -> String {
        match self.names {
            EstimatorNames::V1 => {
                let own = optimizer.slot_in_checkpoint(of, slot);
                format!("{of}{}{}", self.v1_scope(), own.strip_prefix(of).unwrap_or(&own))
            }
            EstimatorNames::V2 => {
                format!("{}/{of}/{}", self.keras_scope(optimizer, of.starts_with(LINEAR)), optimizer.slots()[slot].name)
            }
        }
    }

    /// Returns what stands between a variable's name and its slot's: an Estimator of one part partitions its variables, also
    /// into one part.
    fn v1_scope(&self) -> &'static str {
        match (&self.deep, &self.linear) {
            (Some(_), None) => "/t_0",
            (None, Some(_)) => "/part_0",
            _ => "",
        }
    }

    /// Returns the scope of a Keras optimizer. The deep part's is made first.
    fn keras_scope(&self, optimizer: &Optimizer, is_linear: bool) -> String {
        let name = optimizer.keras_name().unwrap_or_default();
        let twice = is_linear && self.deep.is_some_and(|deep| deep.keras_name() == optimizer.keras_name());
        format!("training/{name}{}", if twice { "_1" } else { "" })
    }

    /// Returns the factor from our slot to TensorFlow's: `MomentumOptimizer` keeps a sum of gradients, Keras' SGD the last
    /// change.
    fn scale(&self, optimizer: &Optimizer, part: usize) -> f32 {
        match (self.names, optimizer) {
            _ if part == 0 => 1.0,
            (EstimatorNames::V1, Optimizer::Sgd(_)) => -1.0 / optimizer.learning_rate(),
            (EstimatorNames::V2, Optimizer::Momentum(_)) => -optimizer.learning_rate(),
            _ => 1.0,
        }
    }

    /// Writes the settings and counters of the optimizers.
    fn write_counters<M: Trainable>(
        &self,
        estimator: &Estimator<M>,
        checkpoint: &Checkpoint,
        step: u64,
        out: &mut Output,
    ) -> Result<()> {
        let parts = [(self.deep, false), (self.linear, true)];
        let parts = parts.into_iter().filter_map(|(optimizer, is_linear)| optimizer.map(|own| (own, is_linear)));
        let mut adams = 0;
        for (optimizer, is_linear) in parts {
            match self.names {
                EstimatorNames::V2 => {
                    let scope = self.keras_scope(&optimizer, is_linear);
                    for (name, value) in optimizer.keras_settings() {
                        out.scalar(&format!("{scope}/{name}"), value)?;
                    }
                    // The first optimizer counts in global_step.
                    if is_linear && self.deep.is_some() {
                        out.scalar_i64(&format!("{scope}/iter"), step)?;
                    }
                }
                EstimatorNames::V1 => {
                    let Optimizer::Adam(adam) = optimizer else { continue };
                    let of = estimator.variables.iter().find(|name| name.starts_with(LINEAR) == is_linear);
                    let updates = of.map_or(Ok(step), |name| checkpoint.updates_of(&optimizer, name))?;
                    let scope = match (&self.deep, &self.linear) {
                        (Some(_), None) => "dnn/head",
                        (None, Some(_)) => "linear/head",
                        _ => "head",
                    };
                    let number = if adams == 0 { "" } else { "_1" };
                    adams += 1;
                    let (beta_1, beta_2) = adam.betas();
                    for (name, beta) in [("beta1_power", beta_1), ("beta2_power", beta_2)] {
                        // It is one step ahead of the updates.
                        let power = f64::from(beta).powf(updates as f64 + 1.0) as f32;
                        out.scalar(&format!("{scope}/{name}{number}"), power)?;
                    }
                }
            }
        }
        Ok(())
    }
}
