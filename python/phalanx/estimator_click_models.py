"""Click and rating models that TensorFlow's Estimator does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from phalanx import _phalanx
from phalanx.estimator_base import Estimator, WarmStart, settings
from phalanx.estimator_config import RunConfig
from phalanx.estimator_models import SUM_OVER_BATCH_SIZE, Activation, Columns, DenseExtras, Dir, Extras, Weights
from phalanx.estimator_optimizers import OptimizerChoice
from phalanx.estimator_optimizers import optimizer as optimizer_of
from phalanx.feature_column import FeatureColumn


class DeepFMClassifier(Estimator):
    """DeepFM: a linear part, products of pairs of embeddings, and hidden layers. The embeddings have one dimension.

    >>> from phalanx import feature_column as fc
    >>> ids = [fc.categorical_column_with_hash_bucket(name, 1000) for name in ("user", "item")]
    >>> model = DeepFMClassifier([fc.embedding_column(column, 8) for column in ids], [64])
    """

    def __init__(
        self,
        feature_columns: Columns,
        hidden_units: Sequence[int],
        model_dir: Dir = None,
        weight_column: Weights = None,
        label_vocabulary: Sequence[str] | None = None,
        linear_optimizer: OptimizerChoice | None = None,
        dnn_optimizer: OptimizerChoice | None = None,
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
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            linear_optimizer=optimizer_of(linear_optimizer, 0.15),
            dnn_optimizer=optimizer_of(dnn_optimizer, 0.15),
            activation=activation_fn,
            dropout=dropout,
            loss_reduction=loss_reduction,
            batch_norm=batch_norm,
            **extras,
        )
        model = _phalanx.Model("DeepFMClassifier", [], list(feature_columns), given)
        super().__init__(model, model_dir, config, warm_start_from)


class DLRMClassifier(Estimator):
    """DLRM: bottom layers over dense columns, products of pairs of embeddings, top layers."""

    def __init__(
        self,
        feature_columns: Columns,
        top_units: Sequence[int],
        bottom_units: Sequence[int] = (),
        model_dir: Dir = None,
        n_classes: int = 2,
        weight_column: Weights = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: OptimizerChoice | None = None,
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: WarmStart | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        **extras: Unpack[Extras],
    ) -> None:
        given = settings(
            hidden_units=top_units,
            bottom_units=bottom_units,
            n_classes=n_classes,
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            optimizer=optimizer_of(optimizer, 0.15),
            dropout=dropout,
            loss_reduction=loss_reduction,
            **extras,
        )
        model = _phalanx.Model("DLRMClassifier", [], list(feature_columns), given)
        super().__init__(model, model_dir, config, warm_start_from)


class FMClassifier(Estimator):
    """A factorization machine for two classes: a linear part and products of pairs of embeddings."""

    def __init__(
        self,
        feature_columns: Columns,
        model_dir: Dir = None,
        weight_column: Weights = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: OptimizerChoice | None = None,
        config: RunConfig | None = None,
        warm_start_from: WarmStart | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        **extras: Unpack[Extras],
    ) -> None:
        given = settings(
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            optimizer=optimizer_of(optimizer, 0.15),
            loss_reduction=loss_reduction,
            **extras,
        )
        model = _phalanx.Model("FMClassifier", [], list(feature_columns), given)
        super().__init__(model, model_dir, config, warm_start_from)


class FMRegressor(Estimator):
    """A factorization machine for a number."""

    def __init__(
        self,
        feature_columns: Columns,
        model_dir: Dir = None,
        weight_column: Weights = None,
        optimizer: OptimizerChoice | None = None,
        config: RunConfig | None = None,
        warm_start_from: WarmStart | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        **extras: Unpack[Extras],
    ) -> None:
        given = settings(
            weight_column=weight_column,
            optimizer=optimizer_of(optimizer, 0.15),
            loss_reduction=loss_reduction,
            **extras,
        )
        model = _phalanx.Model("FMRegressor", [], list(feature_columns), given)
        super().__init__(model, model_dir, config, warm_start_from)


class MFRegressor(Estimator):
    """A matrix factorization with biases: the product of a user's and an item's vector. `global_mean` is the labels' mean."""

    def __init__(
        self,
        user_column: FeatureColumn,
        item_column: FeatureColumn,
        dimension: int,
        model_dir: Dir = None,
        global_mean: float = 0.0,
        weight_column: Weights = None,
        optimizer: OptimizerChoice | None = None,
        config: RunConfig | None = None,
        warm_start_from: WarmStart | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        **extras: Unpack[Extras],
    ) -> None:
        given = settings(
            dimension=dimension,
            global_mean=global_mean,
            weight_column=weight_column,
            optimizer=optimizer_of(optimizer, 0.15),
            loss_reduction=loss_reduction,
            **extras,
        )
        model = _phalanx.Model("MFRegressor", [], [user_column, item_column], given)
        super().__init__(model, model_dir, config, warm_start_from)
