//! The input of canned models: features, and ids by table.

use super::parts::Columns;
use phalanx_base::Result;
use phalanx_data::Batch;
use phalanx_feature::Features;
use phalanx_graph::{Fed, Ids};
use phalanx_train::RowValues;

/// A batch, prepared for a canned model.
pub struct CannedInput {
    pub(super) rows: usize,
    pub(super) parts: Vec<PartInput>,
    pub(super) ids: Vec<TableIds>,
}

/// The ids that a batch looks up in one table, concatenated over its columns, so that every row has one gradient.
pub(super) struct TableIds {
    pub(super) table: usize,
    pub(super) ids: Vec<i64>,
}

/// The features of one part of the model.
pub(super) struct PartInput {
    features: Features,
    /// For each lookup: the index of its [`TableIds`], and the start of its ids there.
    spans: Vec<(usize, usize)>,
}

impl CannedInput {
    pub(super) fn new(batch: &Batch, parts: &[Columns]) -> Result<Self> {
        let mut ids = Vec::new();
        let parts = parts.iter().map(|columns| PartInput::new(batch, columns, &mut ids)).collect::<Result<_>>()?;
        Ok(Self { rows: batch.rows(), parts, ids })
    }
}

impl PartInput {
    fn new(batch: &Batch, columns: &Columns, ids: &mut Vec<TableIds>) -> Result<Self> {
        let mut features = columns.transform.apply(batch)?;
        let mut spans = Vec::with_capacity(columns.lookups.len());
        for lookup in &columns.lookups {
            let own = std::mem::take(&mut features.sparse[lookup.sparse].ids);
            match ids.iter().position(|of| of.table == lookup.table) {
                Some(at) => {
                    spans.push((at, ids[at].ids.len()));
                    ids[at].ids.extend(own);
                }
                None => {
                    spans.push((ids.len(), 0));
                    ids.push(TableIds { table: lookup.table, ids: own });
                }
            }
        }
        Ok(Self { features, spans })
    }

    /// Sets the inputs of the graph that this part has.
    pub(super) fn feed<'a>(&'a self, columns: &Columns, rows: &'a [RowValues], inputs: &mut [Fed<'a>]) {
        if let Some(dense) = columns.dense {
            inputs[dense] = Fed::Numbers(&self.features.dense);
        }
        for (lookup, &(of, start)) in columns.lookups.iter().zip(&self.spans) {
            let ids = &self.features.sparse[lookup.sparse];
            let count = ids.splits.last().copied().unwrap_or(0);
            let positions = &rows[of].positions[start..start + count];
            inputs[lookup.input] = Fed::Ids(Ids { splits: &ids.splits, positions, weights: ids.weights.as_deref() });
        }
    }
}
