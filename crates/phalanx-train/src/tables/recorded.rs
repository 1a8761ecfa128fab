//! Rows that a step looks up while it computes, recorded so that their gradients can be pushed.

use super::ServerRows;
use crate::RowValues;
use phalanx_base::Result;
use phalanx_nn::burn::tensor::{Device, Gradients};
use phalanx_nn::model::RowSource;
use phalanx_nn::{HostBuffer, Rows};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The gradients of rows of a table.
#[derive(Clone, Debug)]
pub(crate) struct RowGradient {
    pub(crate) table: usize,
    /// Each id once.
    pub(crate) ids: Vec<i64>,
    /// The gradients, back to back.
    pub(crate) numbers: HostBuffer,
}

/// Fetches rows and records them.
pub(crate) struct RecordedRows {
    servers: Arc<ServerRows>,
    taken: Mutex<Vec<(usize, Vec<i64>, Rows)>>,
}

impl RecordedRows {
    pub(crate) fn new(servers: Arc<ServerRows>) -> Self {
        Self { servers, taken: Mutex::default() }
    }

    /// Returns the gradients of the rows that were looked up, one entry for each table.
    pub(crate) fn gradients(&self, gradients: &mut Gradients) -> Result<Vec<RowGradient>> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::new();
        for (table, ids, rows) in taken.iter() {
            if let Some(numbers) = rows.gradients(gradients)? {
                add_rows(&mut all, vec![RowGradient { table: *table, ids: ids.clone(), numbers }]);
            }
        }
        Ok(all)
    }
}

impl RowSource for RecordedRows {
    fn rows(&self, table: usize, ids: &[i64], device: &Device) -> Result<Rows> {
        let (unique, RowValues { values, dim, positions }) = self.servers.read(table, ids)?;
        let rows = Rows::new(values, dim, &positions, device);
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).push((table, unique, rows.clone()));
        Ok(rows)
    }
}

/// Adds gradients row by row.
pub(crate) fn add_rows(into: &mut Vec<RowGradient>, more: Vec<RowGradient>) {
    for own in more {
        let Some(sum) = into.iter_mut().find(|sum| sum.table == own.table) else {
            into.push(own);
            continue;
        };
        let dim = own.numbers.len() / own.ids.len().max(1);
        let mut places: HashMap<i64, usize> = sum.ids.iter().enumerate().map(|(at, &id)| (id, at)).collect();
        let mut numbers: Vec<f32> = std::mem::replace(&mut sum.numbers, HostBuffer::zeros(0)).into();
        for (&id, row) in own.ids.iter().zip(own.numbers.chunks_exact(dim.max(1))) {
            let at = *places.entry(id).or_insert_with(|| {
                sum.ids.push(id);
                numbers.resize(numbers.len() + dim, 0.0);
                sum.ids.len() - 1
            });
            numbers[at * dim..].iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
        }
        sum.numbers = numbers.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_of_one_row_add_up_and_those_of_others_follow() {
        let of = |table, ids: &[i64], numbers: &[f32]| RowGradient {
            table,
            ids: ids.to_vec(),
            numbers: numbers.to_vec().into(),
        };
        let mut sum = vec![of(0, &[5, 2], &[1.0, 2.0, 3.0, 4.0])];
        add_rows(&mut sum, vec![of(0, &[7, 5], &[10.0, 20.0, 30.0, 40.0]), of(1, &[5], &[9.0])]);
        assert_eq!((sum.len(), &sum[0].ids[..]), (2, &[5, 2, 7][..]));
        assert_eq!(*sum[0].numbers, [31.0, 42.0, 3.0, 4.0, 10.0, 20.0]);
        assert_eq!(*sum[1].numbers, [9.0]);
    }
}
