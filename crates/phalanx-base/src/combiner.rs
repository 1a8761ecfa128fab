//! How several rows of a table become one vector.

/// How the rows that one example looks up become one vector.
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
    /// TensorFlow's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Sum => "sum",
            Self::Sqrtn => "sqrtn",
        }
    }
}
