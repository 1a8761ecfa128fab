"""The function of a numeric column, recorded once, so that Rust computes it and exported models have it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from phalanx._errors import Error

Step = tuple[str, float, float]
"""The name of a function, and its two numbers."""


def recorded(function: Callable[[Any], Any]) -> list[Step]:
    """Return the steps of a function of one number.

    >>> recorded(lambda x: (x - 3.0) / 4.0)
    [('scale', 3.0, 1.0), ('scale', 0.0, 4.0)]
    >>> recorded(lambda price: np.log1p(np.clip(price, 0, 1000)))
    [('clip', 0.0, 1000.0), ('log1p', 0.0, 0.0)]
    """
    try:
        made = function(Recorder(()))
    except (TypeError, AttributeError, ValueError) as error:
        raise _refused(str(error)) from error
    if not isinstance(made, Recorder):
        raise _refused(f"it returned a {type(made).__name__}")
    return list(made.steps)


def _refused(why: str) -> Error:
    return Error(
        "a normalizer_fn computes what Phalanx cannot",
        "PX0309",
        cause=why,
        help="use + - * / with constants, numpy.log1p, sqrt, clip, minimum and maximum; or compute the column in Dataset.map",
    )


class Recorder:
    """Stands for a number and records what is done to it."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps

    def _then(self, name: str, first: float = 0.0, second: float = 0.0) -> Recorder:
        return Recorder((*self.steps, (name, first, second)))

    def __add__(self, other: float) -> Recorder:
        return self._then("scale", -float(other), 1.0)

    __radd__ = __add__

    def __sub__(self, other: float) -> Recorder:
        return self._then("scale", float(other), 1.0)

    def __rsub__(self, other: float) -> Recorder:
        return self._then("scale", float(other), -1.0)

    def __neg__(self) -> Recorder:
        return self._then("scale", 0.0, -1.0)

    def __mul__(self, other: float) -> Recorder:
        if not float(other):
            raise ValueError("it multiplies by 0")
        return self._then("scale", 0.0, 1.0 / float(other))

    __rmul__ = __mul__

    def __truediv__(self, other: float) -> Recorder:
        if not float(other):
            raise ValueError("it divides by 0")
        return self._then("scale", 0.0, float(other))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        numbers = [value for value in inputs if not isinstance(value, Recorder)]
        mine = isinstance(inputs[0], Recorder)
        if method != "__call__" or settings or len(numbers) != len(inputs) - 1:
            return NotImplemented
        known: dict[Any, Callable[[], Recorder]] = {
            np.add: lambda: self + numbers[0],
            np.subtract: lambda: self - numbers[0] if mine else numbers[0] - self,
            np.multiply: lambda: self * numbers[0],
            np.divide: lambda: self / numbers[0] if mine else NotImplemented,
            np.negative: lambda: -self,
            np.log1p: lambda: self._then("log1p"),
            np.sqrt: lambda: self._then("sqrt"),
            np.minimum: lambda: self._then("clip", -math.inf, float(numbers[0])),
            np.maximum: lambda: self._then("clip", float(numbers[0]), math.inf),
        }
        return known[ufunc]() if ufunc in known else NotImplemented

    def __array_function__(self, function: Any, _types: Any, args: Any, kwargs: Any) -> Any:
        return self.clip(*args[1:], **kwargs) if function is np.clip else NotImplemented

    def clip(self, a_min: float | None = None, a_max: float | None = None) -> Recorder:
        """Record `numpy.clip`."""
        least = -math.inf if a_min is None else float(a_min)
        most = math.inf if a_max is None else float(a_max)
        return self._then("clip", least, most)
