//! Rows with named columns: what travels between the stages of a pipeline, and what a model is given.

mod bytes;
mod copy;
mod rows;
mod schema;
mod table;
#[cfg(test)]
mod tests;

use crate::{Column, StringsView};
pub(crate) use copy::Pick;
use phalanx_base::{Code, Error, Result};
pub(crate) use rows::{RowReader, RowWriter};
pub use schema::Schema;
pub(crate) use schema::no_column;
use std::ops::Range;
use std::sync::Arc;

/// A number of rows of the same named columns.
///
/// Between the stages of an un-batched dataset a `Batch` is a chunk of elements, one per row; after
/// [`Dataset::batch`](crate::Dataset::batch) it is one element. Cloning and slicing share the values.
///
/// ```
/// use phalanx_data::{Batch, Column};
/// let batch = Batch::new([
///     ("age", Column::f32(vec![39.0, 50.0])),
///     ("education", Column::text(["Bachelors", "Masters"])),
/// ])?;
/// assert_eq!((batch.rows(), batch.f32("age")?), (2, [39.0, 50.0].as_slice()));
/// let error = batch.column("educatoin").unwrap_err();
/// assert!(error.next().unwrap().contains("did you mean \"education\""));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    schema: Arc<Schema>,
    columns: Vec<Column>,
    rows: usize,
}

impl Batch {
    /// A batch of columns, in this order.
    ///
    /// # Errors
    /// When two columns have the same name, or their numbers of rows differ.
    pub fn new<N: Into<Arc<str>>>(columns: impl IntoIterator<Item = (N, Column)>) -> Result<Self> {
        let (names, columns): (Vec<Arc<str>>, Vec<Column>) =
            columns.into_iter().map(|(name, column)| (name.into(), column)).unzip();
        Self::with_schema(Arc::new(Schema::new(names)?), columns)
    }

    /// A batch of columns under names checked before; readers make the schema once.
    ///
    /// # Errors
    /// When the number of columns is not the schema's, or their numbers of rows differ.
    pub fn with_schema(schema: Arc<Schema>, columns: Vec<Column>) -> Result<Self> {
        if schema.names().len() != columns.len() {
            let what = format!("{} columns for {} names", columns.len(), schema.names().len());
            return Err(Error::new(Code::DataColumn, what));
        }
        let rows = columns.first().map_or(0, Column::rows);
        if let Some(odd) = columns.iter().position(|column| column.rows() != rows) {
            let (first, name) = (&schema.names()[0], &schema.names()[odd]);
            let what = format!("column {name:?} has {} rows, {first:?} has {rows}", columns[odd].rows());
            return Err(Error::new(Code::ShapeMismatch, what)
                .because("dimensions 0 of the columns of one batch must be equal")
                .help("give every column one value, list or tensor per row"));
        }
        Ok(Self { schema, columns, rows })
    }

    /// How many rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The names, and which of them is the label.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The columns' names, in order.
    #[must_use]
    pub fn names(&self) -> &[Arc<str>] {
        self.schema.names()
    }

