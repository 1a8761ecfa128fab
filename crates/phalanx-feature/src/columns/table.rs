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
}
