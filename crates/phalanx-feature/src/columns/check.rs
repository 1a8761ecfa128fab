//! Checks of a column's settings, made when the column is used.

use super::kind::{Boundaries, Categorical, ColumnKind, CrossInput, Embedding, Numeric, Split};
use super::wrong;
use phalanx_base::{Code, Error, Result};
use phalanx_data::DType;
use std::sync::Arc;

/// The maximum number of buckets: ids are signed 64-bit numbers.
const MOST_BUCKETS: usize = i64::MAX as usize;

/// The maximum number of buckets by quantiles.
const MOST_QUANTILES: usize = 1000;

fn split_fault(split: &Split, dtype: DType) -> Option<String> {
    match split.as_deref() {
        Some("") => Some("the delimiter of its values is empty".to_owned()),
        Some(delimiter) if dtype != DType::Bytes && delimiter.bytes().any(|byte| byte.is_ascii_digit()) => {
            Some(format!("the delimiter {delimiter:?} of its integers has a digit"))
        }
        _ => None,
    }
}

impl Boundaries {
    /// The boundaries, or an error if they depend on data that was not seen yet.
    pub(crate) fn known(&self, key: &str) -> Result<&Arc<[f32]>> {
        match self {
            Self::Given(boundaries) => Ok(boundaries),
            Self::Quantiles(_) => Err(not_adapted(key)),
        }
    }
}

impl Numeric {
    /// Fails if a function depends on data that was not seen yet.
    pub(crate) fn check_adapted(&self) -> Result<()> {
        if self.functions.around_standardize().is_some() { Err(not_adapted(&self.key)) } else { Ok(()) }
    }
}

fn not_adapted(key: &str) -> Error {
    Error::new(
        Code::BadSetting,
        format!("a column of {key:?} depends on the data's statistics, which it does not have"),
    )
    .help("compute them once with FeatureStatistics::of, and give them to FeatureColumn::adapted")
}

impl ColumnKind {
    pub(super) fn check(&self) -> Result<()> {
        let why = match self {
            Self::Numeric(numeric) => numeric.fault(),
            Self::SequenceNumeric(numeric) => numeric.fault().or_else(|| {
                let one = numeric.default.as_ref().is_some_and(|default| default.len() == 1);
                (!one).then(|| "the padding of a sequence is one value".to_owned())
            }),
            Self::Categorical(column) | Self::Indicator(column) => column.fault(),
            Self::Embedding(embedding) => embedding.fault(),
        };
        why.map_or(Ok(()), |why| Err(wrong(self, why)))
    }
}

impl Numeric {
    fn fault(&self) -> Option<String> {
        if self.shape.contains(&0) || self.shape.iter().try_fold(2_usize, |all, &d| all.checked_mul(d)).is_none() {
            return Some(format!("the dimensions of its shape {:?} must be greater than 0", self.shape));
        }
        if let Some(fault) = self.functions.fault() {
            return Some(fault);
        }
        if self.missing_indicator && self.dtype != DType::F32 {
            return Some(
                "a column with a missing indicator reads float32, in which NaN marks a missing value".to_owned(),
            );
        }
        if self.time.is_some() && self.elements() != 1 {
            return Some("the part of a timestamp is one number".to_owned());
        }
        let given = self.default.as_ref()?.len();
        (given != 1 && given != self.elements())
            .then(|| format!("it has {} values, its default has {given}", self.elements()))
    }
}

impl Categorical {
    fn fault(&self) -> Option<String> {
        let buckets_fault = |buckets: usize| {
            (buckets == 0 || buckets > MOST_BUCKETS).then(|| format!("it has {buckets} buckets, at least 1 is needed"))
        };
        match self {
            Self::Identity { buckets, default, split, .. } => buckets_fault(*buckets).or_else(|| {
                if let Some(fault) = split_fault(split, DType::I64) {
                    return Some(fault);
                }
                let default = (*default)?;
                let inside = usize::try_from(default).is_ok_and(|default| default < *buckets);
                (!inside).then(|| format!("its default {default} is not in the range from 0 to {buckets}"))
            }),
            Self::Hash { buckets, split, dtype, .. } => buckets_fault(*buckets).or_else(|| split_fault(split, *dtype)),
            Self::Vocabulary { default, oov_buckets, split, vocabulary, .. } => {
                if let Some(fault) = split_fault(split, vocabulary.dtype()) {
                    return Some(fault);
                }
                if *oov_buckets > MOST_BUCKETS / 2 {
                    return Some(format!("num_oov_buckets is {oov_buckets}"));
                }
                // TensorFlow accepts -1 together with buckets for unknown values, because -1 is its default.
                let both = *oov_buckets > 0 && default.is_some_and(|default| default != -1);
                both.then(|| "num_oov_buckets and default_value exclude each other".to_owned())
            }
            Self::Bucketized { source, boundaries } => source.fault().or_else(|| {
                let flat = source.shape.len() <= 1;
                match boundaries {
                    Boundaries::Given(boundaries) => {
                        (!flat || boundaries.is_empty()).then(|| "its source must have one dimension".to_owned())
                    }
                    Boundaries::Quantiles(buckets) if !(2..=MOST_QUANTILES).contains(buckets) => {
                        Some(format!("it has {buckets} buckets of quantiles, not 2 to {MOST_QUANTILES}"))
                    }
                    Boundaries::Quantiles(_) => (!flat).then(|| "its source must have one dimension".to_owned()),
                }
            }),
            Self::Time { .. } => None,
            Self::Crossed { parts, buckets, .. } => buckets_fault(*buckets).or_else(|| {
                let columns = parts.iter().filter_map(|part| match part {
                    CrossInput::Key(_) => None,
                    CrossInput::Column(column) => Some(column),
                });
                columns.map(Self::fault).find(Option::is_some).flatten()
            }),
            Self::Weighted { column, .. } => match **column {
                Self::Weighted { .. } => Some("its column has weights already".to_owned()),
                _ => column.fault(),
            },
            Self::Sequence(column) => column.fault(),
        }
    }

    /// The number of ids. Reads a vocabulary file if necessary.
    pub(crate) fn num_buckets(&self) -> Result<usize> {
        match self {
            Self::Identity { buckets, .. } | Self::Hash { buckets, .. } | Self::Crossed { buckets, .. } => Ok(*buckets),
            Self::Vocabulary { vocabulary, oov_buckets, .. } => Ok(vocabulary.tokens()?.len() + oov_buckets),
            Self::Time { part, .. } => Ok(part.num_buckets()),
            Self::Bucketized { source, boundaries } => (boundaries.known(&source.key)?.len() + 1)
                .checked_mul(source.elements())
                .ok_or_else(|| Error::new(Code::BadSetting, format!("column {:?} has too many buckets", self.name()))),
            Self::Weighted { column, .. } | Self::Sequence(column) => column.num_buckets(),
        }
    }
}

impl Embedding {
    fn fault(&self) -> Option<String> {
        if self.table.dimension == 0 {
            return Some("its dimension must be greater than 0".to_owned());
        }
        self.column.fault()
    }
}
