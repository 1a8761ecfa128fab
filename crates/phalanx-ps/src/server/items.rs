//! What a server holds, by name and by handle.

use super::dense::Dense;
use super::snapshot::Clock;
use super::table::Table;
use crate::plan::{ItemKind, ItemSpec};
use phalanx_base::{Code, Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// The most dense numbers of one server: 64 GiB of values. Bounds the lists of chunks, which exist before any value comes,
/// to less than 100 MB.
const MOST_NUMBERS: u64 = 1 << 34;

/// A shard of a variable, or a server's part of a table.
pub(crate) enum Item {
    Dense(Arc<Dense>),
    Table(Arc<Table>),
}

/// All items of a server. A handle is a position in the list.
#[derive(Default)]
pub(crate) struct Items {
    list: Vec<Item>,
    /// Handles by name and first row: one server may hold several shards of a variable.
    by_name: HashMap<(String, usize), u32>,
    /// The number of dense numbers.
    numbers: u64,
    clock: Arc<Clock>,
}

impl Items {
    pub(crate) fn new(clock: Arc<Clock>) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Returns all items in the order of their handles.
    pub(crate) fn list(&self) -> &[Item] {
        &self.list
    }

    /// Creates the items that do not exist; those that exist must equal their specs.
    pub(crate) fn add(&mut self, specs: &[ItemSpec]) -> Result<Vec<u32>> {
        let mut handles = Vec::new();
        for spec in specs {
            let key = (spec.name.clone(), spec.first_row());
            let handle = match self.by_name.get(&key) {
                Some(&handle) => {
                    self.get(handle)?.check(spec)?;
                    handle
                }
                None => {
                    let handle = self.list.len() as u32;
                    self.reserve(spec)?;
                    self.list.push(Item::new(spec, Arc::clone(&self.clock)));
                    self.by_name.insert(key, handle);
                    handle
                }
            };
            handles.push(handle);
        }
        Ok(handles)
    }

    /// Counts a shard's numbers, unless there are too many.
    fn reserve(&mut self, spec: &ItemSpec) -> Result<()> {
        if let ItemKind::Dense { shape, rows } = &spec.kind {
            let numbers = self.numbers.saturating_add(rows.len() as u64 * shape.row_elements() as u64);
            if numbers > MOST_NUMBERS {
                return Err(Error::new(Code::ShapeMismatch, format!("{:?} is too large for this server", spec.name))
                    .because(format!("with it there would be {numbers} numbers here, at most {MOST_NUMBERS} fit"))
                    .help("split it over more servers, or make it a table"));
            }
            self.numbers = numbers;
        }
        Ok(())
    }

    pub(crate) fn find(&self, specs: &[ItemSpec]) -> Result<Vec<u32>> {
        let find = |spec: &ItemSpec| {
            let handle = self.by_name.get(&(spec.name.clone(), spec.first_row())).copied();
            let handle = handle.ok_or_else(|| self.no_such(&spec.name))?;
            self.get(handle)?.check(spec)?;
            Ok(handle)
        };
        specs.iter().map(find).collect()
    }

    /// Replaces every item by an empty one with the same handle.
    pub(crate) fn clear(&mut self) {
        for item in &mut self.list {
            *item = Item::new(&item.spec(), Arc::clone(&self.clock));
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
                .because("the server was restarted since it gave the handle out")
        })
    }

    /// Returns the number of shards and the number of tables.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let tables = self.list.iter().filter(|item| matches!(item, Item::Table(_))).count();
        (self.list.len() - tables, tables)
    }
}

impl Item {
    fn new(spec: &ItemSpec, clock: Arc<Clock>) -> Self {
        let (name, optimizer) = (spec.name.clone(), spec.optimizer);
        match &spec.kind {
            ItemKind::Dense { shape, rows } => {
                Self::Dense(Arc::new(Dense::new(name, shape.clone(), rows.clone(), optimizer, clock)))
            }
            &ItemKind::Table { dim, initializer, pinned } => {
                Self::Table(Arc::new(Table::new(name, dim, initializer, optimizer, clock).pinned(pinned)))
            }
        }
    }

    pub(crate) fn spec(&self) -> ItemSpec {
        match self {
            Self::Dense(shard) => {
                let kind = ItemKind::Dense { shape: shard.shape.clone(), rows: shard.rows.clone() };
                ItemSpec { name: shard.name.clone(), optimizer: shard.optimizer, kind }
            }
            Self::Table(table) => {
                let (dim, initializer, pinned) = (table.dim, table.initializer, table.pinned);
                let kind = ItemKind::Table { dim, initializer, pinned };
                ItemSpec { name: table.name.clone(), optimizer: table.optimizer, kind }
            }
        }
    }

    /// Refuses a spec that does not describe this item.
    fn check(&self, spec: &ItemSpec) -> Result<()> {
        let held = self.spec();
        if held == *spec {
            return Ok(());
        }
        let shape = |spec: &ItemSpec| match &spec.kind {
            ItemKind::Dense { shape, .. } => shape.to_string(),
            ItemKind::Table { dim, .. } => format!("a table of width {dim}"),
        };
        let differs = if shape(&held) != shape(spec) {
            format!("it exists as {}, this task wants {}", shape(&held), shape(spec))
        } else if held.optimizer != spec.optimizer {
            format!("it is updated by {:?}, this task wants {:?}", held.optimizer, spec.optimizer)
        } else if let (ItemKind::Dense { rows: held, .. }, ItemKind::Dense { rows, .. }) = (&held.kind, &spec.kind) {
            format!("this server holds {} of its rows, this task expects {}", held.len(), rows.len())
        } else if let (ItemKind::Table { pinned: held, .. }, ItemKind::Table { pinned, .. }) = (&held.kind, &spec.kind)
            && held != pinned
        {
            let on = |server: &Option<usize>| server.map_or("all servers".to_owned(), |server| format!("ps/{server}"));
            format!("its rows are on {}, this task expects them on {}", on(held), on(pinned))
        } else {
            "its rows are initialized differently".to_owned()
        };
        Err(Error::new(Code::VariableConflict, format!("variable {:?} is not the one this task means", held.name))
            .because(differs)
            .help("every task must build the same model with the same optimizer"))
    }
}
