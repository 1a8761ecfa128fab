//! One column while it grows: a row is begun, filled from a feature, and ended or taken back.
//!
//! Hot: no allocation per feature.

use super::feature::read_feature;
use super::{ExampleColumn, FeatureKind, FeatureLayout, FeatureSpec, FeatureValues};
use crate::wire::{Fault, Field, Wire};

/// What a map's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One `Feature` per row.
    Feature,
    /// One `FeatureList` per row: a `Feature` per step.
    List,
}

/// Why a row's part of a column is not accepted.
#[derive(Clone, Copy)]
pub(super) enum Wrong {
    Missing,
    Kind(FeatureKind),
    Length(usize),
}

/// A column while it grows.
pub(super) struct Builder {
    pub(super) spec: FeatureSpec,
    pub(super) values: FeatureValues,
    row_splits: Vec<usize>,
    step_splits: Vec<usize>,
    pub(super) steps: usize,
    pub(super) row: Row,
}

/// Where the row's part of a column began, and what was found of it so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Row {
    pub(super) values: usize,
    pub(super) steps: usize,
    pub(super) found: Option<FeatureKind>,
    pub(super) wrong: Option<Wrong>,
}

impl Builder {
    pub(super) fn new(spec: FeatureSpec) -> Self {
        let values = FeatureValues::new(spec.kind);
        Self { spec, values, row_splits: vec![0], step_splits: vec![0], steps: 0, row: Row::default() }
    }

    /// Forgets what the row has put here.
    #[inline]
    pub(super) fn roll_back(&mut self) {
        if self.row.found.is_none() && self.values.len() == self.row.values && self.steps == self.row.steps {
            return;
        }
        self.values.truncate(self.row.values);
        self.steps = self.row.steps;
        self.step_splits.truncate(self.steps + 1);
        self.row = Row { found: None, wrong: None, ..self.row };
    }

    #[inline]
    pub(super) fn read(&mut self, bytes: &[u8], form: Form) -> Result<(), Fault> {
        if form == Form::Feature {
            self.row.found = read_feature(bytes, &mut self.values, self.row.values, self.row.found)?;
            return Ok(());
        }
        self.read_steps(bytes)
    }

    fn read_steps(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.row.found = Some(self.spec.kind);
        let mut wire = Wire(bytes);
        while let Some((number, field)) = wire.next()? {
            match (number, field) {
                (1, Field::Bytes(step)) => self.read_step(step)?,
                (1, _) => return Err("a feature list's step has the wrong wire type"),
                _ => {}
            }
        }
        Ok(())
    }

    fn read_step(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let start = self.values.len();
        let found = read_feature(bytes, &mut self.values, start, None)?;
        let wrong = self.wrong(found.unwrap_or(self.spec.kind), self.values.len() - start);
        self.row.wrong = self.row.wrong.or(wrong);
        self.steps += 1;
        if !matches!(self.spec.layout, FeatureLayout::Fixed(_)) {
            self.step_splits.push(self.values.len() / self.spec.width());
        }
        Ok(())
    }

    fn wrong(&self, found: FeatureKind, length: usize) -> Option<Wrong> {
        if found != self.spec.kind {
            return Some(Wrong::Kind(found));
        }
        let fits = match self.spec.layout {
            FeatureLayout::Fixed(wanted) => length == wanted,
            FeatureLayout::Variable => true,
            FeatureLayout::Ragged(inner) => length.is_multiple_of(inner),
        };
        if fits { None } else { Some(Wrong::Length(length)) }
    }

    /// Judges the row, and puts the default where there is nothing.
    pub(super) fn check(&mut self, form: Form) -> Result<(), Wrong> {
        let Some(found) = self.row.found else {
            return match (self.spec.layout, &self.spec.default, form) {
                (FeatureLayout::Fixed(_), Some(default), Form::Feature) => {
                    self.values.extend(default);
                    Ok(())
                }
                (FeatureLayout::Fixed(_), _, Form::List) if self.spec.allow_missing => Ok(()),
                (FeatureLayout::Fixed(_), _, _) => Err(Wrong::Missing),
                _ => Ok(()),
            };
        };
        let wrong = match form {
            Form::Feature => self.wrong(found, self.values.len() - self.row.values),
            Form::List => self.row.wrong,
        };
        wrong.map_or(Ok(()), Err)
    }

    pub(super) fn split(&mut self, form: Form) {
        match (form, self.spec.layout) {
            (Form::List, _) => self.row_splits.push(self.steps),
            (Form::Feature, FeatureLayout::Fixed(_)) => {}
            (Form::Feature, FeatureLayout::Variable) => self.row_splits.push(self.values.len()),
            (Form::Feature, FeatureLayout::Ragged(inner)) => self.row_splits.push(self.values.len() / inner),
        }
    }

    pub(super) fn take(&mut self, form: Form) -> ExampleColumn {
        let next = self.values.successor();
        let values = std::mem::replace(&mut self.values, next);
        let row_splits = fresh_splits(&mut self.row_splits);
        let step_splits = fresh_splits(&mut self.step_splits);
        (self.steps, self.row) = (0, Row::default());
        let fixed = matches!(self.spec.layout, FeatureLayout::Fixed(_));
        ExampleColumn {
            name: self.spec.name.clone(),
            values,
            width: self.spec.width(),
            row_splits: (form == Form::List || !fixed).then_some(row_splits),
            step_splits: (form == Form::List && !fixed).then_some(step_splits),
        }
    }
}

/// Takes the splits, and leaves an empty list of them with as much room.
fn fresh_splits(splits: &mut Vec<usize>) -> Vec<usize> {
    let mut next = Vec::with_capacity(splits.len());
    next.push(0);
    std::mem::replace(splits, next)
}
