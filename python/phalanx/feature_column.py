"""The columns of `tf.feature_column`, with their parameters and defaults. Ids, hashes and names are TensorFlow's to the bit.

>>> from phalanx import feature_column as fc
>>> job = fc.categorical_column_with_hash_bucket("occupation", 1000)
>>> fc.embedding_column(job, dimension=8)
embedding_column("occupation_embedding")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, Literal, TypeAlias, cast

from phalanx import _phalanx
from phalanx._errors import Error
from phalanx._phalanx import FeatureColumn
from phalanx.feature_column_functions import recorded

__all__ = [
    "UNBOUNDED",
    "Constant",
    "FeatureColumn",
    "GlorotUniform",
    "RandomNormal",
    "RandomUniform",
    "TruncatedNormal",
    "bucketized_column",
    "categorical_column_with_hash_bucket",
    "categorical_column_with_identity",
    "categorical_column_with_vocabulary_file",
    "categorical_column_with_vocabulary_list",
    "crossed_column",
    "embedding_column",
    "indicator_column",
    "make_parse_example_spec",
    "numeric_column",
    "sequence_categorical_column_with_hash_bucket",
    "sequence_categorical_column_with_identity",
    "sequence_categorical_column_with_vocabulary_file",
    "sequence_categorical_column_with_vocabulary_list",
    "sequence_numeric_column",
    "shared_embeddings",
    "weighted_categorical_column",
]

UNBOUNDED = 2**63 - 1
"""The number of buckets of ids without a bound: the table grows with the ids that are seen."""

Combiner: TypeAlias = Literal["mean", "sqrtn", "sum"]
DType: TypeAlias = Any
"""`"float32"`, `"int64"`, `"string"`; types of NumPy and of Python too."""


@dataclass(frozen=True)
class TruncatedNormal:
    """Initial values of an embedding from a normal distribution, truncated at two standard deviations."""

    mean: float = 0.0
    stddev: float = 0.05


@dataclass(frozen=True)
class RandomNormal:
    """Initial values of an embedding from a normal distribution."""

    mean: float = 0.0
    stddev: float = 0.05


@dataclass(frozen=True)
class RandomUniform:
    """Initial values of an embedding from a uniform distribution."""

    minval: float = -0.05
    maxval: float = 0.05


@dataclass(frozen=True)
class GlorotUniform:
    """Initial values of an embedding within ±√(6 / (rows + dimension))."""


@dataclass(frozen=True)
class Constant:
    """The same initial value everywhere."""

    value: float = 0.0


Initializer: TypeAlias = TruncatedNormal | RandomNormal | RandomUniform | GlorotUniform | Constant


def numeric_column(
    key: str,
    shape: int | Sequence[int] = (1,),
    default_value: float | Sequence[float] | None = None,
    dtype: DType = "float32",
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> FeatureColumn:
    """Return a column of numbers.

    `normalizer_fn` is computed in Rust and exported with the model: it may add, subtract, multiply and divide by constants, and
    use `numpy.log1p`, `numpy.sqrt`, `numpy.clip`, `numpy.minimum` and `numpy.maximum`. Compute anything else with `Dataset.map`.

    >>> numeric_column("age", normalizer_fn=lambda age: (age - 38.6) / 13.6)
    numeric_column("age")
    """
    functions = [] if normalizer_fn is None else recorded(normalizer_fn)
    return FeatureColumn.numeric(key, _shape(shape), _numbers(default_value), _dtype(dtype), functions, False)


def sequence_numeric_column(
    key: str, shape: int | Sequence[int] = (1,), default_value: float = 0.0, dtype: DType = "float32"
) -> FeatureColumn:
    """Return a column of numbers with a time axis."""
    return FeatureColumn.numeric(key, _shape(shape), [default_value], _dtype(dtype), [], True)


def bucketized_column(source_column: FeatureColumn, boundaries: Sequence[float]) -> FeatureColumn:
    """Return a numeric column by bucket. A bucket includes its lower bound.

    >>> bucketized_column(numeric_column("age"), [18, 65]).name
    'age_bucketized'
    """
    return FeatureColumn.bucketized(source_column, list(boundaries))


def categorical_column_with_identity(key: str, num_buckets: int, default_value: int | None = None) -> FeatureColumn:
    """Return a column of integers that are ids below `num_buckets`, which may be `UNBOUNDED`."""
    return FeatureColumn.identity(key, num_buckets, _ids(default_value), False)


def categorical_column_with_hash_bucket(key: str, hash_bucket_size: int, dtype: DType = "string") -> FeatureColumn:
    """Return a column of texts or integers by hash bucket."""
    return FeatureColumn.hash_bucket(key, hash_bucket_size, _ids(dtype=dtype), False)


def categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Sequence[str] | Sequence[int],
    dtype: DType | None = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> FeatureColumn:
    """Return a column of texts or integers by their index in a list."""
    ids = _ids(default_value, num_oov_buckets, dtype)
    return FeatureColumn.vocabulary_list(key, list(vocabulary_list), ids, False)


def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str | PathLike[str],
    vocabulary_size: int | None = None,
    dtype: DType = "string",
    default_value: int | None = None,
    num_oov_buckets: int = 0,
) -> FeatureColumn:
    """Return a column of texts or integers by their line in a file."""
    ids = _ids(default_value, num_oov_buckets, dtype)
    return FeatureColumn.vocabulary_file(key, fspath(vocabulary_file), vocabulary_size, ids, False)


def sequence_categorical_column_with_identity(key: str, num_buckets: int, default_value: int | None = None) -> FeatureColumn:
    """Return `categorical_column_with_identity` with a time axis."""
    return FeatureColumn.identity(key, num_buckets, _ids(default_value), True)


def sequence_categorical_column_with_hash_bucket(key: str, hash_bucket_size: int, dtype: DType = "string") -> FeatureColumn:
    """Return `categorical_column_with_hash_bucket` with a time axis."""
    return FeatureColumn.hash_bucket(key, hash_bucket_size, _ids(dtype=dtype), True)


def sequence_categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Sequence[str] | Sequence[int],
    dtype: DType | None = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> FeatureColumn:
    """Return `categorical_column_with_vocabulary_list` with a time axis."""
    ids = _ids(default_value, num_oov_buckets, dtype)
    return FeatureColumn.vocabulary_list(key, list(vocabulary_list), ids, True)


def sequence_categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str | PathLike[str],
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: DType = "string",
) -> FeatureColumn:
    """Return `categorical_column_with_vocabulary_file` with a time axis."""
    ids = _ids(default_value, num_oov_buckets, dtype)
    return FeatureColumn.vocabulary_file(key, fspath(vocabulary_file), vocabulary_size, ids, True)


def crossed_column(keys: Iterable[str | FeatureColumn], hash_bucket_size: int, hash_key: int | None = None) -> FeatureColumn:
    """Return a column of the combinations of several columns' values, by hash bucket.

    >>> crossed_column(["education", "occupation"], 1000).name
    'education_X_occupation'
    """
    return FeatureColumn.crossed(list(keys), hash_bucket_size, hash_key)


def weighted_categorical_column(
    categorical_column: FeatureColumn, weight_feature_key: str, dtype: DType = "float32"
) -> FeatureColumn:
    """Return a column of ids that are weighted by another feature."""
    return FeatureColumn.weighted(categorical_column, weight_feature_key, _dtype(dtype))


def indicator_column(categorical_column: FeatureColumn) -> FeatureColumn:
    """Return a dense column with the count of each id in a row."""
    return FeatureColumn.indicator(categorical_column)


def embedding_column(
    categorical_column: FeatureColumn,
    dimension: int,
    combiner: Combiner = "mean",
    initializer: Initializer | None = None,
    *,
    max_norm: float | None = None,
    trainable: bool = True,
) -> FeatureColumn:
    """Return a column of trained vectors: rows of a table on the parameter servers.

    By default they begin with a truncated normal distribution of standard deviation 1/√dimension.
    """
    settings = _embedding(dimension, combiner, initializer, max_norm, trainable)
    return FeatureColumn.embeddings([categorical_column], settings)[0]


def shared_embeddings(
    categorical_columns: Iterable[FeatureColumn],
    dimension: int,
    combiner: Combiner = "mean",
    initializer: Initializer | None = None,
    shared_embedding_collection_name: str | None = None,
    *,
    max_norm: float | None = None,
    trainable: bool = True,
) -> list[FeatureColumn]:
    """Return embedding columns that share one table, for features with the same ids."""
    settings = _embedding(dimension, combiner, initializer, max_norm, trainable)
    name = shared_embedding_collection_name
    return FeatureColumn.embeddings(list(categorical_columns), {**settings, "shared": True, "name": name})


def make_parse_example_spec(feature_columns: Iterable[FeatureColumn]) -> dict[str, tuple[str, int | None]]:
    """Return the features that columns read from Examples, as `phalanx.data.tfrecord` takes them.

    >>> make_parse_example_spec([numeric_column("age"), categorical_column_with_identity("job", 9)])
    {'age': ('float32', 1), 'job': ('int64', None)}
    """
    return {name: (kind, length) for name, kind, length in _phalanx.parse_example_spec(list(feature_columns))}


def _embedding(
    dimension: int, combiner: Combiner, initializer: Initializer | None, max_norm: float | None, trainable: bool
) -> dict[str, Any]:
    return {
        "dimension": dimension,
        "combiner": combiner,
        "initializer": _initializer(initializer),
        "max_norm": max_norm,
        "trainable": trainable,
        "shared": False,
        "name": None,
    }


def _shape(shape: int | Sequence[int]) -> list[int]:
    return [shape] if isinstance(shape, int) else list(shape)


def _numbers(value: float | Sequence[float] | None) -> list[float] | None:
    if value is None:
        return None
    return [float(value)] if isinstance(value, (int, float)) else [float(number) for number in value]


def _ids(default_value: int | None = None, num_oov_buckets: int = 0, dtype: DType | None = None) -> dict[str, Any]:
    wanted = None if dtype is None else _dtype(dtype)
    return {"default_value": default_value, "num_oov_buckets": num_oov_buckets, "split": None, "dtype": wanted}


def _dtype(dtype: DType) -> str:
    """Return the name of a type: of NumPy, of Python, or a name.

    >>> import numpy as np
    >>> [_dtype(dtype) for dtype in (np.float64, int, str, "string")]
    ['float32', 'int64', 'string', 'string']
    """
    name = str(getattr(dtype, "__name__", None) or getattr(dtype, "name", None) or dtype)
    for known, names in {
        "float32": ("float", "float32", "float64", "double"),
        "int64": ("int", "int8", "int16", "int32", "int64", "bool"),
        "string": ("str", "bytes", "string", "object"),
    }.items():
        if name in names:
            return known
    raise Error(f"the type of a column is {name!r}", "PX0309", help='give "float32", "int64" or "string"')


def _initializer(initializer: Initializer | None) -> tuple[str, float, float] | None:
    match initializer:
        case None:
            return None
        case TruncatedNormal(mean, stddev):
            return "truncated_normal", mean, stddev
        case RandomNormal(mean, stddev):
            return "random_normal", mean, stddev
        case RandomUniform(minval, maxval):
            return "random_uniform", minval, maxval
        case Constant(value):
            return "constant", value, 0.0
        case GlorotUniform():
            return "glorot_uniform", 0.0, 0.0
        case _:
            raise Error(
                f"an initializer of type {type(cast('object', initializer)).__name__}",
                "PX0309",
                help="choose TruncatedNormal, RandomNormal, RandomUniform, GlorotUniform or Constant of phalanx.feature_column",
            )
