"""The canned models of `tf.estimator`, and click models that TensorFlow's Estimator does not have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, TypeAlias, TypedDict, Unpack

from phalanx import _phalanx
from phalanx._errors import Error
from phalanx.estimator_base import Estimator, WarmStart, settings
from phalanx.estimator_config import RunConfig
from phalanx.estimator_optimizers import OptimizerChoice
from phalanx.estimator_optimizers import optimizer as optimizer_of
from phalanx.feature_column import Combiner, FeatureColumn

Columns: TypeAlias = Iterable[FeatureColumn]
Dir: TypeAlias = str | PathLike[str] | None
Activation: TypeAlias = str | Callable[..., Any] | None
"""A name, such as `"relu"`, or a function of that name."""
Weights: TypeAlias = str | FeatureColumn | None
"""The column of example weights."""

SUM_OVER_BATCH_SIZE = "sum_over_batch_size"
SUM = "sum"


class Extras(TypedDict, total=False):
    """Settings that TensorFlow's canned models do not have."""

    thresholds: Sequence[float]
    """For two classes: also reports accuracy, precision and recall at these probabilities."""
    eval_metrics: Sequence[str]
    """Adds metrics: `gauc`, `calibration`, `normalized_entropy`, `root_mean_squared_error`, …"""
    group_by: str
    """The column whose values are the groups of `gauc`."""
    l2: float
    """Adds `l2 · Σ w²` over the weights of layers and of dense columns to the loss."""
    embedding_l2: float
    """The same for the rows that a batch looks up."""


class CountExtras(Extras, total=False):
    """Those of regressors, too."""

    poisson: bool
    """Whether labels are counts, whose logarithm is predicted: `PoissonRegressionHead`."""


class DenseExtras(Extras, total=False):
    """Those of models with hidden layers, too."""

    precision: str
    """`float32`, or `bfloat16` for the matrix products of hidden layers."""


class DenseCountExtras(DenseExtras, CountExtras, total=False):
    """Those of regressors with hidden layers."""


class LinearClassifier(Estimator):
    """A weight for every number and every id: `tf.estimator.LinearClassifier`.

    >>> from phalanx import feature_column as fc
    >>> model = LinearClassifier([fc.numeric_column("age")], label_vocabulary=["<=50K", ">50K"])
    """

    def __init__(
        self,
        feature_columns: Columns,
        model_dir: Dir = None,
        n_classes: int = 2,
        weight_column: Weights = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: OptimizerChoice | None = "Ftrl",
        config: RunConfig | None = None,
        warm_start_from: WarmStart | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        sparse_combiner: Combiner = "sum",
        **extras: Unpack[Extras],
    ) -> None:
        columns = list(feature_columns)
        given = settings(
            n_classes=n_classes,
            weight_column=weight_column,
            label_vocabulary=_words(label_vocabulary),
            optimizer=_linear_optimizer(optimizer, columns),
            loss_reduction=loss_reduction,
            sparse_combiner=sparse_combiner,
            **extras,
        )
        super().__init__(_phalanx.Model("LinearClassifier", columns, [], given), model_dir, config, warm_start_from)


class LinearRegressor(Estimator):
    """A weight for every number and every id: `tf.estimator.LinearRegressor`."""

    def __init__(
        self,
        feature_columns: Columns,
        model_dir: Dir = None,
        label_dimension: int = 1,
        weight_column: Weights = None,
        optimizer: OptimizerChoice | None = "Ftrl",
        config: RunConfig | None = None,
        warm_start_from: WarmStart | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        sparse_combiner: Combiner = "sum",
        **extras: Unpack[CountExtras],
    ) -> None:
        columns = list(feature_columns)
        given = settings(
            label_dimension=label_dimension,
            weight_column=weight_column,
            optimizer=_linear_optimizer(optimizer, columns),
            loss_reduction=loss_reduction,
            sparse_combiner=sparse_combiner,
            **extras,
        )
        super().__init__(_phalanx.Model("LinearRegressor", columns, [], given), model_dir, config, warm_start_from)


