//! The settings of columns.

use crate::schema::{FUNCTION, INITIALIZERS, NORMALIZER};
use crate::section::Section;
use crate::tree::{Node, TomlValue};
use phalanx_base::Result;
use phalanx_data::DType;
use phalanx_feature::{
    Combiner, DefaultValue, EmbeddingInitializer, FeatureColumn, TimePart, TimeUnit, UNBOUNDED, VocabularyToken,
};

pub(super) fn sorted(mut numbers: Vec<f64>) -> Vec<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    numbers
}

pub(super) fn buckets(own: &Section<'_>) -> Result<usize> {
    match own.node("num_buckets") {
        None => Err(own.missing("num_buckets")),
        Some(Node { value: TomlValue::Text(word), .. }) if word == "unbounded" => Ok(UNBOUNDED),
        Some(node) => match node.value {
            TomlValue::Integer(_) => Ok(own.as_count("num_buckets", node, 1)?.value as usize),
            _ => Err(own.not("num_buckets", node, "an integer, or \"unbounded\"")),
        },
    }
}

pub(super) fn hash_size(own: &Section<'_>) -> Result<usize> {
    Ok(own.need_count("hash_bucket_size", 1)?.value as usize)
}

pub(super) fn numeric(own: &Section<'_>, mut column: FeatureColumn) -> Result<FeatureColumn> {
    column = with_dtype(own, set!(column, shape: own.counts("shape", 1)?.map(|shape| shape.value)))?;
    let default = match own.node("default_value") {
        Some(Node { value: TomlValue::List(_), .. }) => own
            .numbers("default_value")?
            .map(|list| DefaultValue::from(list.value.iter().map(|number| number.value).collect::<Vec<f64>>())),
        _ => own.number("default_value")?.map(|number| DefaultValue::from(number.value)),
    };
    column = functions(own, set!(column, default_value: default))?;
    if own.may_have("missing_indicator") {
        column = indicated(own, column)?;
    }
    let Some(node) = own.node("normalizer") else { return Ok(column) };
    let settings = Section::open(own.source, "`normalizer`", NORMALIZER, node)?;
    let subtract = settings.number("subtract")?.map_or(0.0, |number| number.value) as f32;
    let divide = settings.number("divide")?.map_or(1.0, |number| number.value) as f32;
    if divide == 0.0 || !divide.is_finite() {
        let what = format!("numbers cannot be divided by {divide}");
        return Err(settings.wrong(&settings.span_of("divide"), what, "no number to divide by").help("give another"));
    }
    settings.close();
    Ok(column.scale(subtract, divide))
}

/// What only numeric columns without a time axis have: an indicator, and parts of timestamps.
fn indicated(own: &Section<'_>, mut column: FeatureColumn) -> Result<FeatureColumn> {
    if own.node("part").is_some() {
        if own.node("dtype").is_some() {
            let what = "a numeric column has a `dtype` or a `part`, not both";
            let error = own.wrong(&own.span_of("dtype"), what, "together with `part`");
            return Err(error.help("leave `dtype` out: `unit` gives the type of timestamps"));
        }
        let (part, unit) = timestamp(own)?;
        column = column.time_part(part, unit);
    } else if own.node("unit").is_some() {
        let error = own.wrong(&own.span_of("unit"), "`unit` is the unit of timestamps", "without `part`");
        return Err(error.help("add `part`, such as part = \"hour\", or leave `unit` out"));
    }
    let is_indicated = own.boolean("missing_indicator")?.unwrap_or(false);
    Ok(if is_indicated { column.missing_indicator() } else { column })
}

fn functions(own: &Section<'_>, mut column: FeatureColumn) -> Result<FeatureColumn> {
    let Some(list) = own.list("functions")? else { return Ok(column) };
    for node in list.value {
        column = match &node.value {
            TomlValue::Text(word) => match word.as_str() {
                "log1p" => column.log1p(),
                "sqrt" => column.sqrt(),
                "standardize" => column.standardize(),
                _ => {
                    let word = own.as_text("functions", node)?;
                    return Err(own.no_such("functions", &word, vec!["log1p", "sqrt", "standardize", "clip"]));
                }
            },
            TomlValue::Table(_) => {
                let function = Section::open(own.source, "an item of `functions`", FUNCTION, node)?;
                let bounds = function.numbers("clip")?.ok_or_else(|| function.missing("clip"))?;
                let [min, max] = bounds.value.as_slice() else {
                    let what = format!("`clip` has {} numbers", bounds.value.len());
                    return Err(function
                        .wrong(&function.span_of("clip"), what, "not two")
                        .help("write clip = [0, 100]"));
                };
                if min.value > max.value || min.value.is_nan() || max.value.is_nan() {
                    let what = format!("`clip` has the bounds {} and {}", min.value, max.value);
                    let error = function.wrong(&function.span_of("clip"), what, "the first is not the smaller");
                    return Err(error.help("write the smaller bound first"));
                }
                let column = column.clip(min.value as f32, max.value as f32);
                function.close();
                column
            }
            _ => return Err(own.not("functions", node, "a word such as \"log1p\", or { clip = [0, 100] }")),
        };
    }
    Ok(column)
}

