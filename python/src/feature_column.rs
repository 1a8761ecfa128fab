//! `phalanx.feature_column`: the columns of `tf.feature_column`.

use crate::data_sources::{dtype, no_such};
use crate::error::Raise;
use phalanx::data::FeatureKind;
use phalanx::feature_column::{
    self as columns, Combiner, CrossKey, EmbeddingInitializer, FeatureColumn, VocabularyToken,
};
use phalanx_base::Result;
use pyo3::prelude::*;

/// A feature column: the inputs it reads and the features it computes. Made by the functions of `phalanx.feature_column`.
#[pyclass(frozen, module = "phalanx._phalanx", name = "FeatureColumn", from_py_object)]
#[derive(Clone)]
pub(crate) struct PyFeatureColumn(pub(crate) FeatureColumn);

/// A function of a numeric column: its name, and two numbers if it has some.
type Function = (String, f32, f32);

/// The initial values of an embedding: the name of a distribution and its two numbers.
type Initializer = (String, f32, f32);

#[derive(FromPyObject)]
enum Token {
    Integer(i64),
    Text(String),
}

#[derive(FromPyObject)]
enum Key {
    Column(PyFeatureColumn),
    Text(String),
}

/// What any categorical column of ids can be told.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Ids {
    default_value: Option<i64>,
    num_oov_buckets: usize,
    split: Option<String>,
    dtype: Option<String>,
}

/// The vectors of an embedding column.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Embedding {
    dimension: usize,
    combiner: String,
    initializer: Option<Initializer>,
    max_norm: Option<f32>,
    trainable: bool,
    shared: bool,
    name: Option<String>,
}

impl Ids {
    fn apply(self, mut column: FeatureColumn) -> Result<FeatureColumn> {
        if let Some(wanted) = self.dtype {
            column = column.dtype(dtype(&wanted)?);
        }
        if let Some(id) = self.default_value.filter(|&id| id != -1) {
            column = column.default_value(id);
        }
        if self.num_oov_buckets > 0 {
            column = column.num_oov_buckets(self.num_oov_buckets);
        }
        Ok(match self.split {
            Some(delimiter) => column.split(delimiter),
            None => column,
        })
    }
}

#[pymethods]
impl PyFeatureColumn {
    #[staticmethod]
    #[pyo3(signature = (key, shape, default_value, dtype_name, functions, sequence))]
    fn numeric(
        py: Python<'_>,
        key: String,
        shape: Vec<usize>,
        default_value: Option<Vec<f64>>,
        dtype_name: &str,
        functions: Vec<Function>,
        sequence: bool,
    ) -> PyResult<Self> {
        let column = if sequence { columns::sequence_numeric_column(key) } else { columns::numeric_column(key) };
        let mut column = column.shape(shape).dtype(dtype(dtype_name).or_raise(py)?);
        if let Some(value) = default_value {
            column = column.default_value(value);
        }
        for (name, first, second) in functions {
            column = apply(column, &name, first, second).or_raise(py)?;
        }
        Ok(Self(column))
    }

    #[staticmethod]
    fn bucketized(source: Self, boundaries: Vec<f64>) -> Self {
        Self(columns::bucketized_column(source.0, boundaries))
    }

    #[staticmethod]
    fn identity(py: Python<'_>, key: String, num_buckets: usize, ids: Ids, sequence: bool) -> PyResult<Self> {
        let column = if sequence {
            columns::sequence_categorical_column_with_identity(key, num_buckets)
        } else {
            columns::categorical_column_with_identity(key, num_buckets)
        };
        ids.apply(column).or_raise(py).map(Self)
    }

    #[staticmethod]
    fn hash_bucket(py: Python<'_>, key: String, hash_bucket_size: usize, ids: Ids, sequence: bool) -> PyResult<Self> {
        let column = if sequence {
            columns::sequence_categorical_column_with_hash_bucket(key, hash_bucket_size)
        } else {
            columns::categorical_column_with_hash_bucket(key, hash_bucket_size)
        };
        ids.apply(column).or_raise(py).map(Self)
    }

    #[staticmethod]
    fn vocabulary_list(py: Python<'_>, key: String, words: Vec<Token>, ids: Ids, sequence: bool) -> PyResult<Self> {
        let words = words.into_iter().map(|word| match word {
            Token::Integer(integer) => VocabularyToken::from(integer),
            Token::Text(text) => VocabularyToken::from(text.as_str()),
        });
        let column = if sequence {
            columns::sequence_categorical_column_with_vocabulary_list(key, words)
        } else {
            columns::categorical_column_with_vocabulary_list(key, words)
        };
        ids.apply(column).or_raise(py).map(Self)
    }

    #[staticmethod]
    #[pyo3(signature = (key, file, size, ids, sequence))]
    fn vocabulary_file(
        py: Python<'_>,
        key: String,
        file: String,
        size: Option<usize>,
        ids: Ids,
        sequence: bool,
    ) -> PyResult<Self> {
        let column = if sequence {
            columns::sequence_categorical_column_with_vocabulary_file(key, file)
        } else {
            columns::categorical_column_with_vocabulary_file(key, file)
        };
        let column = size.map_or(column.clone(), |size| column.vocabulary_size(size));
        ids.apply(column).or_raise(py).map(Self)
    }