class DNNClassifier(Estimator):
    """Hidden layers over dense columns and embeddings: `tf.estimator.DNNClassifier`.

    >>> from phalanx import feature_column as fc
    >>> job = fc.embedding_column(fc.categorical_column_with_hash_bucket("occupation", 1000), 8)
    >>> model = DNNClassifier([100, 50], [fc.numeric_column("age"), job])
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Columns,
        model_dir: Dir = None,
        n_classes: int = 2,
        weight_column: Weights = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: OptimizerChoice = "Adagrad",
        activation_fn: Activation = "relu",
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: WarmStart | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        batch_norm: bool = False,
        **extras: Unpack[DenseExtras],
    ) -> None:
        given = settings(
            hidden_units=hidden_units,
            n_classes=n_classes,
            weight_column=weight_column,
            label_vocabulary=_words(label_vocabulary),
            optimizer=optimizer_of(optimizer),
            activation=activation_fn,
            dropout=dropout,
            loss_reduction=loss_reduction,
            batch_norm=batch_norm,
            **extras,
        )
        model = _phalanx.Model("DNNClassifier", [], list(feature_columns), given)
        super().__init__(model, model_dir, config, warm_start_from)


class DNNRegressor(Estimator):
    """Hidden layers over dense columns and embeddings: `tf.estimator.DNNRegressor`."""

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Columns,
        model_dir: Dir = None,
        label_dimension: int = 1,
        weight_column: Weights = None,
        optimizer: OptimizerChoice = "Adagrad",
        activation_fn: Activation = "relu",
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: WarmStart | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        batch_norm: bool = False,
        **extras: Unpack[DenseCountExtras],
    ) -> None:
        given = settings(
            hidden_units=hidden_units,
            label_dimension=label_dimension,
            weight_column=weight_column,
            optimizer=optimizer_of(optimizer),
            activation=activation_fn,
            dropout=dropout,
            loss_reduction=loss_reduction,
            batch_norm=batch_norm,
            **extras,
        )
        model = _phalanx.Model("DNNRegressor", [], list(feature_columns), given)
        super().__init__(model, model_dir, config, warm_start_from)


class DNNLinearCombinedClassifier(Estimator):
    """Wide & deep: `tf.estimator.DNNLinearCombinedClassifier`."""

    def __init__(
        self,
        model_dir: Dir = None,
        linear_feature_columns: Columns | None = None,
        linear_optimizer: OptimizerChoice | None = "Ftrl",
        dnn_feature_columns: Columns | None = None,
        dnn_optimizer: OptimizerChoice = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Activation = "relu",
        dnn_dropout: float | None = None,
        n_classes: int = 2,
        weight_column: Weights = None,
        label_vocabulary: Sequence[str] | None = None,
        config: RunConfig | None = None,
        warm_start_from: WarmStart | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        batch_norm: bool = False,
        linear_sparse_combiner: Combiner = "sum",
        **extras: Unpack[DenseExtras],
    ) -> None:
        linear, deep = list(linear_feature_columns or ()), list(dnn_feature_columns or ())
        given = settings(
            **_combined(linear, linear_optimizer, dnn_optimizer),
            hidden_units=dnn_hidden_units or (),
            activation=dnn_activation_fn,
            dropout=dnn_dropout,
            n_classes=n_classes,
            weight_column=weight_column,
            label_vocabulary=_words(label_vocabulary),
            loss_reduction=loss_reduction,
            batch_norm=batch_norm,
            sparse_combiner=linear_sparse_combiner,
            **extras,
        )
        model = _phalanx.Model("DNNLinearCombinedClassifier", linear, deep, given)
        super().__init__(model, model_dir, config, warm_start_from)


class DNNLinearCombinedRegressor(Estimator):
    """Wide & deep: `tf.estimator.DNNLinearCombinedRegressor`."""

    def __init__(
        self,
        model_dir: Dir = None,
        linear_feature_columns: Columns | None = None,
        linear_optimizer: OptimizerChoice | None = "Ftrl",
        dnn_feature_columns: Columns | None = None,
        dnn_optimizer: OptimizerChoice = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Activation = "relu",
        dnn_dropout: float | None = None,
        label_dimension: int = 1,
        weight_column: Weights = None,
        config: RunConfig | None = None,
        warm_start_from: WarmStart | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        batch_norm: bool = False,
        linear_sparse_combiner: Combiner = "sum",
        **extras: Unpack[DenseCountExtras],
    ) -> None:
        linear, deep = list(linear_feature_columns or ()), list(dnn_feature_columns or ())
        given = settings(
            **_combined(linear, linear_optimizer, dnn_optimizer),
            hidden_units=dnn_hidden_units or (),
            activation=dnn_activation_fn,
            dropout=dnn_dropout,
            label_dimension=label_dimension,
            weight_column=weight_column,
            loss_reduction=loss_reduction,
            batch_norm=batch_norm,
            sparse_combiner=linear_sparse_combiner,
            **extras,
        )
        model = _phalanx.Model("DNNLinearCombinedRegressor", linear, deep, given)
        super().__init__(model, model_dir, config, warm_start_from)


class BaselineClassifier(Estimator):
    """Predicts the frequency of each class: `tf.estimator.BaselineClassifier`."""

    def __init__(
        self,
        model_dir: Dir = None,
        n_classes: int = 2,
        weight_column: Weights = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: OptimizerChoice = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
    ) -> None:
        given = settings(
            n_classes=n_classes,
            weight_column=weight_column,
            label_vocabulary=_words(label_vocabulary),
            optimizer=optimizer_of(optimizer, 0.3),
            loss_reduction=loss_reduction,
        )
        super().__init__(_phalanx.Model("BaselineClassifier", [], [], given), model_dir, config, None)


class BaselineRegressor(Estimator):
    """Predicts the mean of the labels: `tf.estimator.BaselineRegressor`."""

    def __init__(
        self,
        model_dir: Dir = None,
        label_dimension: int = 1,
        weight_column: Weights = None,
        optimizer: OptimizerChoice = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
    ) -> None:
        given = settings(
            label_dimension=label_dimension,
            weight_column=weight_column,
            optimizer=optimizer_of(optimizer, 0.3),
            loss_reduction=loss_reduction,
        )
        super().__init__(_phalanx.Model("BaselineRegressor", [], [], given), model_dir, config, None)


def _words(label_vocabulary: Sequence[str] | None) -> list[str] | None:
    if label_vocabulary is None:
        return None
    if not all(isinstance(word, str) for word in label_vocabulary):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Error("label_vocabulary has values that are no strings", "PX0309", help="leave it out for integer labels")
    return list(label_vocabulary)


def _linear_optimizer(choice: OptimizerChoice | None, columns: list[FeatureColumn]) -> _phalanx.Optimizer | None:
    """Return the optimizer of a linear model. As in TensorFlow, a name has a rate of 0.2; without one it follows the columns."""
    if choice is None:
        return optimizer_of("Ftrl", min(0.2, 1 / math.sqrt(max(len(columns), 1))))
    return optimizer_of(choice, 0.2)


def _combined(
    linear: list[FeatureColumn], linear_optimizer: OptimizerChoice | None, dnn_optimizer: OptimizerChoice
) -> dict[str, _phalanx.Optimizer | None]:
    rate = min(0.005, 1 / math.sqrt(max(len(linear), 1)))
    return {
        "linear_optimizer": optimizer_of("Ftrl" if linear_optimizer is None else linear_optimizer, rate),
        "dnn_optimizer": optimizer_of(dnn_optimizer),
    }