    /// The columns, in order.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Names and columns, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Column)> {
        self.names().iter().zip(&self.columns)
    }

    /// A column by its name.
    ///
    /// # Errors
    /// When there is none; the error lists the names there are, the nearest first.
    pub fn column(&self, name: &str) -> Result<&Column> {
        self.schema.index(name).map(|index| &self.columns[index])
    }

    /// A column of floats, flat, without a copy.
    ///
    /// # Errors
    /// When there is no such column or it has another type.
    pub fn f32(&self, name: &str) -> Result<&[f32]> {
        self.column(name)?.as_f32().map_err(|error| error.at(format!("column {name:?}")))
    }

    /// A column of integers, flat, without a copy.
    ///
    /// # Errors
    /// When there is no such column or it has another type.
    pub fn i64(&self, name: &str) -> Result<&[i64]> {
        self.column(name)?.as_i64().map_err(|error| error.at(format!("column {name:?}")))
    }

    /// A column of small numbers, flat, without a copy.
    ///
    /// # Errors
    /// When there is no such column or it has another type.
    pub fn u8(&self, name: &str) -> Result<&[u8]> {
        self.column(name)?.as_u8().map_err(|error| error.at(format!("column {name:?}")))
    }

    /// A column of byte strings, without a copy.
    ///
    /// # Errors
    /// When there is no such column or it has another type.
    pub fn bytes(&self, name: &str) -> Result<StringsView<'_>> {
        self.column(name)?.as_bytes().map_err(|error| error.at(format!("column {name:?}")))
    }

    /// The label column, where one was named.
    #[must_use]
    pub fn label(&self) -> Option<&Column> {
        self.schema.label().map(|index| &self.columns[index])
    }

    /// The same rows, with one column named as the label.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn with_label(&self, name: &str) -> Result<Self> {
        let schema = self.schema.with_label(name)?;
        Ok(Self { schema: Arc::new(schema), ..self.clone() })
    }

    /// The same rows with one more column, or with that column replaced.
    ///
    /// # Errors
    /// When its number of rows differs.
    pub fn with_column(&self, name: &str, column: Column) -> Result<Self> {
        let mut columns = self.columns.clone();
        let schema = match self.schema.find(name) {
            Some(index) => {
                columns[index] = column;
                self.schema.clone()
            }
            None => {
                columns.push(column);
                Arc::new(self.schema.with_name(name)?)
            }
        };
        Self::with_schema(schema, columns)
    }

    /// The same rows without one column.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn without(&self, name: &str) -> Result<Self> {
        let index = self.schema.index(name)?;
        let mut columns = self.columns.clone();
        columns.remove(index);
        Ok(Self { schema: Arc::new(self.schema.without(index)), columns, rows: self.rows })
    }

    /// The same rows with these columns only, in this order.
    ///
    /// # Errors
    /// When one of them does not exist or is named twice.
    pub fn select(&self, names: &[&str]) -> Result<Self> {
        let picked: Vec<usize> = names.iter().map(|name| self.schema.index(name)).collect::<Result<_>>()?;
        let schema = self.schema.select(&picked)?;
        let columns = picked.iter().map(|&index| self.columns[index].clone()).collect();
        Ok(Self { schema: Arc::new(schema), columns, rows: self.rows })
    }

    /// A window of the rows; shares the values. Panics when it is out of range, as a slice does.
    #[must_use]
    pub fn slice(&self, rows: Range<usize>) -> Self {
        if rows == (0..self.rows) {
            return self.clone();
        }
        let columns = self.columns.iter().map(|column| column.slice(rows.clone())).collect();
        Self { schema: self.schema.clone(), columns, rows: rows.len() }
    }

    /// No rows of the same columns: what a replica without data is given.
    #[must_use]
    pub fn empty_like(&self) -> Self {
        // Not a slice: that would hold on to the values.
        let columns = self.columns.iter().map(Column::empty_like).collect();
        Self { schema: self.schema.clone(), columns, rows: 0 }
    }

    /// Puts the columns of two batches of as many rows side by side.
    ///
    /// # Errors
    /// When a name is in both, or the numbers of rows differ.
    pub fn beside(&self, other: &Self) -> Result<Self> {
        let schema = self.schema.beside(&other.schema)?;
        let columns = self.columns.iter().chain(&other.columns).cloned().collect();
        Self::with_schema(Arc::new(schema), columns)
    }

    /// Builds a batch whose columns are known to fit, and to have these rows even where there is no column.
    pub(crate) fn from_raw(schema: Arc<Schema>, columns: Vec<Column>, rows: usize) -> Self {
        Self { schema, columns, rows }
    }
}

impl PartialEq for Batch {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows && self.schema == other.schema && self.columns == other.columns
    }
}
