//! Reads SequenceExamples into batches of columns.

use super::builder::Form;
use super::columns::{Columns, Problem};
use super::{ExampleColumn, FeatureSpec};
use crate::wire::{Field, Wire};
use phalanx_base::Result;

/// Reads the wanted context features and feature lists of one SequenceExample after another; the rules for context
/// features are those of [`ExampleParser`](super::ExampleParser).
///
/// A fixed feature list has that many values in every step, and must be there unless it is allowed to be missing; steps
/// of variable and ragged ones have any number.
///
/// ```
/// use phalanx_formats::example::{FeatureSpec, FeatureKind, SequenceParser, SequenceWriter};
/// let mut example = SequenceWriter::new();
/// example.context().i64s("user", &[7]);
/// example.bytes_list("clicks", &[vec!["a", "b"], vec![], vec!["c"]]);
///
/// let context = vec![FeatureSpec::fixed("user", FeatureKind::I64, 1)];
/// let mut parser = SequenceParser::new(context, vec![FeatureSpec::variable("clicks", FeatureKind::Bytes)])?;
/// parser.push(&example.encode())?;
/// let clicks = &parser.finish().lists[0];
/// assert_eq!(clicks.row_splits.as_deref(), Some(&[0, 3][..]));
/// assert_eq!(clicks.step_splits.as_deref(), Some(&[0, 2, 2, 3][..]));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct SequenceParser {
    context: Columns,
    lists: Columns,
    rows: usize,
    pushed: u64,
}

/// The columns of some SequenceExamples.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceBatch {
    /// How many rows.
    pub rows: usize,
    /// One per wanted context feature.
    pub context: Vec<ExampleColumn>,
    /// One per wanted feature list; their items are steps.
    pub lists: Vec<ExampleColumn>,
}

impl SequenceParser {
    /// A parser for these context features and feature lists.
    ///
    /// # Errors
    /// When a name appears twice among the context or among the lists, or a default does not fit its feature.
    pub fn new(context: Vec<FeatureSpec>, lists: Vec<FeatureSpec>) -> Result<Self> {
        let (context, lists) = (Columns::new(context, Form::Feature)?, Columns::new(lists, Form::List)?);
        Ok(Self { context, lists, rows: 0, pushed: 0 })
    }

    /// Adds a serialized SequenceExample as the next row.
    ///
    /// # Errors
    /// When it is not a SequenceExample, or its features are not as specified.
    pub fn push(&mut self, example: &[u8]) -> Result<()> {
        self.context.begin();
        self.lists.begin();
        let number = self.pushed;
        let place = move || format!("example {number}");
        self.pushed += 1;
        if let Err(fault) = self.read(example) {
            return Err(self.refuse(|this| this.context.error(&Problem::Malformed(fault), place())));
        }
        if let Err(problem) = self.lists.check() {
            return Err(self.refuse(|this| this.lists.error(&problem, place())));
        }
        if let Err(problem) = self.context.check() {
            return Err(self.refuse(|this| this.context.error(&problem, place())));
        }
        self.context.accept();
        self.lists.accept();
        self.rows += 1;
        Ok(())
    }

    /// Rows since the last batch.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The rows so far as a batch; the next push begins another.
    pub fn finish(&mut self) -> SequenceBatch {
        let rows = std::mem::take(&mut self.rows);
        SequenceBatch { rows, context: self.context.take(), lists: self.lists.take() }
    }

    fn read(&mut self, example: &[u8]) -> Result<(), &'static str> {
        let mut wire = Wire(example);
        while let Some((number, field)) = wire.next()? {
            match (number, field) {
                (1, Field::Bytes(features)) => self.context.read_map(features)?,
                (2, Field::Bytes(lists)) => self.lists.read_map(lists)?,
                (1 | 2, _) => return Err("its features have the wrong wire type"),
                _ => {}
            }
        }
        Ok(())
    }

    fn refuse<T>(&mut self, error: impl FnOnce(&Self) -> T) -> T {
        self.context.roll_back();
        self.lists.roll_back();
        error(self)
    }
}

impl std::fmt::Debug for SequenceParser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SequenceParser {{ rows: {}, pushed: {} }}", self.rows, self.pushed)
    }
}
