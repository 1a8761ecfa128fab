//! Fields: embeddings of one dimension that interact pairwise, and the dense columns beside them.

use super::parts::{Columns, ModelPlan, plan_lookups};
use phalanx_base::{Code, Error, Result};
use phalanx_feature::{EmbeddingInitializer, FeatureColumn, Transform};
use phalanx_nn::burn::tensor::{Device, Int, Tensor, TensorData};
use phalanx_optim::Optimizer;

/// The default initializer of rows. With that of a single layer, the sum of hundreds of products would start as noise
/// that outweighs the labels.
const START: EmbeddingInitializer = EmbeddingInitializer::TruncatedNormal { mean: 0.0, stddev: 0.01 };

/// The columns of a model whose embeddings interact. Its matrix holds only the embeddings, field after field.
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
        plan: &mut ModelPlan,
    ) -> Result<Self> {
        let transform = Transform::dense_features(columns)?;
        let dimension = one_dimension(&transform)?;
        let at = |field: usize, _| field * dimension..(field + 1) * dimension;
        let lookups = plan_lookups(&transform, scope, Some(START), optimizer, plan, at);
        let count = lookups.len();
        Ok(Self { columns: Columns::new(columns, transform, lookups), count, dimension })
    }

    /// Returns the width of the matrix of embeddings.
    pub(crate) fn width(&self) -> usize {
        self.count * self.dimension
    }

    /// Returns the width of the dense columns.
    pub(crate) fn dense_width(&self) -> usize {
        self.columns.transform.dense_width()
    }

    /// Returns the dense columns, or `None` if there are none.
    pub(crate) fn dense(&self, values: &[f32], device: &Device) -> Option<Tensor<2>> {
        let width = self.dense_width();
        let rows = values.len().checked_div(width)?;
        Some(Tensor::from_data(TensorData::new(values.to_vec(), [rows, width]), device))
    }

    /// Reshapes the matrix of embeddings to `[rows, fields, dimension]`.
    pub(crate) fn stacked(&self, embeddings: Tensor<2>) -> Tensor<3> {
        let [rows, _] = embeddings.dims();
        embeddings.reshape([rows, self.count, self.dimension])
    }
}

/// Returns the dimension that all embeddings have.
fn one_dimension(transform: &Transform) -> Result<usize> {
    let tables = transform.tables();
    let Some(first) = tables.first() else {
        return Err(Error::new(Code::BadSetting, "the model has no embedding columns").help(
            "give it embedding columns, such as embedding_column(categorical_column_with_identity(\"ad\", 1000), 16)",
        ));
    };
    match tables.iter().find(|table| table.dimension != first.dimension) {
        None => Ok(first.dimension),
        Some(other) => Err(Error::new(Code::BadSetting, "the embeddings have different dimensions")
            .because(format!("{:?} has {}, {:?} has {}", first.name, first.dimension, other.name, other.dimension))
            .help("give all embedding columns of the model one dimension")),
    }
}

/// Returns the sum of the dot products of all pairs of fields, `[rows, 1]`: a factorization machine.
pub(crate) fn second_order(fields: Tensor<3>) -> Tensor<2> {
    let rows = fields.dims()[0];
    // The sum of a·b over all pairs is ((Σ a)² - Σ a²) / 2.
    let sum: Tensor<3> = fields.clone().sum_dim(1);
    let whole = super::hidden::squared(sum).sum_dim(2);
    let own = super::hidden::squared(fields).sum_dim(1).sum_dim(2);
    ((whole - own) * 0.5).reshape([rows, 1])
}

/// Returns the dot product of each pair of fields, `[rows, pairs]` in the order of [`pairs`].
pub(crate) fn products(fields: Tensor<3>) -> Tensor<2> {
    let [rows, count, _] = fields.dims();
    let device = fields.device();
    let all = fields.clone().matmul(fields.swap_dims(1, 2)).reshape([rows, count * count]);
    let which: Vec<i64> = pairs(count).map(|(a, b)| (a * count + b) as i64).collect();
    let pairs = which.len();
    let which = Tensor::<1, Int>::from_data(TensorData::new(which, [pairs]), &device);
    all.select(1, which)
}

/// Iterates over the pairs of fields: (1, 0), (2, 0), (2, 1), …
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
