//! Which features are wanted, and in which form.

use super::FeatureValues;
use phalanx_base::{Code, Error, Result};

/// The type of a feature's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureKind {
    /// `float_list`.
    F32,
    /// `int64_list`.
    I64,
    /// `bytes_list`.
    Bytes,
}

impl std::fmt::Display for FeatureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::F32 => "float",
            Self::I64 => "int64",
            Self::Bytes => "bytes",
        })
    }
}

/// How many values a feature has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureLayout {
    /// Always this many: `FixedLenFeature`, and `FixedLenSequenceFeature` in a feature list.
    Fixed(usize),
    /// Any number: `VarLenFeature`.
    Variable,
    /// Any number of rows of this many values: `RaggedFeature` with a uniform inner row length.
    Ragged(usize),
}

/// One wanted feature.
///
/// ```
/// use phalanx_formats::example::{FeatureSpec, FeatureKind, FeatureValues};
/// let age = FeatureSpec::fixed("age", FeatureKind::F32, 1).with_default(FeatureValues::F32(vec![-1.0]));
/// assert_eq!(age.name, "age");
/// ```
#[derive(Clone, Debug)]
pub struct FeatureSpec {
    /// The feature's key.
    pub name: String,
    /// The type that its values must have.
    pub kind: FeatureKind,
    /// How many values it has.
    pub layout: FeatureLayout,
    /// The default of a fixed feature; a single value is repeated.
    pub default: Option<FeatureValues>,
    /// Whether a fixed feature list that is missing counts as one without steps.
    pub allow_missing: bool,
}

impl FeatureSpec {
    /// A feature of exactly `length` values, which must be there unless it has a default.
    #[must_use]
    pub fn fixed(name: impl Into<String>, kind: FeatureKind, length: usize) -> Self {
        Self::new(name.into(), kind, FeatureLayout::Fixed(length))
    }

    /// A feature of any number of values, none where it is missing.
    #[must_use]
    pub fn variable(name: impl Into<String>, kind: FeatureKind) -> Self {
        Self::new(name.into(), kind, FeatureLayout::Variable)
    }

    /// A feature of any number of rows of `inner` values, none where it is missing.
    #[must_use]
    pub fn ragged(name: impl Into<String>, kind: FeatureKind, inner: usize) -> Self {
        Self::new(name.into(), kind, FeatureLayout::Ragged(inner))
    }

    /// Sets the default of a fixed feature: as many values as it has, or one for all of them.
    #[must_use]
    pub fn with_default(mut self, default: FeatureValues) -> Self {
        self.default = Some(default);
        self
    }

    /// Lets a fixed feature list be missing: it then has no steps.
    #[must_use]
    pub fn allow_missing(mut self) -> Self {
        self.allow_missing = true;
        self
    }

    fn new(name: String, kind: FeatureKind, layout: FeatureLayout) -> Self {
        Self { name, kind, layout, default: None, allow_missing: false }
    }

    /// FeatureValues per item of the column.
    pub(super) fn width(&self) -> usize {
        match self.layout {
            FeatureLayout::Fixed(length) | FeatureLayout::Ragged(length) => length,
            FeatureLayout::Variable => 1,
        }
    }

    /// Checks what the types cannot; spreads a default of one value.
    pub(super) fn checked(mut self) -> Result<Self> {
        let wrong = |why: String| {
            let what = format!("the specification of feature {:?} is not valid", self.name);
            Err(Error::new(Code::BadSetting, what).because(why))
        };
        if self.layout == FeatureLayout::Ragged(0) {
            return wrong("its inner rows have no values".to_owned());
        }
        let Some(default) = &self.default else { return Ok(self) };
        let FeatureLayout::Fixed(length) = self.layout else {
            return wrong("only a feature of fixed length has a default".to_owned());
        };
        if default.kind() != self.kind {
            return wrong(format!("it is {}, its default is {}", self.kind, default.kind()));
        }
        if default.len() != length && default.len() != 1 {
            return wrong(format!("it has {length} values, its default has {}", default.len()));
        }
        if default.len() != length {
            let mut spread = FeatureValues::new(self.kind);
            for _ in 0..length {
                spread.extend(default);
            }
            self.default = Some(spread);
        }
        Ok(self)
    }
}
