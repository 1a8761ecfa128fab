//! Columns while they grow: rows are begun, filled from maps of features, and ended or taken back.
//!
//! Hot: no allocation per feature. A key that appears twice counts as its last appearance, as in a protobuf map.

use super::builder::{Builder, Form, Row, Wrong};
use super::lookup::Lookup;
use super::{ExampleColumn, FeatureLayout, FeatureSpec};
use crate::wire::{Fault, Field, Wire, usual_entry};
use phalanx_base::{Code, Error, Result};

/// Why a row is not accepted.
pub(super) enum Problem {
    /// It is no protobuf message.
    Malformed(Fault),
    /// A column is missing, or is not what it should be.
    Column(usize, Wrong),
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
    /// The column that came last after each column, and at the end after none: records are alike.
    after: Vec<usize>,
    last: usize,
}

impl Columns {
    pub(super) fn new(specs: Vec<FeatureSpec>, form: Form) -> Result<Self> {
        let specs: Vec<FeatureSpec> = specs.into_iter().map(FeatureSpec::checked).collect::<Result<_>>()?;
        let lookup = Lookup::new(specs.iter().map(|spec| spec.name.as_str()))
            .map_err(|at| Error::new(Code::BadSetting, format!("feature {:?} is specified twice", specs[at].name)))?;
        let count = specs.len();
        let builders = specs.into_iter().map(Builder::new).collect();
        Ok(Self { form, lookup, builders, after: vec![count; count + 1], last: count })
    }

    pub(super) fn begin(&mut self) {
        self.last = self.builders.len();
        for builder in &mut self.builders {
            builder.row = Row { values: builder.values.len(), steps: builder.steps, found: None, wrong: None };
        }
    }

    /// Reads a `Features` or `FeatureLists` message: a map in field 1.
    pub(super) fn read_map(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut wire = Wire(bytes);
        loop {
            while let Some(entry) = wire.short(0x0a) {
                self.read_entry(entry)?;
            }
            match wire.next()? {
                Some((1, Field::Bytes(entry))) => self.read_entry(entry)?,
                Some((1, _)) => return Err("a map's entry has the wrong wire type"),
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }

    #[inline]
    fn read_entry(&mut self, entry: &[u8]) -> Result<(), Fault> {
        let Some((key, value)) = usual_entry(entry) else { return self.read_any_entry(entry) };
        let Some(column) = self.column_of(key) else { return Ok(()) };
        let builder = &mut self.builders[column];
        builder.roll_back();
        builder.read(value, self.form)
    }

    /// The column of a key: the one that followed last time, or else found by its hash.
    #[inline]
    fn column_of(&mut self, key: &[u8]) -> Option<usize> {
        let guess = self.after[self.last];
        if self.builders.get(guess).is_some_and(|builder| builder.spec.name.as_bytes() == key) {
            self.last = guess;
            return Some(guess);
        }
        let column = self.lookup.find(key, |at| &self.builders[at].spec.name)?;
        self.after[self.last] = column;
        self.last = column;
        Some(column)
    }

    fn read_any_entry(&mut self, entry: &[u8]) -> Result<(), Fault> {
        let (mut key, mut value, mut values): (&[u8], &[u8], u32) = (b"", b"", 0);
        let mut wire = Wire(entry);
        while let Some((number, field)) = wire.next()? {
            match (number, field) {
                (1, Field::Bytes(bytes)) => key = bytes,
                (2, Field::Bytes(bytes)) => (value, values) = (bytes, values.saturating_add(1)),
                (1 | 2, _) => return Err("a map's entry has the wrong wire type"),
                _ => {}
            }
        }
        let Some(column) = self.column_of(key) else { return Ok(()) };
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

    pub(super) fn take(&mut self) -> Vec<ExampleColumn> {
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
                    (Wrong::Length(found), FeatureLayout::Ragged(inner)) => {
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