/// The part and the unit of a timestamp.
pub(super) fn timestamp(own: &Section<'_>) -> Result<(TimePart, TimeUnit)> {
    let part = own.choice("part", &TimePart::ALL)?.ok_or_else(|| own.missing("part"))?;
    let units = [
        ("seconds", TimeUnit::Seconds),
        ("millis", TimeUnit::Millis),
        ("micros", TimeUnit::Micros),
        ("iso", TimeUnit::Iso),
    ];
    Ok((part.value, own.choice("unit", &units)?.map_or(TimeUnit::Seconds, |unit| unit.value)))
}

/// The delimiter of several values in one text.
pub(super) fn with_split(own: &Section<'_>, column: FeatureColumn) -> Result<FeatureColumn> {
    let Some(delimiter) = own.text("split")? else { return Ok(column) };
    if delimiter.value.is_empty() {
        let error = own.wrong(&own.span_of("split"), "the delimiter of `split` is empty", "empty");
        return Err(error.help("give the text between two values, such as \"|\""));
    }
    Ok(column.split(delimiter.value))
}

pub(super) fn with_dtype(own: &Section<'_>, column: FeatureColumn) -> Result<FeatureColumn> {
    let words = [("float32", DType::F32), ("int64", DType::I64), ("string", DType::Bytes)];
    Ok(set!(column, dtype: own.choice("dtype", &words)?.map(|dtype| dtype.value)))
}

pub(super) fn identity(own: &Section<'_>, column: FeatureColumn) -> Result<FeatureColumn> {
    with_split(own, with_default(own, column)?)
}

fn with_default(own: &Section<'_>, column: FeatureColumn) -> Result<FeatureColumn> {
    Ok(set!(column, default_value: own.integer("default_value")?.map(|id| id.value)))
}

pub(super) fn with_unknown(own: &Section<'_>, column: FeatureColumn) -> Result<FeatureColumn> {
    let column = with_split(own, with_default(own, column)?)?;
    Ok(set!(column, num_oov_buckets: own.plain_count("num_oov_buckets", 0)?.map(|buckets| buckets as usize)))
}

pub(super) fn filed(own: &Section<'_>, column: FeatureColumn) -> Result<FeatureColumn> {
    let column = with_unknown(own, with_dtype(own, column)?)?;
    Ok(set!(column, vocabulary_size: own.plain_count("vocabulary_size", 1)?.map(|size| size as usize)))
}

pub(super) fn tokens(own: &Section<'_>) -> Result<Vec<VocabularyToken>> {
    let list = own.list("vocabulary_list")?.ok_or_else(|| own.missing("vocabulary_list"))?;
    let token = |node: &Node| match &node.value {
        TomlValue::Text(text) => Ok(text.as_str().into()),
        TomlValue::Integer(number) => Ok((*number).into()),
        _ => Err(own.not("vocabulary_list", node, "a text or an integer")),
    };
    list.value.iter().map(token).collect()
}

pub(super) fn embedded(own: &Section<'_>, column: FeatureColumn) -> Result<FeatureColumn> {
    let words = [("mean", Combiner::Mean), ("sum", Combiner::Sum), ("sqrtn", Combiner::Sqrtn)];
    let column = set!(
        column,
        combiner: own.choice("combiner", &words)?.map(|combiner| combiner.value),
        max_norm: own.number("max_norm")?.map(|norm| norm.value as f32),
        trainable: own.boolean("trainable")?,
    );
    let Some(node) = own.node("initializer") else { return Ok(column) };
    let (kind, settings) = Section::of_kind(own.source, "`initializer`", "kind", INITIALIZERS, node)?;
    settings.node("kind");
    let number = |key, default: f32| settings.number(key).map(|found| found.map_or(default, |at| at.value as f32));
    let initializer = match kind {
        "truncated_normal" => {
            EmbeddingInitializer::TruncatedNormal { mean: number("mean", 0.0)?, stddev: number("stddev", 0.05)? }
        }
        "random_normal" => {
            EmbeddingInitializer::RandomNormal { mean: number("mean", 0.0)?, stddev: number("stddev", 0.05)? }
        }
        "random_uniform" => {
            EmbeddingInitializer::RandomUniform { min: number("min", -0.05)?, max: number("max", 0.05)? }
        }
        "glorot_uniform" => EmbeddingInitializer::GlorotUniform,
        _ => EmbeddingInitializer::Constant(number("value", 0.0)?),
    };
    settings.close();
    Ok(column.initializer(initializer))
}
