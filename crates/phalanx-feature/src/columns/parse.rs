//! The parsing of `tf.train.Example`s for a list of columns.

use super::FeatureColumn;
use super::kind::{Categorical, ColumnKind, CrossInput, Numeric, Split};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{DType, FeatureKind, FeatureSpec, FeatureValues};

/// Returns the features that columns read, each once: of fixed length for numeric columns, of any length for categorical ones.
///
/// ```
/// use phalanx_feature::{bucketized_column, categorical_column_with_hash_bucket, make_parse_example_spec};
/// let jobs = categorical_column_with_hash_bucket("occupation", 1000);
/// let specs = make_parse_example_spec(&[jobs, bucketized_column("age", [18, 65])])?;
/// let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
/// assert_eq!(names, ["occupation", "age"]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// # Errors
/// If the settings of a column are not valid, or two columns read the same feature in two forms.
pub fn make_parse_example_spec(columns: &[FeatureColumn]) -> Result<Vec<FeatureSpec>> {
    let mut wanted = Vec::new();
    for column in columns {
        match column.checked()? {
            ColumnKind::Numeric(numeric) => add(&mut wanted, number(numeric))?,
            ColumnKind::SequenceNumeric(numeric) => add(&mut wanted, variable(&numeric.key, numeric.dtype))?,
            ColumnKind::Categorical(column) | ColumnKind::Indicator(column) => categorical(column, &mut wanted)?,
            ColumnKind::Embedding(embedding) => categorical(&embedding.column, &mut wanted)?,
        }
    }
    Ok(wanted.into_iter().map(Wanted::into_spec).collect())
}

/// A feature in a comparable form.
#[derive(Debug)]
struct Wanted {
    key: String,
    kind: FeatureKind,
    /// The length and the default, if the length is fixed. NaN marks missing values.
    fixed: Option<(usize, Option<Vec<f64>>)>,
}

impl Wanted {
    /// Whether both read the same feature in the same form. Unlike with `==`, NaN is NaN.
    fn is(&self, other: &Self) -> bool {
        let bits = |wanted: &Self| {
            let default = |default: &Vec<f64>| default.iter().map(|value| value.to_bits()).collect::<Vec<u64>>();
            wanted.fixed.as_ref().map(|(length, given)| (*length, given.as_ref().map(default)))
        };
        self.key == other.key && self.kind == other.kind && bits(self) == bits(other)
    }

    fn into_spec(self) -> FeatureSpec {
        let Some((length, default)) = self.fixed else { return FeatureSpec::variable(self.key, self.kind) };
        let spec = FeatureSpec::fixed(self.key, self.kind, length);
        match (default, self.kind) {
            (None, _) => spec,
            (Some(default), FeatureKind::I64) => {
                spec.with_default(FeatureValues::I64(default.into_iter().map(|value| value as i64).collect()))
            }
            (Some(default), _) => {
                spec.with_default(FeatureValues::F32(default.into_iter().map(|value| value as f32).collect()))
            }
        }
    }
}

fn number(numeric: &Numeric) -> Wanted {
    if let Some((_, unit)) = numeric.time {
        return variable(&numeric.key, unit.dtype());
    }
    let default = if numeric.missing_indicator { Some(vec![f64::NAN]) } else { numeric.default.clone() };
    let fixed = Some((numeric.elements(), default));
    Wanted { fixed, ..variable(&numeric.key, numeric.dtype) }
}

fn variable(key: &str, dtype: DType) -> Wanted {
    let kind = match dtype {
        DType::F32 => FeatureKind::F32,
        DType::I64 | DType::U8 => FeatureKind::I64,
        DType::Bytes => FeatureKind::Bytes,
    };
    Wanted { key: key.to_owned(), kind, fixed: None }
}

/// The type of an input of ids or tokens: texts if it holds several in one.
fn tokens(dtype: DType, split: &Split) -> DType {
    if split.is_some() { DType::Bytes } else { dtype }
}

fn categorical(column: &Categorical, wanted: &mut Vec<Wanted>) -> Result<()> {
    match column {
        Categorical::Identity { key, split, .. } => add(wanted, variable(key, tokens(DType::I64, split))),
        Categorical::Hash { key, split, dtype, .. } => add(wanted, variable(key, tokens(*dtype, split))),
        Categorical::Vocabulary { key, split, vocabulary, .. } => {
            add(wanted, variable(key, tokens(vocabulary.dtype(), split)))
        }
        Categorical::Bucketized { source, .. } => add(wanted, number(source)),
        Categorical::Time { key, unit, .. } => add(wanted, variable(key, unit.dtype())),
        Categorical::Crossed { parts, .. } => parts.iter().try_for_each(|part| match part {
            CrossInput::Key(key) => add(wanted, variable(key, DType::Bytes)),
            CrossInput::Column(column) => categorical(column, wanted),
        }),
        Categorical::Weighted { column, weight_key, dtype } => {
            categorical(column, wanted)?;
            add(wanted, variable(weight_key, *dtype))
        }
        Categorical::Sequence(column) => categorical(column, wanted),
    }
}

fn add(wanted: &mut Vec<Wanted>, feature: Wanted) -> Result<()> {
    match wanted.iter().find(|known| known.key == feature.key) {
        None => wanted.push(feature),
        Some(known) if known.is(&feature) => {}
        Some(known) => {
            let what = format!("two columns read the feature {:?} in two forms", feature.key);
            return Err(Error::new(Code::BadSetting, what)
                .because(format!("one reads {known}, another {feature}"))
                .help("give both columns the same type, shape, default and missing indicator, or write the feature under two keys"));
        }
    }
    Ok(())
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.fixed {
            None => write!(f, "any number of {} values", self.kind),
            Some((length, None)) => write!(f, "{length} {} values", self.kind),
            Some((length, Some(default))) if default.iter().all(|value| value.is_nan()) => {
                write!(f, "{length} {} values, missing ones marked", self.kind)
            }
            Some((length, Some(default))) => write!(f, "{length} {} values, by default {default:?}", self.kind),
        }
    }
}
