//! Models loaded from checkpoints.

use crate::{Table, Trainable};
use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_nn::{ParameterRegistry, Parameters, Slots, default_device};
use phalanx_ps::checkpoint::{Checkpoint, table_keys, table_values};
use phalanx_storage::Dir;
use phalanx_train::RowValues;
use phalanx_train::checkpoint::{BASENAME, CheckpointStore, Retention, is_damage};
use std::collections::HashMap;
use std::sync::Arc;

/// Returns the name of the newest checkpoint of a run directory.
pub(crate) fn newest(dir: &Dir) -> Result<Option<String>> {
    Ok(newest_first(dir)?.into_iter().next())
}

/// Returns the names of the checkpoints of a run directory, newest first.
pub(crate) fn newest_first(dir: &Dir) -> Result<Vec<String>> {
    Ok(CheckpointStore::open(dir, BASENAME, Retention::default())?.newest_first())
}

/// A model with the values of a checkpoint.
pub(crate) struct TrainedModel<M: Trainable> {
    model: Arc<M>,
    pub(crate) module: M::Module,
    /// The dense variables, by name.
    pub(crate) dense: HashMap<String, Vec<f32>>,
    pub(crate) tables: Vec<TableValues>,
    pub(crate) checkpoint: String,
    pub(crate) global_step: u64,
}

/// Reads the ids and rows that a checkpoint stores for a table. Returns `None` if it holds a TensorFlow variable instead.
pub(crate) fn stored_rows(checkpoint: &Checkpoint, name: &str, dim: usize) -> Result<Option<(Vec<i64>, Vec<f32>)>> {
    let (keys, tensors) = (table_keys(name), checkpoint.tensors());
    if !checkpoint.index().tensors().contains_key(&keys) {
        return Ok(None);
    }
    let (keys, rows) = (tensors.read(&keys)?.i64s()?, tensors.read(&table_values(name))?.f32s()?);
    check_rows(checkpoint, name, dim, &keys, &rows)?;
    Ok(Some((keys, rows)))
}

fn check_rows(checkpoint: &Checkpoint, name: &str, dim: usize, keys: &[i64], rows: &[f32]) -> Result<()> {
    if rows.len() == keys.len() * dim {
        return Ok(());
    }
    let what = format!("table {name:?} has {} ids and {} numbers", keys.len(), rows.len());
    let why = format!("rows of the model have {dim} numbers");
    Err(Error::new(Code::CheckpointMismatch, what).at(checkpoint.name()).because(why))
}

/// The rows of a table. A row that was never trained has its initial values, or their mean if the table grows.
pub(crate) struct TableValues {
    pub(crate) table: Table,
    /// The position of each id's row.
    positions: HashMap<i64, usize>,
    rows: Vec<f32>,
}

impl TableValues {
    fn read(table: &Table, checkpoint: &Checkpoint) -> Result<Self> {
        let name = &table.spec.name;
        let (keys, rows) = match stored_rows(checkpoint, name, table.spec.dim)? {
            Some(stored) => stored,
            // An export has all rows, as in TensorFlow.
            None => ((0..table.rows as i64).collect(), checkpoint.tensors().read(name)?.f32s()?),
        };
        check_rows(checkpoint, name, table.spec.dim, &keys, &rows)?;
        let positions = keys.into_iter().enumerate().map(|(at, id)| (id, at)).collect();
        Ok(Self { table: table.clone(), positions, rows })
    }

