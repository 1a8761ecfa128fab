"""Keras 3 on parameter servers: `Model.fit` with the variables on the servers, as `tf.keras` had it.

The backend is torch: set `KERAS_BACKEND=torch`, or import this module before `keras`.

>>> import numpy as np
>>> from phalanx import keras3
>>> import keras
>>> strategy = keras3.ParameterServerStrategy()
>>> with strategy.scope():
...     model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
>>> model.compile(optimizer=keras.optimizers.SGD(0.3), loss="mse")
>>> x = np.linspace(0, 1, 100, dtype="float32").reshape(-1, 1)
>>> history = model.fit(x, 3 * x + 1, epochs=20, verbose=0)
>>> history.history["loss"][-1] < 0.05
True
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from phalanx._errors import Error
from phalanx.distribute import (
    FixedShardsPartitioner,
    MaxSizePartitioner,
    MinSizePartitioner,
    Partitioner,
    TFConfigClusterResolver,
)
from phalanx.keras3._backend import keras
from phalanx.keras3._fit import ServerModel
from phalanx.keras3._input import DatasetCreator
from phalanx.torch._coordinator import ClusterCoordinator
from phalanx.torch._strategy import ParameterServerStrategy as TorchStrategy

__all__ = [
    "DatasetCreator",
    "FixedShardsPartitioner",
    "MaxSizePartitioner",
    "MinSizePartitioner",
    "ParameterServerStrategy",
    "Partitioner",
    "TFConfigClusterResolver",
]

_made: ContextVar[list[Any] | None] = ContextVar("made", default=None)
"""The models that were made in the scope that this thread is in."""


class ParameterServerStrategy(TorchStrategy):
    """Variables on the parameter servers of a cluster: the strategy of `phalanx.torch`, for models of Keras 3.

    `fit` and `evaluate` of a model that was made in its scope are calls of the whole job. The chief runs Keras' own loop, with
    its callbacks, and schedules the steps; workers compute them on their shares of the data; all tasks return the same history. A
    job trains one model, whose optimizer has its counterpart on the servers.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        if keras.backend.backend() != "torch":
            raise Error(
                f"Keras' backend is {keras.backend.backend()}",
                "PX0309",
                cause="parameter servers train models of the backend torch",
                help="set KERAS_BACKEND=torch, or import phalanx.keras3 before keras",
            )
        super().__init__(*args, **settings)
        self._coordinator: ClusterCoordinator | None = None

    @contextmanager
    def scope(self) -> Generator[TorchStrategy]:
        """Make the model within it."""
        made: list[Any] = []
        before = _made.set(made)
        try:
            with super().scope():
                yield self
        finally:
            _made.reset(before)
            for model in {id(one): one for one in made}.values():
                ServerModel(self, model).take_over()

    def coordinator(self) -> ClusterCoordinator:
        """Return the coordinator of the job; it ends with the program, or with `close`."""
        if self._coordinator is None:
            self._coordinator = ClusterCoordinator(self)
        return self._coordinator

    def close(self) -> None:
        """End this task's part of the job now, instead of with the program. The chief saves."""
        if self._coordinator is not None:
            self._coordinator.close()


def _watch_models() -> None:
    """Let scopes know the models that are made in them: Keras has no other place to ask."""
    make = keras.Model.__new__

    def made(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
        model = make(cls, *args, **kwargs)
        if (here := _made.get()) is not None:
            here.append(model)
        return model

    keras.Model.__new__ = staticmethod(made)


_watch_models()
