"""TensorFlow's names, for scripts of `tf.estimator` whose import line is all that changes.

>>> from phalanx.compat import tf
>>> tf.feature_column.numeric_column("age")
numeric_column("age")
>>> tf.Session
Traceback (most recent call last):
    ...
AttributeError: Phalanx has no tf.Session: docs/if-you-know-tensorflow.md has TensorFlow's names, and why some are missing

No graphs are emulated: what these names make is computed by Phalanx.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, cast

from phalanx import _phalanx, data, distribute, estimator, feature_column, keras, metrics

__all__ = ["tf"]

PAGE = "docs/if-you-know-tensorflow.md"


class Namespace:
    """A module of TensorFlow: the names of it that exist here."""

    def __init__(self, path: str, names: Mapping[str, Any]) -> None:
        self._path = path
        for name, value in names.items():
            inner = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None
            self.__dict__[name] = value if inner is None else Namespace(f"{path}.{name}", inner)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"Phalanx has no {self._path}.{name}: {PAGE} has TensorFlow's names, and why some are missing")

    def __dir__(self) -> list[str]:
        return [name for name in self.__dict__ if not name.startswith("_")]

    def __repr__(self) -> str:
        return f"<{self._path} of phalanx.compat>"


def gradient_descent(learning_rate: float, use_locking: bool = False, name: str = "GradientDescent") -> _phalanx.Optimizer:
    """`tf.train.GradientDescentOptimizer`."""
    return _phalanx.SGD(learning_rate)


def momentum(
    learning_rate: float,
    momentum: float,
    use_locking: bool = False,
    name: str = "Momentum",
    use_nesterov: bool = False,
) -> _phalanx.Optimizer:
    """`tf.train.MomentumOptimizer`."""
    return _phalanx.Momentum(learning_rate, momentum, use_nesterov)


def adagrad(
    learning_rate: float,
    initial_accumulator_value: float = 0.1,
    use_locking: bool = False,
    name: str = "Adagrad",
) -> _phalanx.Optimizer:
    """`tf.train.AdagradOptimizer`: without an epsilon, as in version 1."""
    return _phalanx.Adagrad(learning_rate, initial_accumulator_value, 0.0)


def adam(
    learning_rate: float = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
    use_locking: bool = False,
    name: str = "Adam",
) -> _phalanx.Optimizer:
    """`tf.train.AdamOptimizer`. On tables only rows with a gradient change, as in `LazyAdam`."""
    return _phalanx.Adam(learning_rate, beta1, beta2, epsilon)


def rmsprop(
    learning_rate: float,
    decay: float = 0.9,
    momentum: float = 0.0,
    epsilon: float = 1e-10,
    use_locking: bool = False,
    centered: bool = False,
    name: str = "RMSProp",
) -> _phalanx.Optimizer:
    """`tf.train.RMSPropOptimizer`."""
    return _phalanx.RMSprop(learning_rate, decay, momentum, epsilon, centered)


def ftrl(
    learning_rate: float,
    learning_rate_power: float = -0.5,
    initial_accumulator_value: float = 0.1,
    l1_regularization_strength: float = 0.0,
    l2_regularization_strength: float = 0.0,
    use_locking: bool = False,
    name: str = "Ftrl",
) -> _phalanx.Optimizer:
    """`tf.train.FtrlOptimizer`."""
    return _phalanx.Ftrl(
        learning_rate,
        learning_rate_power,
        initial_accumulator_value,
        l1_regularization_strength,
        l2_regularization_strength,
    )


def make_csv_dataset(
    file_pattern: data.Files,
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[str] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
) -> data.Dataset:
    """`tf.data.experimental.make_csv_dataset`. Defaults need names of columns, and select columns by name."""
    names = select_columns if select_columns is not None else column_names
    rows = data.csv(
        file_pattern,
        names=column_names,
        header=header,
        label=label_name,
        select=select_columns,
        defaults=None if column_defaults is None else dict(zip(names or (), column_defaults, strict=True)),
        delimiter=field_delim,
        quotes=use_quote_delim,
        na_values=[na_value] if na_value else (),
    )
    if shuffle:
        rows = rows.shuffle(shuffle_buffer_size, shuffle_seed)
    return rows.repeat(num_epochs).batch(batch_size)


def tfrecord_dataset(filenames: data.Files) -> data.Dataset:
    """`tf.data.TFRecordDataset`: the records are in the column `record`; `phalanx.data.tfrecord` parses them."""
    return data.tfrecord(filenames)


def text_line_dataset(filenames: data.Files | PathLike[str]) -> data.Dataset:
    """`tf.data.TextLineDataset`: the lines are in the column `line`."""
    return data.text_lines(filenames)


def parameter_server_strategy(
    cluster_resolver: distribute.TFConfigClusterResolver | None = None,
    variable_partitioner: distribute.Partitioner | None = None,
    **settings: Any,
) -> Any:
    """`tf.distribute.ParameterServerStrategy`: of `phalanx.torch`, with a coordinator, or for models of `phalanx.keras`."""
    from phalanx import torch

    return torch.ParameterServerStrategy(cluster_resolver, variable_partitioner, **settings)


def mirrored_strategy(devices: list[str] | None = None) -> distribute.Strategy:
    """`tf.distribute.MirroredStrategy`: of `phalanx.torch` in a program that uses torch, which adds `run`."""
    if "torch" not in sys.modules:
        return distribute.MirroredStrategy(devices)
    from phalanx import torch

    return torch.MirroredStrategy(devices)


def cluster_coordinator(strategy: Any) -> Any:
    """`tf.distribute.coordinator.ClusterCoordinator`, whose steps compute with torch."""
    from phalanx import torch

    return torch.ClusterCoordinator(strategy)


def sidecar_evaluator(model: Any, evaluate: Any, checkpoint_dir: Any = None, max_evaluations: int | None = None) -> Any:
    """`tf.keras.utils.SidecarEvaluator` of a torch module: `evaluate` is a function of the step, instead of data."""
    from phalanx import torch

    return torch.SidecarEvaluator(model, evaluate, checkpoint_dir, max_evaluations=max_evaluations)


def _all(module: Any, names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names.split()}


tf: Any = Namespace(
    "tf",
    {
        "train": {
            "ClusterSpec": _phalanx.ClusterSpec,
            "GradientDescentOptimizer": gradient_descent,
            "MomentumOptimizer": momentum,
            "AdagradOptimizer": adagrad,
            "AdamOptimizer": adam,
            "RMSPropOptimizer": rmsprop,
            "FtrlOptimizer": ftrl,
            **_all(estimator, "SessionRunHook SessionRunContext SessionRunValues"),
        },
        "estimator": {
            **_all(
                estimator,
                "train_and_evaluate RunConfig TrainSpec EvalSpec LinearClassifier LinearRegressor DNNClassifier DNNRegressor"
                " DNNLinearCombinedClassifier DNNLinearCombinedRegressor BaselineClassifier BaselineRegressor Exporter"
                " FinalExporter LatestExporter BestExporter WarmStartSettings SessionRunHook SessionRunContext SessionRunValues",
            ),
            "experimental": _all(estimator, "make_early_stopping_hook stop_if_no_decrease_hook stop_if_no_increase_hook"),
            "export": _all(
                estimator,
                "ServingInputReceiver build_parsing_serving_input_receiver_fn build_raw_serving_input_receiver_fn",
            ),
            "inputs": _all(estimator, "numpy_input_fn pandas_input_fn"),
        },
        "feature_column": _all(
            feature_column,
            "numeric_column bucketized_column categorical_column_with_identity categorical_column_with_hash_bucket"
            " categorical_column_with_vocabulary_list categorical_column_with_vocabulary_file crossed_column"
            " weighted_categorical_column indicator_column embedding_column shared_embeddings make_parse_example_spec"
            " sequence_numeric_column sequence_categorical_column_with_identity sequence_categorical_column_with_hash_bucket"
            " sequence_categorical_column_with_vocabulary_list sequence_categorical_column_with_vocabulary_file",
        ),
        "data": {
            **_all(data, "Dataset AUTOTUNE"),
            "TFRecordDataset": tfrecord_dataset,
            "TextLineDataset": text_line_dataset,
            "experimental": {"AUTOTUNE": data.AUTOTUNE, "make_csv_dataset": make_csv_dataset},
        },
        "distribute": {
            **_all(distribute, "MultiWorkerMirroredStrategy OneDeviceStrategy ReduceOp Strategy"),
            "InputContext": data.InputContext,
            "MirroredStrategy": mirrored_strategy,
            "ParameterServerStrategy": parameter_server_strategy,
            "cluster_resolver": _all(distribute, "TFConfigClusterResolver"),
            "coordinator": {"ClusterCoordinator": cluster_coordinator},
            "experimental": {
                **_all(distribute, "CentralStorageStrategy MultiWorkerMirroredStrategy"),
                "ParameterServerStrategy": parameter_server_strategy,
                "coordinator": {"ClusterCoordinator": cluster_coordinator},
                "partitioners": _all(distribute, "FixedShardsPartitioner MinSizePartitioner MaxSizePartitioner"),
            },
        },
        "keras": {
            **_all(keras, "Input Model Sequential"),
            "callbacks": _all(
                keras,
                "BackupAndRestore EarlyStopping History LambdaCallback LearningRateScheduler ModelCheckpoint TensorBoard",
            ),
            "layers": _all(keras.layers, " ".join(name for name in keras.layers.__all__ if name not in ("Layer", "Symbol"))),
            "metrics": _all(metrics, " ".join(name for name in metrics.__all__ if name != "Metric")),
            "optimizers": _all(_phalanx, "SGD Adagrad Adam AdamW Ftrl RMSprop"),
            "utils": {"SidecarEvaluator": sidecar_evaluator},
        },
        "nn": {name: name for name in ("relu", "elu", "selu", "gelu", "sigmoid", "tanh", "softmax", "softplus", "swish")},
        "float32": "float32",
        "int64": "int64",
        "string": "string",
    },
)
"""The names of docs/if-you-know-tensorflow.md that exist in Python. Any other attribute raises an `AttributeError`."""
