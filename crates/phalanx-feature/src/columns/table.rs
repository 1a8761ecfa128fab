//! The specification of an embedding table. Its values live elsewhere.

pub use phalanx_base::Combiner;

/// The distribution of the initial values of an embedding table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EmbeddingInitializer {
    /// A normal distribution, truncated at two standard deviations.
    TruncatedNormal {
        /// The mean.
        mean: f32,
        /// The standard deviation.
        stddev: f32,
    },
    /// A normal distribution.
    RandomNormal {
        /// The mean.
        mean: f32,
        /// The standard deviation.
        stddev: f32,
    },
    /// A uniform distribution between two bounds.
    RandomUniform {
        /// The lower bound.
        min: f32,
        /// The upper bound.
        max: f32,
    },
    /// A uniform distribution within ±√(6 / (rows + dimension)).
    GlorotUniform,
    /// A constant.
    Constant(f32),
}

impl EmbeddingInitializer {
    /// Returns TensorFlow's default, a standard deviation of 1/√dimension.
    #[must_use]
    pub fn of_dimension(dimension: usize) -> Self {
        Self::TruncatedNormal { mean: 0.0, stddev: 1.0 / (dimension.max(1) as f32).sqrt() }
    }
}

/// The embedding table of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingTable {
    /// The table's name: `occupation_embedding`, or the collection name of shared embeddings.
    pub name: String,
    /// The number of rows, one per id.
    pub rows: usize,
    /// The length of a row.
    pub dimension: usize,
    /// The initial values.
    pub initializer: EmbeddingInitializer,
    /// Whether it is trained.
    pub trainable: bool,
    /// Whether several columns share it; TensorFlow then names it without the scope of a model.
    pub shared: bool,
}