    /// Returns the number of stored rows.
    pub(crate) fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns the stored ids in order.
    pub(crate) fn ids(&self) -> Vec<i64> {
        let mut ids: Vec<i64> = self.positions.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Appends the row of `id`.
    pub(crate) fn row(&self, id: i64, out: &mut Vec<f32>) {
        let dim = self.table.spec.dim;
        match self.positions.get(&id) {
            Some(at) => out.extend_from_slice(&self.rows[at * dim..][..dim]),
            None => {
                let start = out.len();
                out.resize(start + dim, self.table.spec.initializer.mean());
                if !self.table.is_growing() {
                    self.table.spec.initializer.fill(id, &mut out[start..]);
                }
            }
        }
    }
}

impl<M: Trainable> TrainedModel<M> {
    /// Loads the checkpoint `name` of `dir`.
    pub(crate) fn load(model: &Arc<M>, dir: &Dir, name: &str) -> Result<Self> {
        let checkpoint = Checkpoint::open(dir, name)?;
        let module = model.module(&default_device())?;
        let registry = ParameterRegistry::of(&module)?;
        let (mut values, mut dense) = (Vec::with_capacity(registry.parameters().len()), HashMap::new());
        for parameter in registry.parameters().iter().chain(registry.states()) {
            let tensor = checkpoint.tensors().read(&parameter.name).map_err(|error| not_of(&checkpoint, error))?;
            let numbers = tensor.f32s()?;
            if numbers.len() != parameter.shape.elements() {
                let what = format!("variable {:?} has {} numbers", parameter.name, numbers.len());
                let error =
                    Error::new(Code::CheckpointMismatch, what).because(format!("the model has {}", parameter.shape));
                return Err(not_of(&checkpoint, error));
            }
            dense.insert(parameter.name.clone(), numbers.clone());
            values.push(numbers);
        }
        let states = values.split_off(registry.parameters().len());
        let module = registry.load(module, values.into_iter().map(Some).collect());
        let module = registry.load_states(module, states).for_inference();
        let tables = model.tables().iter().map(|table| TableValues::read(table, &checkpoint));
        let tables = tables.collect::<Result<_>>().map_err(|error| not_of(&checkpoint, error))?;
        let global_step = checkpoint.global_step()?;
        Ok(Self { model: Arc::clone(model), module, dense, tables, checkpoint: name.to_owned(), global_step })
    }

    /// Returns the logits of a batch, row-major.
    pub(crate) fn logits(&self, batch: &Batch) -> Result<Vec<f32>> {
        logits(&*self.model, &self.module, &self.tables, batch)
    }

    /// Returns the logits of a batch that `replicas` replicas compute, each on its part of the rows.
    pub(crate) fn logits_on(&self, slots: &Slots, replicas: usize, batch: &Batch) -> Result<Vec<f32>> {
        if replicas == 1 {
            return self.logits(batch);
        }
        let (model, tables, rows) = (&*self.model, &self.tables, batch.rows());
        let each = rows.div_ceil(replicas).max(1);
        let part = |start: usize| (batch.slice(start..rows.min(start + each)), self.module.clone());
        let parts = (0..rows).step_by(each).map(part).collect();
        let done = slots.run(parts, |_, (batch, module)| logits(model, &module, tables, &batch));
        done.into_iter().collect::<Result<Vec<_>>>().map(|parts| parts.concat())
    }
}

fn logits<M: Trainable>(model: &M, module: &M::Module, tables: &[TableValues], batch: &Batch) -> Result<Vec<f32>> {
    let input = model.input(batch)?;
    let rows = model.ids(&input).into_iter().map(|(table, ids)| {
        let (values, dim) = (&tables[table], tables[table].table.spec.dim);
        let mut numbers = Vec::with_capacity(ids.len() * dim);
        ids.iter().for_each(|&id| values.row(id, &mut numbers));
        RowValues { values: numbers, dim, positions: (0..ids.len() as u32).collect() }
    });
    model.logits(module, &input, rows.collect())
}

fn not_of(checkpoint: &Checkpoint, error: Error) -> Error {
    if is_damage(&error) {
        return Error::new(Code::CheckpointDamaged, format!("checkpoint {:?} cannot be used", checkpoint.name()))
            .because(error)
            .help("run `phalanx checkpoint verify PREFIX` for details; use an older checkpoint");
    }
    Error::new(Code::CheckpointMismatch, format!("checkpoint {:?} is not of this model", checkpoint.name()))
        .because(error)
        .help("use another model_dir, or build the model that was saved")
}
