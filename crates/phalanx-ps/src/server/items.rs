//! What a server holds, by name and by handle.

use super::dense::Dense;
use super::snapshot::Clock;
use super::table::Table;
use crate::plan::Initializer;
use phalanx_base::{Code, Error, Result, Shape};
use phalanx_optim::Optimizer;
use phalanx_wire::proto::params::Spec;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Dense numbers of one server: 64 GiB of values. Bounds the lists of chunks, which are made before any value comes, to
/// less than 100 MB.
const LARGEST: u64 = 1 << 34;

/// A shard of a variable, or a table's part.
pub(crate) enum Item {
    Dense(Arc<Dense>),
    Table(Arc<Table>),
}

/// All of them. A handle is a place in the list.
#[derive(Default)]
pub(crate) struct Items {
    list: Vec<Item>,
    /// A shard is found by its name and its first row: one server may hold several shards of a variable.
    by_name: HashMap<(String, u64), u32>,
    /// Dense numbers in all.
    numbers: u64,
    clock: Arc<Clock>,
}

impl Items {
    pub(crate) fn new(clock: Arc<Clock>) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Everything, in the order of the handles.
    pub(crate) fn list(&self) -> &[Item] {
        &self.list
    }

    /// Makes what is not there; what is there must be the same.
    pub(crate) fn add(&mut self, specs: &[Spec]) -> Result<Vec<u32>> {
        let mut handles = Vec::new();
        for spec in specs {
            let key = (spec.name.clone(), spec.first_row);
            let handle = match self.by_name.get(&key) {
                Some(&handle) => {
                    self.get(handle)?.check(spec)?;
                    handle
                }
                None => {
                    let handle = self.list.len() as u32;
                    let item = self.make(spec)?;
                    self.list.push(item);
                    self.by_name.insert(key, handle);
                    handle
                }
            };
            handles.push(handle);
        }
        Ok(handles)
    }

    fn make(&mut self, spec: &Spec) -> Result<Item> {
        let kind = Kind::read(spec)?;
        if let Kind::Dense { shape, rows, .. } = &kind {
            let numbers = self.numbers.saturating_add(rows.len() as u64 * shape.row_elements() as u64);
            if numbers > LARGEST {
                return Err(Error::new(Code::ShapeMismatch, format!("{:?} is too large for this server", spec.name))
                    .because(format!("with it there would be {numbers} numbers here, at most {LARGEST} fit"))
                    .help("split it over more servers, or make it a table"));
            }
            self.numbers = numbers;
        }
        Ok(kind.make(spec.name.clone(), Arc::clone(&self.clock)))
    }

    pub(crate) fn find(&self, specs: &[Spec]) -> Result<Vec<u32>> {
        let find = |spec: &Spec| {
            let handle = self.by_name.get(&(spec.name.clone(), spec.first_row)).copied();
            let handle = handle.ok_or_else(|| self.no_such(&spec.name))?;
            self.get(handle)?.check(spec)?;
            Ok(handle)
        };
        specs.iter().map(find).collect()
    }

    /// Replaces every item by an empty one: handles stay, numbers go.
    pub(crate) fn clear(&mut self) {
        for item in &mut self.list {
            let clock = Arc::clone(&self.clock);
            *item = match &*item {
                Item::Dense(old) => {
                    let (name, shape, rows) = (old.name.clone(), old.shape.clone(), old.rows.clone());
                    Item::Dense(Arc::new(Dense::new(name, shape, rows, old.optimizer, clock)))
                }
                Item::Table(old) => {
                    let name = old.name.clone();
                    Item::Table(Arc::new(Table::new(name, old.dim, old.initializer, old.optimizer, clock)))
                }
            };
        }
    }

    fn no_such(&self, name: &str) -> Error {
        let error = Error::new(Code::NoSuchVariable, format!("there is no variable {name:?} here"));
        match phalanx_base::nearest(name, self.by_name.keys().map(|(known, _)| known.as_str())) {
            Some(near) if near != name => error.help(format!("did you mean {near:?}?")),
            _ => error.help("every task must build the same model over the same servers"),
        }
    }

