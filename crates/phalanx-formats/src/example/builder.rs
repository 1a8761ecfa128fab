//! Columns while they grow: rows are begun, filled from maps of features, and ended or taken back.
//!
//! Hot: no allocation per feature. A key that appears twice counts as its last appearance, as in a protobuf map.

use phalanx_base::{Code, Error, Result};

use super::feature::read_feature;
use super::lookup::Lookup;
use super::wire::{Fault, Field, Wire};
use super::{Column, FeatureSpec, Kind, Layout, Values};

/// What a map's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One `Feature` per row.
    Feature,
    /// One `FeatureList` per row: a `Feature` per step.
    List,
}

/// Why a row is not accepted.
pub(super) enum Problem {
    /// It is no protobuf message.
    Malformed(Fault),
    /// A column is missing, or is not what it should be.
    Column(usize, Wrong),
}

#[derive(Clone, Copy)]
pub(super) enum Wrong {
    Missing,
    Kind(Kind),
    Length(usize),
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self::Malformed(fault)
    }
}

pub(super) struct Columns {
    form: Form,
    lookup: Lookup,
    builders: Vec<Builder>,
}

struct Builder {
    spec: FeatureSpec,
    values: Values,
    row_splits: Vec<usize>,
    step_splits: Vec<usize>,
    steps: usize,
    row: Row,
}

/// Where the row's part of a column began, and what was found of it so far.
#[derive(Clone, Copy, Default)]
struct Row {
    values: usize,
    steps: usize,
    found: Option<Kind>,
    wrong: Option<Wrong>,
}

impl Columns {
    pub(super) fn new(specs: Vec<FeatureSpec>, form: Form) -> Result<Self> {
        let specs: Vec<FeatureSpec> = specs.into_iter().map(FeatureSpec::checked).collect::<Result<_>>()?;
        let lookup = Lookup::new(specs.iter().map(|spec| spec.name.as_str()))
            .map_err(|at| Error::new(Code::BadSetting, format!("feature {:?} is specified twice", specs[at].name)))?;
        Ok(Self { form, lookup, builders: specs.into_iter().map(Builder::new).collect() })
    }

    pub(super) fn begin(&mut self) {
        for builder in &mut self.builders {
            builder.row = Row { values: builder.values.len(), steps: builder.steps, found: None, wrong: None };
        }
    }

    /// Reads a `Features` or `FeatureLists` message: a map in field 1.
    pub(super) fn read_map(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut wire = Wire(bytes);
        while let Some((number, field)) = wire.next()? {
            match (number, field) {
                (1, Field::Bytes(entry)) => self.read_entry(entry)?,
                (1, _) => return Err("a map's entry has the wrong wire type"),
                _ => {}
            }
        }
        Ok(())
    }

    fn read_entry(&mut self, entry: &[u8]) -> Result<(), Fault> {
        let (mut key, mut value, mut values): (&[u8], &[u8], u32) = (b"", b"", 0);
        let mut wire = Wire(entry);
        while let Some((number, field)) = wire.next()? {
            match (number, field) {
                (1, Field::Bytes(bytes)) => key = bytes,
                (2, Field::Bytes(bytes)) => (value, values) = (bytes, values + 1),
                (1 | 2, _) => return Err("a map's entry has the wrong wire type"),
                _ => {}
            }
        }
        let Some(column) = self.lookup.find(key, |at| &self.builders[at].spec.name) else { return Ok(()) };
        let builder = &mut self.builders[column];
        builder.roll_back();
        if values < 2 {
            return builder.read(value, self.form);
        }
        // Nobody writes this, but protobuf merges the values of such an entry.
        let mut wire = Wire(entry);
        while let Some((number, field)) = wire.next()? {
            if let (2, Field::Bytes(bytes)) = (number, field) {
                builder.read(bytes, self.form)?;
            }
        }
        Ok(())
    }

    /// Judges the row. One that is not accepted is to be rolled back.
    pub(super) fn check(&mut self) -> Result<(), Problem> {
        for (at, builder) in self.builders.iter_mut().enumerate() {
            builder.check(self.form).map_err(|wrong| Problem::Column(at, wrong))?;
        }
        Ok(())
    }

    /// Ends the row, which was found good.
    pub(super) fn accept(&mut self) {
        for builder in &mut self.builders {
            builder.split(self.form);
        }
    }