    #[staticmethod]
    #[pyo3(signature = (keys, hash_bucket_size, hash_key))]
    fn crossed(keys: Vec<Key>, hash_bucket_size: usize, hash_key: Option<u64>) -> Self {
        let keys = keys.into_iter().map(|key| match key {
            Key::Column(column) => CrossKey::from(column.0),
            Key::Text(key) => CrossKey::from(key),
        });
        let column = columns::crossed_column(keys, hash_bucket_size);
        Self(hash_key.map_or(column.clone(), |key| column.hash_key(key)))
    }

    #[staticmethod]
    fn weighted(py: Python<'_>, column: Self, weight_feature_key: String, dtype_name: &str) -> PyResult<Self> {
        let column = columns::weighted_categorical_column(column.0, weight_feature_key);
        Ok(Self(column.dtype(dtype(dtype_name).or_raise(py)?)))
    }

    #[staticmethod]
    fn indicator(column: Self) -> Self {
        Self(columns::indicator_column(column.0))
    }

    /// Embedding columns with a table each, or with one that they share.
    #[staticmethod]
    fn embeddings(py: Python<'_>, categorical: Vec<Self>, settings: Embedding) -> PyResult<Vec<Self>> {
        let Embedding { dimension, combiner: of, initializer, max_norm, trainable, shared, name } = settings;
        let categorical = categorical.into_iter().map(|column| column.0);
        let made: Vec<FeatureColumn> = match name {
            _ if !shared => categorical.map(|column| columns::embedding_column(column, dimension)).collect(),
            None => columns::shared_embeddings(categorical, dimension),
            Some(name) => columns::shared_embeddings_named(name, categorical, dimension),
        };
        let combiner = combiner(&of).or_raise(py)?;
        let initializer = initializer.map(|of| initializer_of(&of)).transpose().or_raise(py)?;
        let set = |column: FeatureColumn| {
            let mut column = column.combiner(combiner).trainable(trainable);
            if let Some(initializer) = initializer {
                column = column.initializer(initializer);
            }
            if let Some(norm) = max_norm {
                column = column.max_norm(norm);
            }
            Self(column)
        };
        Ok(made.into_iter().map(set).collect())
    }

    /// The name that TensorFlow gives the column.
    #[getter]
    fn name(&self) -> String {
        self.0.name()
    }

    /// The number of ids of a categorical column.
    #[getter]
    fn num_buckets(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        self.0.num_buckets().or_raise(py)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

fn apply(column: FeatureColumn, function: &str, first: f32, second: f32) -> Result<FeatureColumn> {
    Ok(match function {
        "scale" => column.scale(first, second),
        "clip" => column.clip(first, second),
        "log1p" => column.log1p(),
        "sqrt" => column.sqrt(),
        "standardize" => column.standardize(),
        other => return Err(no_such("a function", other, &["scale", "clip", "log1p", "sqrt", "standardize"])),
    })
}

/// Returns the combiner of this name.
pub(crate) fn combiner(name: &str) -> Result<Combiner> {
    let all = [Combiner::Mean, Combiner::Sum, Combiner::Sqrtn];
    let found = all.into_iter().find(|combiner| combiner.name() == name);
    found.ok_or_else(|| no_such("combiner", name, &all.map(Combiner::name)))
}

fn initializer_of((name, first, second): &Initializer) -> Result<EmbeddingInitializer> {
    let (first, second) = (*first, *second);
    Ok(match name.as_str() {
        "truncated_normal" => EmbeddingInitializer::TruncatedNormal { mean: first, stddev: second },
        "random_normal" => EmbeddingInitializer::RandomNormal { mean: first, stddev: second },
        "random_uniform" => EmbeddingInitializer::RandomUniform { min: first, max: second },
        "glorot_uniform" => EmbeddingInitializer::GlorotUniform,
        "constant" => EmbeddingInitializer::Constant(first),
        other => {
            let known = ["truncated_normal", "random_normal", "random_uniform", "glorot_uniform", "constant"];
            return Err(no_such("an initializer", other, &known));
        }
    })
}

/// The features of Examples that columns read: name, type, and the number of values if it is fixed.
#[pyfunction]
fn parse_example_spec(
    py: Python<'_>,
    feature_columns: Vec<PyFeatureColumn>,
) -> PyResult<Vec<(String, &'static str, Option<usize>)>> {
    let columns: Vec<FeatureColumn> = feature_columns.into_iter().map(|column| column.0).collect();
    let specs = columns::make_parse_example_spec(&columns).or_raise(py)?;
    let described = specs.into_iter().map(|spec| {
        let kind = match spec.kind {
            FeatureKind::F32 => "float32",
            FeatureKind::I64 => "int64",
            FeatureKind::Bytes => "string",
        };
        let length = match spec.layout {
            phalanx::data::FeatureLayout::Fixed(length) => Some(length),
            _ => None,
        };
        (spec.name, kind, length)
    });
    Ok(described.collect())
}

/// Adds the class and the function to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyFeatureColumn>()?;
    module.add_function(wrap_pyfunction!(parse_example_spec, module)?)
}
