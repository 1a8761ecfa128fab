"""Metrics with Keras' names and values, on arrays and tensors.

>>> from phalanx import metrics
>>> accuracy = metrics.BinaryAccuracy()
>>> accuracy.update_state([1, 0, 1], [0.9, 0.8, 0.7])
>>> round(accuracy.result(), 3)
0.667

In the steps of a coordinated job, a metric that was made in the strategy's scope counts every step once, whichever workers
computed it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

from phalanx import _phalanx
from phalanx._errors import Error

__all__ = [
    "AUC",
    "Accuracy",
    "BinaryAccuracy",
    "BinaryCrossentropy",
    "CategoricalAccuracy",
    "Mean",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "Metric",
    "Precision",
    "Recall",
    "RootMeanSquaredError",
    "SparseCategoricalAccuracy",
    "Sum",
]

_Numbers = npt.NDArray[np.float32]

made_here: ContextVar[list[Metric] | None] = ContextVar("made_here", default=None)
"""The metrics of the strategy whose scope this thread is in."""


class Metric:
    """A value that is accumulated over batches. Use one of its subclasses."""

    def __init__(self, name: str | None = None, *, threshold: float | None = None) -> None:
        self.name = name or type(self).__name__
        """The name in messages."""
        self.native = _phalanx.Metric(type(self).__name__, threshold)
        if (made := made_here.get()) is not None:
            made.append(self)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add a batch of labels and predictions."""
        weights = None if sample_weight is None else _flat(sample_weight)
        self.native.update(_rows(y_true), _rows(y_pred), weights)

    def result(self) -> float:
        """Return the value so far."""
        return self.native.result()

    def reset_state(self) -> None:
        """Forget all batches."""
        self.native.reset()

    reset_states = reset_state

    def __repr__(self) -> str:
        return f"<{self.name}: {self.result():.4g}>"


class _OfValues(Metric):
    def update_state(self, values: Any, sample_weight: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Add values."""
        flat = _flat(values)
        weights = None if sample_weight is None else np.broadcast_to(_flat(sample_weight), flat.shape).copy()
        self.native.update((flat, 1), (flat, 1), weights)


class Mean(_OfValues):
    """The weighted mean of values."""


class Sum(_OfValues):
    """The weighted sum of values."""


class Accuracy(Metric):
    """How often predictions equal labels."""


class BinaryAccuracy(Metric):
    """How often predictions are on the label's side of the threshold."""

    def __init__(self, name: str | None = None, *, threshold: float = 0.5) -> None:
        super().__init__(name, threshold=threshold)


class CategoricalAccuracy(Metric):
    """How often the largest prediction is that of the one-hot label."""


class SparseCategoricalAccuracy(Metric):
    """How often the largest prediction is that of the label, a class number."""


class AUC(Metric):
    """The area under the ROC curve, with 200 thresholds."""


class Precision(Metric):
    """The share of true among positive predictions."""


class Recall(Metric):
    """The share of positive labels that were found."""


class MeanSquaredError(Metric):
    """The mean of squared differences."""


class RootMeanSquaredError(Metric):
    """The root of the mean of squared differences."""


class MeanAbsoluteError(Metric):
    """The mean of differences."""


class BinaryCrossentropy(Metric):
    """The mean of binary cross entropies of probabilities."""


def _array(values: Any) -> _Numbers:
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise Error(f"a metric got {array.dtype}", "PX0303", help="give numbers: look texts up first")
    return np.ascontiguousarray(array, np.float32)


def _flat(values: Any) -> _Numbers:
    return _array(values).reshape(-1)


def _rows(values: Any) -> tuple[_Numbers, int]:
    array = _array(values)
    width = int(np.prod(array.shape[1:])) if array.ndim > 1 else 1
    return array.reshape(-1), width
