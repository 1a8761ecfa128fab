//! Fields: embeddings of one length that meet each other, beside what else the columns say.

use super::lookup::Lookup;
use super::parts::{Builder, Columns, plan_tables};
use phalanx_base::{Code, Error, Result};
use phalanx_feature::{FeatureColumn, Initializer, Slot, Transform};
use phalanx_nn::burn::tensor::{Device, Int, Tensor, TensorData};
use phalanx_optim::Optimizer;

/// How rows begin where a column does not say it: a sum of hundreds of products must not begin as noise that outweighs
/// the labels, as it does at the length that suits a single layer.
const START: Initializer = Initializer::TruncatedNormal { mean: 0.0, stddev: 0.01 };

/// The columns of a model in which embeddings meet. Its matrix holds the embeddings alone, field after field.
pub(crate) struct Fields {
    pub(crate) columns: Columns,
    pub(crate) count: usize,
    pub(crate) dimension: usize,
}

impl Fields {
    /// Plans the embeddings as `SCOPE/COLUMN/embedding_weights`.
    pub(crate) fn plan(
        columns: &[FeatureColumn],
        scope: &str,
        optimizer: Optimizer,
        builder: &mut Builder,
    ) -> Result<Self> {
        let transform = Transform::dense_features(columns)?;
        let dimension = one_dimension(&transform)?;
        let tables = plan_tables(&transform, scope, Some(START), optimizer, builder);
        let mut lookups = Vec::new();
        for column in transform.columns() {
            if let Slot::Table { index, table, combiner, max_norm } = column.slot {
                let trainable = transform.tables()[table].trainable;
                let at = lookups.len() * dimension..(lookups.len() + 1) * dimension;
                lookups.push(Lookup { sparse: index, table: tables[table], combiner, max_norm, trainable, at });
            }
        }
        let count = lookups.len();
        Ok(Self { columns: Columns::new(columns, transform, lookups), count, dimension })
    }

    /// How many numbers a row of the matrix of embeddings has.
    pub(crate) fn width(&self) -> usize {
        self.count * self.dimension
    }

    /// How many numbers a row has that are not embeddings.
    pub(crate) fn dense_width(&self) -> usize {
        self.columns.transform.dense_width()
    }

    /// The numbers that are not embeddings; `None` where there are none.
    pub(crate) fn dense(&self, values: &[f32], device: &Device) -> Option<Tensor<2>> {
        let width = self.dense_width();
        let rows = values.len().checked_div(width)?;
        Some(Tensor::from_data(TensorData::new(values.to_vec(), [rows, width]), device))
    }

    /// `[rows, fields, dimension]` of the matrix of embeddings.
    pub(crate) fn stacked(&self, embeddings: Tensor<2>) -> Tensor<3> {
        let [rows, _] = embeddings.dims();
        embeddings.reshape([rows, self.count, self.dimension])
    }
}

/// The length that all embeddings have.
fn one_dimension(transform: &Transform) -> Result<usize> {
    let tables = transform.tables();
    let Some(first) = tables.first() else {
        return Err(Error::new(Code::BadSetting, "a model in which embeddings meet has none").help(
            "give it embedding columns, such as embedding_column(categorical_column_with_identity(\"ad\", 1000), 16)",
        ));
    };
    match tables.iter().find(|table| table.dimension != first.dimension) {
        None => Ok(first.dimension),
        Some(other) => Err(Error::new(Code::BadSetting, "embeddings that meet are of different lengths")
            .because(format!(
                "{:?} has {} numbers, {:?} has {}",
                first.name, first.dimension, other.name, other.dimension
            ))
            .help("give all embedding columns of the model one dimension")),
    }
}

/// Every field's product with every other, added up: a factorization machine. `[rows, 1]`.
pub(crate) fn second_order(fields: Tensor<3>) -> Tensor<2> {
    let rows = fields.dims()[0];
    // Σ over pairs of a·b is half of (Σ a)² - Σ a², which needs no pairs.
    let sum: Tensor<3> = fields.clone().sum_dim(1);
    let whole = super::hidden::squared(sum).sum_dim(2);
    let own = super::hidden::squared(fields).sum_dim(1).sum_dim(2);
    ((whole - own) * 0.5).reshape([rows, 1])
}

/// The product of each pair of fields, each pair once: `[rows, pairs]` in the order of [`pairs`].
pub(crate) fn products(fields: Tensor<3>) -> Tensor<2> {
    let [rows, count, _] = fields.dims();
    let device = fields.device();
    let all = fields.clone().matmul(fields.swap_dims(1, 2)).reshape([rows, count * count]);
    let which: Vec<i64> = pairs(count).map(|(a, b)| (a * count + b) as i64).collect();
    let pairs = which.len();
    let which = Tensor::<1, Int>::from_data(TensorData::new(which, [pairs]), &device);
    all.select(1, which)
}

/// Pairs of fields: (1, 0), (2, 0), (2, 1), …
pub(crate) fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (1..count).flat_map(|a| (0..a).map(move |b| (a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rows of three fields of two numbers.
    const FIELDS: [f32; 12] = [1.0, 2.0, -1.0, 0.5, 3.0, -2.0, 0.25, -1.5, 2.0, 1.0, -0.5, 4.0];

    fn field(row: usize, field: usize) -> [f64; 2] {
        std::array::from_fn(|at| f64::from(FIELDS[row * 6 + field * 2 + at]))
    }

    fn product(row: usize, a: usize, b: usize) -> f64 {
        field(row, a).iter().zip(field(row, b)).map(|(a, b)| a * b).sum()
    }

    fn tensor() -> Tensor<3> {
        Tensor::from_data(TensorData::new(FIELDS.to_vec(), [2, 3, 2]), &phalanx_nn::default_device())
    }

    fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.into_data().try_into_vec().unwrap()
    }

    #[test]
    fn every_pair_of_fields_is_multiplied_once() {
        let found = numbers(products(tensor()));
        let expected: Vec<f64> = (0..2).flat_map(|row| pairs(3).map(move |(a, b)| product(row, a, b))).collect();
        assert_eq!(expected.len(), 6);
        assert!(found.iter().zip(&expected).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-5), "{found:?} {expected:?}");
        let found = numbers(second_order(tensor()));
        for row in 0..2 {
            let sum: f64 = pairs(3).map(|(a, b)| product(row, a, b)).sum();
            assert!((f64::from(found[row]) - sum).abs() < 1e-5, "{found:?}");
        }
    }

    #[test]
    fn a_pairs_slope_is_the_other_field() {
        for second in [true, false] {
            let fields = tensor().require_grad();
            let loss = if second { second_order(fields.clone()) } else { products(fields.clone()) };
            let mut gradients = loss.sum().backward();
            let slopes = numbers(fields.grad_remove(&mut gradients).unwrap());
            for row in 0..2 {
                for at in 0..6 {
                    let (own, axis) = (at / 2, at % 2);
                    let others: f64 = (0..3).filter(|other| *other != own).map(|other| field(row, other)[axis]).sum();
                    assert!((f64::from(slopes[row * 6 + at]) - others).abs() < 1e-5, "{second} {slopes:?}");
                }
            }
        }
    }
}
