//! Embedding tables whose rows are elsewhere, such as on parameter servers.

use super::DynTensor;
use super::functional::{Model, named};
use super::layer::only;
use super::weights::Weight;
use crate::Rows;
use burn::tensor::{Device, Int, Tensor};
use phalanx_base::{Code, Error, Result, RowInitializer};
use std::sync::Arc;

/// A table of a model: a weight of which a batch needs some rows, by ids that are inputs of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTable {
    /// The name of the weight, such as `embedding/embeddings`.
    pub name: String,
    /// The number of rows: ids are below it.
    pub rows: usize,
    /// How many numbers a row has.
    pub dim: usize,
    /// The first values.
    pub initializer: RowInitializer,
    /// Its index among the trainable weights of the model.
    pub place: usize,
}

/// A source of rows of tables that are not among the weights of a model.
pub trait RowSource: Send + Sync {
    /// Returns the rows of these ids of the model's table with this index.
    ///
    /// # Errors
    /// If they cannot be fetched.
    fn rows(&self, table: usize, ids: &[i64], device: &Device) -> Result<Rows>;
}

#[derive(Clone)]
pub(crate) struct SourceOfRows(pub(crate) Arc<dyn RowSource>);

impl std::fmt::Debug for SourceOfRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RowSource")
    }
}

/// A layer that only looks up rows.
#[derive(Debug)]
pub(crate) struct TableLayer {
    pub(crate) layer: usize,
    pub(crate) initializer: RowInitializer,
    /// For each call, in the order of computation, the step that is its input.
    pub(crate) calls: Vec<usize>,
}

/// Returns ids as numbers.
///
/// # Errors
/// If one of them is not below `rows`.
pub(super) fn checked_ids(ids: &Tensor<1, Int>, rows: usize) -> Result<Vec<i64>> {
    let ids: Vec<i64> = ids.clone().into_data().iter::<i64>().collect();
    let inside = |id: i64| usize::try_from(id).is_ok_and(|id| id < rows);
    match ids.iter().find(|&&id| !inside(id)) {
        Some(id) => Err(Error::new(Code::DataRow, format!("id {id} is not in the table"))
            .because(format!("the table has the ids 0 to {}", rows - 1))
            .help("give the layer more rows, or map unknown ids to a separate row")),
        None => Ok(ids),
    }
}

impl Model {
    fn table_weight(&self, table: usize) -> Option<&Weight> {
        self.weights[self.form.tables[table].layer].first()
    }

    pub(crate) fn all_tables(&self) -> Vec<ModelTable> {
        let trainable = |layer: usize| self.weights[layer].iter().filter(|weight| weight.trainable).count();
        let table = |of: &TableLayer| {
            let weight = self.weights[of.layer].first()?;
            let [rows, dim] = *weight.shape.dims() else { return None };
            let name = format!("{}/{}", self.form.layers[of.layer].name, weight.name);
            let place = (0..of.layer).map(trainable).sum();
            Some(ModelTable { name, rows, dim, initializer: of.initializer, place })
        };
        self.form.tables.iter().filter_map(table).collect()
    }

    /// Returns the values of the tables that something has read or set here.
    pub(crate) fn created_tables(&self) -> Result<Vec<Option<Vec<f32>>>> {
        let created = |table| self.table_weight(table).filter(|weight| weight.is_created());
        (0..self.form.tables.len()).map(|table| created(table).map(Weight::values).transpose()).collect()
    }

    /// Returns the ids that a batch has for each table, in the order of its calls; nothing if the model has its tables.
    pub(crate) fn ids_of(&self, inputs: &[DynTensor]) -> Result<Vec<Vec<i64>>> {
        let form = &*self.form;
        if (0..form.tables.len()).all(|table| self.table_elsewhere(form.tables[table].layer).is_none()) {
            return Ok(Vec::new());
        }
        let of = |table: &TableLayer| {
            let rows = self.weights[table.layer].first().map_or(0, |weight| weight.shape.rows());
            let mut ids = Vec::new();
            for call in &table.calls {
                let input = form.fed.iter().position(|at| at == call).and_then(|at| inputs.get(at));
                let input =
                    input.ok_or_else(|| {
                        Error::new(Code::ShapeMismatch, format!("a batch has {} inputs", inputs.len()))
                            .because(format!("model {:?} has {}", form.style.name, form.fed.len()))
                    })?;
                let placed = &form.layers[table.layer];
                let found = checked_ids(&input.clone().ids(), rows);
                ids.extend(found.map_err(|error| named(error, &placed.name, placed.layer.as_ref()))?);
            }
            Ok(ids)
        };
        form.tables.iter().map(of).collect()
    }

    /// Leaves out the tables; their rows come from `source`.
    pub(crate) fn looking_up(mut self, source: Option<Arc<dyn RowSource>>) -> Self {
        for table in &self.form.tables {
            self.weights[table.layer].iter_mut().for_each(Weight::leave_out);
        }
        self.source = source.map(SourceOfRows);
        self
    }

    /// Returns the index of a layer's table, if its rows are elsewhere.
    pub(super) fn table_elsewhere(&self, layer: usize) -> Option<usize> {
        let table = self.form.tables.iter().position(|table| table.layer == layer)?;
        self.table_weight(table).filter(|weight| weight.is_elsewhere()).map(|_| table)
    }

    /// Computes a layer whose rows are elsewhere.
    pub(super) fn look_up(&self, table: usize, inputs: Vec<DynTensor>) -> Result<DynTensor> {
        let source = self.source.as_ref().ok_or_else(|| {
            Error::new(Code::NoSuchVariable, "the rows of the table are on the parameter servers")
                .because("the model is not connected to them")
        })?;
        let input = only(inputs)?;
        let mut dims = input.dims();
        let shape = self.table_weight(table).map(|weight| weight.shape.clone());
        let [rows, dim] = shape.as_ref().map_or(&[0, 0][..], |shape| shape.dims()) else { return Ok(input) };
        let ids = input.ids();
        let numbers = checked_ids(&ids, *rows)?;
        dims.push(*dim);
        DynTensor::from(source.0.rows(table, &numbers, &ids.device())?.lookup()).reshape(&dims)
    }
}