    pub(super) fn roll_back(&mut self) {
        self.builders.iter_mut().for_each(Builder::roll_back);
    }

    pub(super) fn take(&mut self) -> Vec<Column> {
        self.builders.iter_mut().map(|builder| builder.take(self.form)).collect()
    }

    /// The error of a row that was not accepted.
    pub(super) fn error(&self, problem: &Problem, place: String) -> Error {
        let error = match problem {
            Problem::Malformed(fault) => Error::new(Code::DataFormat, "a record is no Example").because(fault),
            Problem::Column(at, wrong) => {
                let FeatureSpec { name, kind, layout, .. } = &self.builders[*at].spec;
                let list = if self.form == Form::List { " list" } else { "" };
                let error = |what| Error::new(Code::DataFormat, format!("feature{list} {name:?} {what}"));
                match (wrong, layout) {
                    (Wrong::Missing, _) => error(format!("({kind}) is missing"))
                        .help("give it a default or a variable length, or correct the data"),
                    (Wrong::Kind(found), _) => error(format!("is {found}, not {kind}")),
                    (Wrong::Length(found), Layout::Ragged(inner)) => {
                        error(format!("has {found} values, not a multiple of {inner}"))
                    }
                    (Wrong::Length(found), _) => {
                        error(format!("has {found} values, not {}", self.builders[*at].spec.width()))
                    }
                }
            }
        };
        error.at(place)
    }
}

impl Builder {
    fn new(spec: FeatureSpec) -> Self {
        let values = Values::new(spec.kind);
        Self { spec, values, row_splits: vec![0], step_splits: vec![0], steps: 0, row: Row::default() }
    }

    /// Forgets what the row has put here.
    fn roll_back(&mut self) {
        self.values.truncate(self.row.values);
        self.steps = self.row.steps;
        self.step_splits.truncate(self.steps + 1);
        self.row = Row { found: None, wrong: None, ..self.row };
    }

    fn read(&mut self, bytes: &[u8], form: Form) -> Result<(), Fault> {
        if form == Form::Feature {
            self.row.found = read_feature(bytes, &mut self.values, self.row.values, self.row.found)?;
            return Ok(());
        }
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
        if !matches!(self.spec.layout, Layout::Fixed(_)) {
            self.step_splits.push(self.values.len() / self.spec.width());
        }
        Ok(())
    }

    fn wrong(&self, found: Kind, length: usize) -> Option<Wrong> {
        if found != self.spec.kind {
            return Some(Wrong::Kind(found));
        }
        let fits = match self.spec.layout {
            Layout::Fixed(wanted) => length == wanted,
            Layout::Variable => true,
            Layout::Ragged(inner) => length.is_multiple_of(inner),
        };
        if fits { None } else { Some(Wrong::Length(length)) }
    }

    /// Judges the row, and puts the default where there is nothing.
    fn check(&mut self, form: Form) -> Result<(), Wrong> {
        let Some(found) = self.row.found else {
            return match (self.spec.layout, &self.spec.default, form) {
                (Layout::Fixed(_), Some(default), Form::Feature) => {
                    self.values.extend(default);
                    Ok(())
                }
                (Layout::Fixed(_), _, Form::List) if self.spec.allow_missing => Ok(()),
                (Layout::Fixed(_), _, _) => Err(Wrong::Missing),
                _ => Ok(()),
            };
        };
        let wrong = match form {
            Form::Feature => self.wrong(found, self.values.len() - self.row.values),
            Form::List => self.row.wrong,
        };
        wrong.map_or(Ok(()), Err)
    }

    fn split(&mut self, form: Form) {
        match (form, self.spec.layout) {
            (Form::List, _) => self.row_splits.push(self.steps),
            (Form::Feature, Layout::Fixed(_)) => {}
            (Form::Feature, Layout::Variable) => self.row_splits.push(self.values.len()),
            (Form::Feature, Layout::Ragged(inner)) => self.row_splits.push(self.values.len() / inner),
        }
    }

    fn take(&mut self, form: Form) -> Column {
        let next = self.values.successor();
        let values = std::mem::replace(&mut self.values, next);
        let row_splits = fresh_splits(&mut self.row_splits);
        let step_splits = fresh_splits(&mut self.step_splits);
        (self.steps, self.row) = (0, Row::default());
        let fixed = matches!(self.spec.layout, Layout::Fixed(_));
        Column {
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
