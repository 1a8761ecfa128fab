//! A model as a checkpoint has it, ready to predict.

use crate::{Table, Trainable};
use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_nn::burn::module::Module;
use phalanx_nn::model::Mode;
use phalanx_nn::{Book, default_device};
use phalanx_ps::checkpoint::Checkpoint;
use phalanx_ps::plan::Initializer;
use phalanx_storage::Dir;
use phalanx_train::RowValues;
use phalanx_train::checkpoint::{Catalog, Retention, is_damage};
use std::collections::HashMap;
use std::sync::Arc;

/// What checkpoints are called.
pub(crate) const BASENAME: &str = "model.ckpt";

/// The newest checkpoint of a run directory, by name.
pub(crate) fn newest(dir: &Dir) -> Result<Option<String>> {
    Ok(newest_first(dir)?.into_iter().next())
}

/// The checkpoints of a run directory by name, the newest first.
pub(crate) fn newest_first(dir: &Dir) -> Result<Vec<String>> {
    Ok(Catalog::open(dir, BASENAME, Retention::default())?.newest_first())
}

/// A model with the values of a checkpoint.
pub(crate) struct Trained<M: Trainable> {
    model: Arc<M>,
    pub(crate) module: M::Module,
    /// The dense variables, by name.
    pub(crate) dense: HashMap<String, Vec<f32>>,
    pub(crate) tables: Vec<TableValues>,
    pub(crate) checkpoint: String,
    pub(crate) global_step: u64,
}

/// The rows of a table. A row that was never touched is what it begins as.
pub(crate) struct TableValues {
    pub(crate) table: Table,
    places: HashMap<i64, usize>,
    rows: Vec<f32>,
}

impl TableValues {
    fn read(table: &Table, checkpoint: &Checkpoint) -> Result<Self> {
        let (name, tensors) = (&table.spec.name, checkpoint.tensors());
        let keys = format!("{name}-keys");
        let (keys, rows) = if checkpoint.index().tensors().contains_key(&keys) {
            (tensors.read(&keys)?.i64s()?, tensors.read(&format!("{name}-values"))?.f32s()?)
        } else {
            // An export has all rows, as TensorFlow has them.
            ((0..table.rows as i64).collect(), tensors.read(name)?.f32s()?)
        };
        if rows.len() != keys.len() * table.spec.dim {
            let what = format!("table {name:?} has {} ids and {} numbers", keys.len(), rows.len());
            return Err(Error::new(Code::CheckpointMismatch, what).at(checkpoint.name()));
        }
        let places = keys.into_iter().enumerate().map(|(place, id)| (id, place)).collect();
        Ok(Self { table: table.clone(), places, rows })
    }

    /// Appends the row of `id`.
    pub(crate) fn row(&self, id: i64, out: &mut Vec<f32>) {
        let dim = self.table.spec.dim;
        match self.places.get(&id) {
            Some(place) => out.extend_from_slice(&self.rows[place * dim..][..dim]),
            None => {
                let start = out.len();
                out.resize(start + dim, 0.0);
                let initializer: &Initializer = &self.table.spec.initializer;
                initializer.fill(id, &mut out[start..]);
            }
        }
    }
}

impl<M: Trainable> Trained<M> {
    /// The checkpoint `name` of `dir`.
    pub(crate) fn load(model: &Arc<M>, dir: &Dir, name: &str) -> Result<Self> {
        let checkpoint = Checkpoint::open(dir, name)?;
        let module = model.module(&default_device())?;
        let book = Book::of(&module)?;
        let (mut values, mut dense) = (Vec::with_capacity(book.parameters().len()), HashMap::new());
        for parameter in book.parameters() {
            let tensor = checkpoint.tensors().read(&parameter.name).map_err(|error| not_of(&checkpoint, error))?;
            let numbers = tensor.f32s()?;
            if numbers.len() != parameter.shape.elements() {
                let what = format!("variable {:?} has {} numbers", parameter.name, numbers.len());
                let error =
                    Error::new(Code::CheckpointMismatch, what).because(format!("the model has {}", parameter.shape));
                return Err(not_of(&checkpoint, error));
            }
            dense.insert(parameter.name.clone(), numbers.clone());
            values.push(Some(numbers));
        }
        let module = book.load(module, values).valid();
        let tables = model.tables().iter().map(|table| TableValues::read(table, &checkpoint));
        let tables = tables.collect::<Result<_>>().map_err(|error| not_of(&checkpoint, error))?;
        let global_step = checkpoint.global_step()?;
        Ok(Self { model: Arc::clone(model), module, dense, tables, checkpoint: name.to_owned(), global_step })
    }

    /// The logits of a batch, row after row.
    pub(crate) fn logits(&self, batch: &Batch) -> Result<Vec<f32>> {
        let input = self.model.input(batch)?;
        let ids = self.model.ids(&input);
        let rows = ids.iter().map(|(table, ids)| {
            let (values, dim) = (&self.tables[*table], self.tables[*table].table.spec.dim);
            let mut numbers = Vec::with_capacity(ids.len() * dim);
            ids.iter().for_each(|&id| values.row(id, &mut numbers));
            RowValues { values: numbers, dim, positions: (0..ids.len() as u32).collect() }
        });
        let forward = self.model.forward(&self.module, &input, rows.collect(), Mode::Inference)?;
        let data = forward.logits.into_data();
        data.try_into_vec::<f32>().map_err(|error| {
            Error::new(Code::ShapeMismatch, "logits are not 32-bit floats").because(format!("{error:?}"))
        })
    }
}

fn not_of(checkpoint: &Checkpoint, error: Error) -> Error {
    if is_damage(&error) {
        return Error::new(Code::CheckpointDamaged, format!("checkpoint {:?} cannot be used", checkpoint.name()))
            .because(error)
            .help("`phalanx ckpt verify PREFIX` says what is wrong with it; use an older one");
    }
    Error::new(Code::CheckpointMismatch, format!("checkpoint {:?} is not of this model", checkpoint.name()))
        .because(error)
        .help("use another model_dir, or build the model that the checkpoint was made with")
}
