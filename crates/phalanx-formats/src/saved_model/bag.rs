//! Embeddings of rows that have any number of ids.

use super::{Combiner, GraphBuilder, Output, Sparse};

/// The ids of all rows that count, with their rows and what else is wanted of them.
struct Bag {
    rows: Output<i64>,
    ids: Output<i64>,
    /// How many rows there are.
    count: Output<i64>,
    /// The places of these ids among all.
    places: Output<i64>,
}

impl GraphBuilder {
    /// One embedding per row: those of the row's ids together, zeros for a row without any. Negative ids, which a table
    /// gives for words that it does not know, do not count.
    pub fn embedding_bag(&mut self, table: Output<f32>, ids: Sparse<i64>, combiner: Combiner) -> Output<f32> {
        self.scope("embedding_bag", |graph| {
            let Bag { rows, ids, count, .. } = graph.bag(ids, None);
            let op = match combiner {
                Combiner::Sum => "SparseSegmentSumWithNumSegments",
                Combiner::Mean => "SparseSegmentMeanWithNumSegments",
                Combiner::SqrtN => "SparseSegmentSqrtNWithNumSegments",
            };
            let bag = graph.make(op).input(table).input(ids).input(rows).input(count).dtype::<f32>("T");
            bag.dtype::<i64>("Tidx").dtype::<i64>("Tsegmentids").dtype::<i64>("Tnumsegments").add()
        })
    }

    /// As [`GraphBuilder::embedding_bag`], with a weight for each id. The mean is by the weights, and [`Combiner::SqrtN`]
    /// by the root of their squares' sum; for both, ids whose weight is not positive do not count.
    pub fn weighted_embedding_bag(
        &mut self,
        table: Output<f32>,
        ids: Sparse<i64>,
        weights: Output<f32>,
        combiner: Combiner,
    ) -> Output<f32> {
        self.scope("embedding_bag", |graph| {
            let sum = combiner == Combiner::Sum;
            let Bag { rows, ids, count, places } = graph.bag(ids, (!sum).then_some(weights));
            let weights = graph.gather(weights, places);
            let column = graph.expand_dims(weights, 1);
            let embeddings = graph.gather(table, ids);
            let embeddings = graph.mul(embeddings, column);
            let total = graph.segment_sum(embeddings, rows, count);
            let divisor = match combiner {
                Combiner::Sum => return total,
                Combiner::Mean => graph.segment_sum(column, rows, count),
                Combiner::SqrtN => {
                    let squares = graph.square(column);
                    let squares = graph.segment_sum(squares, rows, count);
                    graph.sqrt(squares)
                }
            };
            graph.make("DivNoNan").input(total).input(divisor).dtype::<f32>("T").add()
        })
    }

    /// The ids that are not negative, and whose weight is positive if weights are given.
    fn bag(&mut self, ids: Sparse<i64>, weights: Option<Output<f32>>) -> Bag {
        let least = self.scalar(0_i64);
        let mut valid = self.greater_equal(ids.values, least);
        if let Some(weights) = weights {
            let zero = self.scalar(0.0_f32);
            let positive = self.greater(weights, zero);
            valid = self.and(valid, positive);
        }
        let places = self.places(valid);
        let places = self.reshape(places, &[-1]);
        let first = self.scalar(0_i32);
        let rows = self.gather_along(ids.indices, first, 1);
        Bag {
            rows: self.gather(rows, places),
            ids: self.gather(ids.values, places),
            count: self.gather(ids.dense_shape, first),
            places,
        }
    }

    fn segment_sum(&mut self, data: Output<f32>, segments: Output<i64>, count: Output<i64>) -> Output<f32> {
        let sum = self.make("UnsortedSegmentSum").input(data).input(segments).input(count).dtype::<f32>("T");
        sum.dtype::<i64>("Tindices").dtype::<i64>("Tnumsegments").add()
    }
}