    pub(crate) fn get(&self, handle: u32) -> Result<&Item> {
        self.list.get(handle as usize).ok_or_else(|| {
            Error::new(Code::NoSuchVariable, format!("there is no variable with handle {handle} here"))
                .because("the server was started anew since the handle was given out")
        })
    }

    /// How many shards, how many tables.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let tables = self.list.iter().filter(|item| matches!(item, Item::Table(_))).count();
        (self.list.len() - tables, tables)
    }
}

impl Item {
    /// Whether this is what the caller takes it for.
    fn check(&self, spec: &Spec) -> Result<()> {
        same(self, spec)
    }
}

/// A spec that was read and found good.
enum Kind {
    Dense { shape: Shape, rows: Range<usize>, optimizer: Optimizer },
    Table { dim: usize, initializer: Initializer, optimizer: Optimizer },
}

impl Kind {
    fn read(spec: &Spec) -> Result<Self> {
        let optimizer = Optimizer::from_words(&spec.optimizer)?;
        let dims: Result<Vec<usize>, _> = spec.shape.iter().map(|&d| usize::try_from(d)).collect();
        let shape = Shape::new(dims.map_err(|_| Error::new(Code::ShapeMismatch, "an extent is too large"))?)?;
        if let Some(initializer) = &spec.initializer {
            if shape.dims().len() != 1 || shape.elements() == 0 || shape.elements() > 1 << 20 {
                return Err(Error::new(Code::ShapeMismatch, format!("{shape} is not the width of a table")));
            }
            let initializer = Initializer::from_wire(initializer)?;
            return Ok(Self::Table { dim: shape.elements(), initializer, optimizer });
        }
        let end = spec.first_row.checked_add(spec.rows).filter(|&end| end <= shape.rows() as u64);
        let end = end.ok_or_else(|| {
            let rows = format!("{}+{}", spec.first_row, spec.rows);
            Error::new(Code::ShapeMismatch, format!("{:?} of shape {shape} has no rows {rows}", spec.name))
        })?;
        Ok(Self::Dense { shape, rows: spec.first_row as usize..end as usize, optimizer })
    }

    fn make(self, name: String, clock: Arc<Clock>) -> Item {
        match self {
            Self::Dense { shape, rows, optimizer } => {
                Item::Dense(Arc::new(Dense::new(name, shape, rows, optimizer, clock)))
            }
            Self::Table { dim, initializer, optimizer } => {
                Item::Table(Arc::new(Table::new(name, dim, initializer, optimizer, clock)))
            }
        }
    }
}

/// Whether what is held is what the caller takes it for.
fn same(item: &Item, spec: &Spec) -> Result<()> {
    let (name, shape, held) = match item {
        Item::Dense(shard) => {
            let held = (
                shard.shape.dims().iter().map(|&d| d as u64).collect(),
                shard.rows.len() as u64,
                None,
                shard.optimizer.to_words(),
            );
            (&shard.name, shard.shape.to_string(), held)
        }
        Item::Table(table) => {
            let held = (vec![table.dim as u64], 0, Some(table.initializer.to_wire()), table.optimizer.to_words());
            (&table.name, format!("table of width {}", table.dim), held)
        }
    };
    let (held_shape, held_rows, held_initializer, held_optimizer): (Vec<u64>, u64, _, Vec<f64>) = held;
    let differs = if held_shape != spec.shape || held_initializer.is_some() != spec.initializer.is_some() {
        format!("it exists as {shape}, this task wants {:?}", spec.shape)
    } else if held_rows != spec.rows {
        format!("this server holds {held_rows} of its rows, this task takes it to hold {}", spec.rows)
    } else if held_optimizer != spec.optimizer {
        let named = |words: &[f64]| Optimizer::from_words(words).map_or_else(|_| "?".to_owned(), |o| format!("{o:?}"));
        format!("it is updated by {}, this task wants {}", named(&held_optimizer), named(&spec.optimizer))
    } else if held_initializer != spec.initializer {
        "its rows start otherwise".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::new(Code::VariableConflict, format!("variable {name:?} is not the one this task means"))
        .because(differs)
        .help("every task must build the same model with the same optimizer"))
}
