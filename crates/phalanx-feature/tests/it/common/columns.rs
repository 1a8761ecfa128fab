//! Feature columns of the fixtures.

use super::{float, integers, texts};
use phalanx_data::DType;
use phalanx_feature::*;
use serde_json::Value;

/// Builds a column; vocabulary files are written to `folder`.
pub fn column_of(spec: &Value, folder: &std::path::Path) -> FeatureColumn {
    let key = || spec["key"].as_str().unwrap().to_owned();
    let size = |name: &str| spec[name].as_u64().unwrap() as usize;
    let inner = || column_of(&spec["categorical_column"], folder);
    let name = spec["fn"].as_str().unwrap();
    let column = match name {
        "numeric_column" => numeric_column(key()),
        "sequence_numeric_column" => sequence_numeric_column(key()),
        "bucketized_column" => {
            let boundaries = spec["boundaries"].as_array().unwrap().iter().map(|b| b.as_f64().unwrap());
            bucketized_column(column_of(&spec["source_column"], folder), boundaries)
        }
        "categorical_column_with_identity" => categorical_column_with_identity(key(), size("num_buckets")),
        "sequence_categorical_column_with_identity" => {
            sequence_categorical_column_with_identity(key(), size("num_buckets"))
        }
        "categorical_column_with_hash_bucket" => categorical_column_with_hash_bucket(key(), size("hash_bucket_size")),
        "sequence_categorical_column_with_hash_bucket" => {
            sequence_categorical_column_with_hash_bucket(key(), size("hash_bucket_size"))
        }
        "categorical_column_with_vocabulary_list" => {
            categorical_column_with_vocabulary_list(key(), tokens(&spec["vocabulary_list"]))
        }
        "sequence_categorical_column_with_vocabulary_list" => {
            sequence_categorical_column_with_vocabulary_list(key(), tokens(&spec["vocabulary_list"]))
        }
        "categorical_column_with_vocabulary_file" => {
            let path = folder.join("vocabulary.txt");
            std::fs::write(&path, spec["text"].as_str().unwrap()).unwrap();
            categorical_column_with_vocabulary_file(key(), path)
        }
        "crossed_column" => {
            let keys = spec["keys"].as_array().unwrap().iter().map(|key| match key.as_str() {
                Some(key) => CrossKey::from(key),
                None => CrossKey::from(column_of(key, folder)),
            });
            crossed_column(keys, size("hash_bucket_size"))
        }
        "weighted_categorical_column" => {
            weighted_categorical_column(inner(), spec["weight_feature_key"].as_str().unwrap())
        }
        "indicator_column" => indicator_column(inner()),
        "embedding_column" => embedding_column(inner(), size("dimension")),
        other => panic!("no function {other}"),
    };
    with_settings(column, spec)
}

fn tokens(list: &Value) -> Vec<VocabularyToken> {
    match list.as_array().unwrap().first() {
        Some(first) if first.is_i64() => integers(list).into_iter().map(Into::into).collect(),
        _ => texts(list).into_iter().map(Into::into).collect(),
    }
}

fn with_settings(mut column: FeatureColumn, spec: &Value) -> FeatureColumn {
    for (name, value) in spec.as_object().unwrap() {
        let size = || value.as_u64().unwrap() as usize;
        column = match name.as_str() {
            "shape" => column.shape(integers(value).iter().map(|&d| d as usize).collect::<Vec<_>>()),
            "dtype" => column.dtype(if value == "int64" { DType::I64 } else { DType::F32 }),
            "default_value" => match value {
                Value::Array(values) => {
                    column.default_value(values.iter().map(|v| v.as_f64().unwrap()).collect::<Vec<f64>>())
                }
                number if number.is_i64() => column.default_value(number.as_i64().unwrap()),
                number => column.default_value(number.as_f64().unwrap()),
            },
            "scale" => {
                let scale = float(value);
                column.normalizer_fn(move |x| (x - 1.0) * scale)
            }
            "num_oov_buckets" => column.num_oov_buckets(size()),
            "vocabulary_size" => column.vocabulary_size(size()),
            "hash_key" => column.hash_key(value.as_u64().unwrap()),
            "combiner" => column.combiner(combiner(value)),
            _ => column,
        };
    }
    column
}

pub fn combiner(value: &Value) -> Combiner {
    [Combiner::Mean, Combiner::Sum, Combiner::Sqrtn].into_iter().find(|c| value == c.name()).unwrap()
}

/// The fixtures' embedding table: row i, element j is (7 i + 3 j) mod 11 - 5.
pub fn element(row: i64, j: usize) -> f32 {
    ((7 * row + 3 * j as i64) % 11 - 5) as f32
}

/// TensorFlow's input layer: concatenated dense columns and combined embeddings, one row per cell.
pub fn input_layer(plan: &Transform, features: &Features) -> Vec<f32> {
    let cells = features.rows * features.steps;
    let mut layer = vec![0.0; cells * plan.input_width()];
    for column in plan.columns() {
        for cell in 0..cells {
            let out = &mut layer[cell * plan.input_width()..][column.input.clone()];
            match &column.slot {
                Slot::Dense { start, width } => {
                    out.copy_from_slice(&features.dense[cell * plan.dense_width() + start..][..*width]);
                }
                Slot::Table { index, combiner, .. } => combine(&features.sparse[*index], cell, *combiner, out),
                Slot::Ids { .. } => panic!("a linear slot"),
            }
        }
    }
    layer
}

fn combine(ids: &SparseIds, row: usize, combiner: Combiner, out: &mut [f32]) {
    let range = ids.splits[row]..ids.splits[row + 1];
    let weight = |index: usize| ids.weights.as_ref().map_or(1.0, |weights| weights[index]);
    let total = match combiner {
        Combiner::Sum => 1.0,
        Combiner::Mean => range.clone().map(weight).sum::<f32>(),
        Combiner::Sqrtn => range.clone().map(|index| weight(index).powi(2)).sum::<f32>().sqrt(),
    };
    for (j, out) in out.iter_mut().enumerate() {
        *out = range.clone().map(|index| weight(index) * element(ids.ids[index], j)).sum::<f32>();
        if !range.is_empty() {
            *out /= total;
        }
    }
}
