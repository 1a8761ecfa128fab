//! Reads Examples into batches of columns.

use super::builder::Form;
use super::columns::{Columns, Problem};
use super::{ExampleBatch, FeatureSpec};
use crate::wire::{Field, Wire};
use phalanx_base::Result;

/// Reads the wanted features of one Example after another.
///
/// As in TensorFlow: a fixed feature that is missing takes its default or is an error, a variable one is empty; another
/// type or a wrong number of values is an error; features that nobody wants are not looked at. Of a key that appears
/// twice the last one counts.
///
/// A record that is refused leaves no trace: the next one can be pushed.
pub struct ExampleParser {
    columns: Columns,
    rows: usize,
    pushed: u64,
}

impl ExampleParser {
    /// A parser for these features.
    ///
    /// # Errors
    /// When a name appears twice, or a default does not fit its feature.
    pub fn new(specs: Vec<FeatureSpec>) -> Result<Self> {
        Ok(Self { columns: Columns::new(specs, Form::Feature)?, rows: 0, pushed: 0 })
    }

    /// Adds a serialized Example as the next row.
    ///
    /// # Errors
    /// When it is not an Example, or its features are not as specified; the error names its number, counted from 0 over
    /// all that were pushed.
    pub fn push(&mut self, example: &[u8]) -> Result<()> {
        self.columns.begin();
        let result = self.read(example);
        let number = self.pushed;
        self.pushed += 1;
        result.map_err(|problem| {
            self.columns.roll_back();
            self.columns.error(&problem, format!("example {number}"))
        })?;
        self.columns.accept();
        self.rows += 1;
        Ok(())
    }

    /// Rows since the last batch.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The rows so far as a batch; the next push begins another.
    pub fn finish(&mut self) -> ExampleBatch {
        ExampleBatch { rows: std::mem::take(&mut self.rows), columns: self.columns.take() }
    }

    fn read(&mut self, example: &[u8]) -> Result<(), Problem> {
        let mut wire = Wire(example);
        while let Some((number, field)) = wire.next()? {
            match (number, field) {
                (1, Field::Bytes(features)) => self.columns.read_map(features)?,
                (1, _) => return Err("its features have the wrong wire type".into()),
                _ => {}
            }
        }
        self.columns.check()
    }
}

impl std::fmt::Debug for ExampleParser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ExampleParser {{ rows: {}, pushed: {} }}", self.rows, self.pushed)
    }
}
