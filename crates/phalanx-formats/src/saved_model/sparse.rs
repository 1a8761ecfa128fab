//! Rows with any number of values.

use super::{Element, GraphBuilder, Output};

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
}

impl GraphBuilder {
    /// Values of any number per row as a matrix, filled up with `missing`.
    pub fn to_dense<T: Element>(&mut self, sparse: Sparse<T>, missing: Output<T>) -> Output<T> {
        let Sparse { indices, values, dense_shape } = sparse;
        let dense = self.make("SparseToDense").input(indices).input(dense_shape).input(values).input(missing);
        dense.dtype::<T>("T").dtype::<i64>("Tindices").add()
    }

    /// One embedding per row: those of the row's ids together, zeros for a row without any. Negative ids, which a table
    /// gives for words that it does not know, do not count.
    pub fn embedding_bag(&mut self, table: Output<f32>, ids: Sparse<i64>, combiner: Combiner) -> Output<f32> {
        self.scope("embedding_bag", |graph| {
            let least = graph.scalar(0_i64);
            let valid = graph.make("GreaterEqual").input(ids.values).input(least).dtype::<i64>("T").add::<bool>();
            let valid = graph.make("Where").input(valid).dtype::<bool>("T").add::<i64>();
            let valid = graph.reshape(valid, &[-1]);
            let column = graph.scalar(0_i32);
            let rows = graph.gather_along(ids.indices, column, 1);
            let rows = graph.gather(rows, valid);
            let which = graph.gather(ids.values, valid);
            let first = graph.scalar(0_i32);
            let count = graph.gather(ids.dense_shape, first);
            let op = match combiner {
                Combiner::Sum => "SparseSegmentSumWithNumSegments",
                Combiner::Mean => "SparseSegmentMeanWithNumSegments",
                Combiner::SqrtN => "SparseSegmentSqrtNWithNumSegments",
            };
            let bag = graph.make(op).input(table).input(which).input(rows).input(count).dtype::<f32>("T");
            bag.dtype::<i64>("Tidx").dtype::<i64>("Tsegmentids").dtype::<i64>("Tnumsegments").add()
        })
    }
}
