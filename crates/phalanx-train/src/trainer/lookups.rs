//! From the columns of a batch to ids, and from ids to rows.

use crate::batch_tensors::whole;
use crate::{RowValues, TableId};
use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_nn::Rows;
use phalanx_nn::burn::tensor::{Device, Tensor};
use std::ops::Range;
use std::sync::Arc;

/// One use of a table: the rows of the ids in a column.
#[derive(Clone)]
struct Lookup {
    /// The name that the program asks for: the table's if one column uses it, else the column's.
    name: String,
    column: String,
    /// Which of the trainer's tables.
    table: usize,
}

/// The tables of a trainer and what is looked up in them.
#[derive(Default)]
pub(super) struct Lookups {
    tables: Vec<TableId>,
    lookups: Arc<Vec<Lookup>>,
}

impl Lookups {
    pub(super) fn add(&mut self, table: &str, id: TableId, columns: Vec<String>) -> Result<()> {
        let only = columns.len() == 1;
        for column in columns {
            let name = if only { table.to_owned() } else { column.clone() };
            if self.lookups.iter().any(|known| known.name == name) {
                return Err(Error::new(Code::VariableConflict, format!("two lookups are called {name:?}"))
                    .because("a lookup has the name of its table, or of its column if the table has several")
                    .help("give the table another name"));
            }
            Arc::make_mut(&mut self.lookups).push(Lookup { name, column, table: self.tables.len() });
        }
        self.tables.push(id);
        Ok(())
    }

    /// Returns the ids of a batch for every table: those of all its columns, one column after the other.
    pub(super) fn ids(&self, batch: &Batch) -> Result<BatchIds> {
        let mut ids: Vec<(TableId, Vec<i64>)> = self.tables.iter().map(|&table| (table, Vec::new())).collect();
        let mut spans = Vec::with_capacity(self.lookups.len());
        for lookup in self.lookups.iter() {
            let column = batch.column(&lookup.column)?;
            let own = whole(column).map_err(|error| error.at(format!("column {:?}", lookup.column)))?;
            let all = &mut ids[lookup.table].1;
            spans.push(all.len()..all.len() + own.len());
            all.extend(own);
        }
        Ok(BatchIds { ids, spans })
    }

    /// Returns what a closure gets: `rows` has those of every table.
    pub(super) fn rows(&self, ids: &BatchIds, rows: &[Rows]) -> BatchRows {
        BatchRows { lookups: Arc::clone(&self.lookups), spans: ids.spans.clone(), rows: rows.to_vec() }
    }
}

/// The ids of a batch.
pub(super) struct BatchIds {
    /// For every table.
    ids: Vec<(TableId, Vec<i64>)>,
    /// For every lookup, its part of the ids of its table.
    spans: Vec<Range<usize>>,
}

impl BatchIds {
    pub(super) fn as_slices(&self) -> Vec<(TableId, &[i64])> {
        self.ids.iter().map(|(table, ids)| (*table, ids.as_slice())).collect()
    }
}

/// The rows of the ids in a batch.
pub struct BatchRows {
    lookups: Arc<Vec<Lookup>>,
    /// For every lookup, its part of the ids of its table.
    spans: Vec<Range<usize>>,
    /// Those of every table.
    rows: Vec<Rows>,
}

impl BatchRows {
    /// Returns the rows of the ids in a column, one for each id: shape `[ids, dim]`. `name` is that of the table, or of the
    /// column if several columns use the table.
    ///
    /// # Errors
    /// When there is no such table or column.
    pub fn get(&self, name: &str) -> Result<Tensor<2>> {
        let lookups = &self.lookups;
        let at = lookups.iter().position(|lookup| lookup.name == name).ok_or_else(|| {
            let names: Vec<&str> = lookups.iter().map(|lookup| lookup.name.as_str()).collect();
            let error = Error::new(Code::NoSuchVariable, format!("the trainer has no table {name:?}"));
            error.help(if names.is_empty() {
                "add it with Trainer::table".to_owned()
            } else {
                format!("it has {}", names.join(", "))
            })
        })?;
        let (table, span) = (lookups[at].table, self.spans[at].clone());
        let rows = self.rows[table].lookup();
        let [all, dim] = rows.dims();
        Ok(if span.len() == all { rows } else { rows.slice([span, 0..dim]) })
    }
}

/// Returns rows that need no gradients.
pub(super) fn fixed(values: Vec<RowValues>, device: &Device) -> Vec<Rows> {
    values.into_iter().map(|of| Rows::fixed(of.values, of.dim, &of.positions, device)).collect()
}
