//! What a column says about the embedding table it looks up in. The values live elsewhere.

pub use phalanx_base::Combiner;

/// How the rows of a table begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initializer {
    /// A normal distribution without what lies beyond two deviations.
    TruncatedNormal {
        /// The middle.
        mean: f32,
        /// The deviation.
        stddev: f32,
    },
    /// A normal distribution.
    RandomNormal {
        /// The middle.
        mean: f32,
        /// The deviation.
        stddev: f32,
    },
    /// Every value between two bounds as likely as any other.
    RandomUniform {
        /// The lower bound.
        min: f32,
        /// The upper bound.
        max: f32,
    },
    /// Uniform within ±√(6 / (rows + dimension)).
    GlorotUniform,
    /// One value everywhere.
    Constant(f32),
}

impl Initializer {
    /// TensorFlow's, where a column says nothing: deviations of 1/√dimension.
    #[must_use]
    pub fn of_dimension(dimension: usize) -> Self {
        Self::TruncatedNormal { mean: 0.0, stddev: 1.0 / (dimension.max(1) as f32).sqrt() }
    }
}

/// A table as a column wants it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSpec {
    /// The table's name: `occupation_embedding`, or the collection name of shared embeddings.
    pub name: String,
    /// How many ids it has.
    pub rows: usize,
    /// How long a row is.
    pub dimension: usize,
    /// How rows begin.
    pub initializer: Initializer,
    /// Whether training changes it.
    pub trainable: bool,
    /// Whether it was made for several columns: TensorFlow then names it without the scope of a model.
    pub shared: bool,
}
