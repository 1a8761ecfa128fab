//! The settings of columns.

use crate::schema::{INITIALIZERS, NORMALIZER};
use crate::section::Section;
use crate::tree::{Node, TomlValue};
use phalanx_base::Result;
use phalanx_data::DType;
use phalanx_feature::{Combiner, DefaultValue, EmbeddingInitializer, FeatureColumn, VocabularyToken};

pub(super) fn sorted(mut numbers: Vec<f64>) -> Vec<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    numbers
}

pub(super) fn buckets(own: &Section<'_>) -> Result<usize> {
    Ok(own.need_count("num_buckets", 1)?.value as usize)
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
    column = set!(column, default_value: default);
    let Some(node) = own.node("normalizer") else { return Ok(column) };
    let settings = Section::open(own.source, "`normalizer`", NORMALIZER, node)?;
    let subtract = settings.number("subtract")?.map_or(0.0, |number| number.value) as f32;
    let divide = settings.number("divide")?.map_or(1.0, |number| number.value) as f32;
    if divide == 0.0 || !divide.is_finite() {
        let what = format!("numbers cannot be divided by {divide}");
        return Err(settings.wrong(&settings.span_of("divide"), what, "no number to divide by").help("give another"));
    }
    settings.close();
    // Subtracting 0 would add a rounding step.
    Ok(match subtract == 0.0 {
        true => column.normalizer_fn(move |x| x / divide),
        false => column.normalizer_fn(move |x| (x - subtract) / divide),
    })
}

pub(super) fn with_dtype(own: &Section<'_>, column: FeatureColumn) -> Result<FeatureColumn> {
    let words = [("float32", DType::F32), ("int64", DType::I64), ("string", DType::Bytes)];
    Ok(set!(column, dtype: own.choice("dtype", &words)?.map(|dtype| dtype.value)))
}

pub(super) fn with_default(own: &Section<'_>, column: FeatureColumn) -> Result<FeatureColumn> {
    Ok(set!(column, default_value: own.integer("default_value")?.map(|id| id.value)))
}

pub(super) fn with_unknown(own: &Section<'_>, column: FeatureColumn) -> Result<FeatureColumn> {
    let column = with_default(own, column)?;
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
