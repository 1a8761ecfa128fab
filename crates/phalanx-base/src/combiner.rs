//! How embedding rows are combined.

/// How the rows that one example looks up are combined into one vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combiner {
    /// Σ w·e / Σ w.
    #[default]
    Mean,
    /// Σ w·e.
    Sum,
    /// Σ w·e / √(Σ w²).
    Sqrtn,
}

impl Combiner {
    /// Returns TensorFlow's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Sum => "sum",
            Self::Sqrtn => "sqrtn",
        }
    }
}
