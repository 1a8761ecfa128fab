//! Rows with any number of values.

use super::output::NodeOutput;
use super::{Element, GraphBuilder, Output, Text, attr};
use crate::bundle::Dtype;

/// The key with which `tf.feature_column.crossed_column` hashes when it is given none.
pub const CROSS_HASH_KEY: i64 = 0xDE_CAFC_AFFE;

/// Values of any number per row.
#[derive(Clone, Copy, Debug)]
pub struct Sparse<T: Element> {
    /// Row and column of every value: `[values, 2]`.
    pub indices: Output<i64>,
    /// The values, row after row.
    pub values: Output<T>,
    /// How many rows there are, and how many columns in the longest.
    pub dense_shape: Output<i64>,
}

/// One of the things that are crossed: strings, or numbers.
#[derive(Clone, Copy, Debug)]
pub struct Crossed {
    indices: Output<i64>,
    values: NodeOutput,
    dense_shape: Output<i64>,
    dtype: Dtype,
}

/// How the embeddings of a row's ids become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combiner {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// Their sum over the square root of how many there are.
    SqrtN,
}

impl<T: Element> Sparse<T> {
    /// The same rows and columns with other values, one for each.
    #[must_use]
    pub fn with_values<U: Element>(self, values: Output<U>) -> Sparse<U> {
        Sparse { indices: self.indices, values, dense_shape: self.dense_shape }
    }

    fn crossed(self) -> Crossed {
        let Self { indices, values, dense_shape } = self;
        Crossed { indices, values: values.at, dense_shape, dtype: T::DTYPE }
    }
}

impl From<Sparse<Text>> for Crossed {
    fn from(texts: Sparse<Text>) -> Self {
        texts.crossed()
    }
}

impl From<Sparse<i64>> for Crossed {
    fn from(numbers: Sparse<i64>) -> Self {
        numbers.crossed()
    }
}

impl GraphBuilder {
    /// Values of any number per row as a matrix, filled up with `missing`.
    pub fn to_dense<T: Element>(&mut self, sparse: Sparse<T>, missing: Output<T>) -> Output<T> {
        let Sparse { indices, values, dense_shape } = sparse;
        let dense = self.make("SparseToDense").input(indices).input(dense_shape).input(values).input(missing);
        dense.dtype::<T>("T").dtype::<i64>("Tindices").add()
    }

    /// A matrix without the elements that are `missing`. Feature columns leave out empty strings and -1.
    pub fn to_sparse<T: Element>(&mut self, dense: Output<T>, missing: Output<T>) -> Sparse<T> {
        let there = self.not_equal(dense, missing);
        let indices = self.places(there);
        let values = self.make("GatherNd").input(dense).input(indices);
        let values = values.dtype::<T>("Tparams").dtype::<i64>("Tindices").add();
        let dense_shape = self.make("Shape").input(dense).dtype::<T>("T").dtype::<i64>("out_type").add();
        Sparse { indices, values, dense_shape }
    }

    /// Every combination of the values of a row, one of each input, as a number below `buckets`: what
    /// `tf.feature_column.crossed_column` does, with [`CROSS_HASH_KEY`] if it is given no other.
    pub fn cross(&mut self, inputs: &[Crossed], buckets: i64, hash_key: i64) -> Sparse<i64> {
        // Numbers are hashed as numbers, and then strings by their fingerprints.
        let texts = inputs.iter().all(|input| input.dtype == Dtype::String);
        let internal = if texts { Dtype::String } else { Dtype::I64 };
        let cross = inputs.iter().fold(self.make("SparseCross"), |cross, input| cross.input(input.indices));
        let cross = inputs.iter().fold(cross, |cross, input| cross.place(input.values));
        let cross = inputs.iter().fold(cross, |cross, input| cross.input(input.dense_shape));
        let node = cross
            .attr("N", attr::int(inputs.len() as i64))
            .attr("sparse_types", attr::dtypes(inputs.iter().map(|input| input.dtype)))
            .attr("dense_types", attr::dtypes([]))
            .attr("hashed_output", attr::flag(true))
            .attr("num_buckets", attr::int(buckets))
            .attr("hash_key", attr::int(hash_key))
            .attr("out_type", attr::dtype(Dtype::I64))
            .attr("internal_type", attr::dtype(internal))
            .add_node();
        Sparse { indices: Output::new(node, 0), values: Output::new(node, 1), dense_shape: Output::new(node, 2) }
    }
}
