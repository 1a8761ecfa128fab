//! The input of canned models: features, ids by table, and the matrices of looked-up rows.

use super::lookup::{Found, Lookup, Matrix};
use super::parts::Columns;
use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_feature::{Features, Slot};
use phalanx_nn::burn::tensor::{Device, Gradients, Tensor, TensorData};
use phalanx_train::RowValues;

/// A batch, prepared for a canned model.
pub struct CannedInput {
    pub(super) rows: usize,
    pub(super) linear: Option<PartInput>,
    pub(super) deep: Option<PartInput>,
    pub(super) ids: Vec<TableIds>,
}

/// The ids that a batch looks up in one table, concatenated over its columns, so that every row has one gradient.
pub(super) struct TableIds {
    pub(super) table: usize,
    pub(super) ids: Vec<i64>,
}

/// The features of one part of the model.
pub(super) struct PartInput {
    pub(super) features: Features,
    /// For each lookup: the index of its [`TableIds`], and the start of its ids there.
    spans: Vec<(usize, usize)>,
}

impl CannedInput {
    pub(super) fn new(batch: &Batch, linear: Option<&Columns>, deep: Option<&Columns>) -> Result<Self> {
        let mut ids = Vec::new();
        let mut part = |columns: Option<&Columns>| -> Result<Option<PartInput>> {
            columns.map(|columns| PartInput::new(batch, columns, &mut ids)).transpose()
        };
        let (linear, deep) = (part(linear)?, part(deep)?);
        Ok(Self { rows: batch.rows(), linear, deep, ids })
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

    /// Returns a column's ids and their positions among the rows.
    fn found<'a>(&'a self, lookup: &Lookup, span: (usize, usize), rows: &'a [RowValues]) -> Found<'a> {
        let ids = &self.features.sparse[lookup.sparse];
        let count = ids.splits.last().copied().unwrap_or(0);
        Found { ids, positions: &rows[span.0].positions[span.1..span.1 + count] }
    }

    /// Returns the matrix of looked-up rows alone: the logits of a linear part, or embeddings.
    pub(super) fn sums<'a>(
        &'a self,
        columns: &'a Columns,
        width: usize,
        rows: &[RowValues],
        device: &Device,
        learns: bool,
    ) -> Leaf<'a> {
        let values = vec![0.0; self.features.rows * width];
        self.leaf(columns, values, width, rows, device, learns)
    }

    /// Returns TensorFlow's input layer: dense columns and embeddings, concatenated.
    pub(super) fn layer<'a>(
        &'a self,
        columns: &'a Columns,
        rows: &[RowValues],
        device: &Device,
        learns: bool,
    ) -> Leaf<'a> {
        let (width, dense_width) = (columns.transform.input_width(), columns.transform.dense_width());
        let dense = &self.features.dense;
        let values = if width == dense_width {
            dense.clone()
        } else {
            let mut values = vec![0.0; self.features.rows * width];
            for column in columns.transform.columns() {
                let Slot::Dense { start, width: own } = column.slot else { continue };
                for (to, from) in values.chunks_exact_mut(width).zip(dense.chunks_exact(dense_width)) {
                    to[column.input.clone()].copy_from_slice(&from[start..start + own]);
                }
            }
            values
        };
        self.leaf(columns, values, width, rows, device, learns)
    }

    fn leaf<'a>(
        &'a self,
        columns: &'a Columns,
        mut values: Vec<f32>,
        width: usize,
        rows: &[RowValues],
        device: &Device,
        learns: bool,
    ) -> Leaf<'a> {
        for (lookup, &span) in columns.lookups.iter().zip(&self.spans) {
            let mut out = Matrix { values: &mut values, width };
            lookup.combine(&self.found(lookup, span, rows), &rows[span.0], &mut out);
        }
        let tensor = Tensor::from_data(TensorData::new(values, [self.features.rows, width]), device);
        let learns = learns && columns.lookups.iter().any(|lookup| lookup.trainable);
        let tensor = if learns { tensor.require_grad() } else { tensor };
        Leaf { tensor, learns, part: self, columns }
    }
}

/// A matrix of looked-up rows, whose gradient is scattered back to them.
pub(super) struct Leaf<'a> {
    pub(super) tensor: Tensor<2>,
    learns: bool,
    part: &'a PartInput,
    columns: &'a Columns,
}

impl Leaf<'_> {
    /// Adds this matrix's gradient to those of the rows; `out` has one entry per [`TableIds`].
    pub(super) fn scatter(
        &self,
        rows: &[RowValues],
        gradients: &mut Gradients,
        out: &mut [Option<Vec<f32>>],
    ) -> Result<()> {
        if !self.learns {
            return Ok(());
        }
        let Some(gradient) = self.tensor.grad_remove(gradients) else { return Ok(()) };
        let width = gradient.dims()[1];
        let mut gradient = gradient.into_data();
        let wrong =
            |error| Error::new(Code::ShapeMismatch, "a gradient is not of 32-bit floats").because(format!("{error:?}"));
        let values = gradient.as_mut_slice::<f32>().map_err(wrong)?;
        let gradient = Matrix { values, width };
        for (lookup, &span) in self.columns.lookups.iter().zip(&self.part.spans) {
            if lookup.trainable {
                let of = &rows[span.0];
                let out = out[span.0].get_or_insert_with(|| vec![0.0; of.values.len()]);
                lookup.scatter(&self.part.found(lookup, span, rows), of, &gradient, out);
            }
        }
        Ok(())
    }
}
