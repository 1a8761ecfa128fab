"""Keras' models on Phalanx: compile, fit, evaluate and predict under a strategy.

>>> import numpy as np
>>> from phalanx import SGD, keras
>>> x = np.linspace(0, 1, 100, dtype=np.float32).reshape(-1, 1)
>>> model = keras.Sequential([keras.Input(shape=(1,)), keras.layers.Dense(1)])
>>> model.compile(SGD(0.3), loss="mse", metrics=["mae"], strategy="mirrored:2")
>>> history = model.fit(x, 3 * x + 1, epochs=30, verbose=0)
>>> history.history["loss"][-1] < 0.01
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from phalanx import _phalanx
from phalanx import keras_layers as layers
from phalanx._errors import Error
from phalanx._job import _program  # pyright: ignore[reportPrivateUsage] - the fingerprint of the script is the same
from phalanx._notebook import is_notebook, table
from phalanx.data import Dataset
from phalanx.data_columns import Array, arrays, prepared
from phalanx.distribute import Strategy, current_strategy
from phalanx.estimator_optimizers import OptimizerChoice
from phalanx.estimator_optimizers import optimizer as optimizer_of
from phalanx.keras_callbacks import (
    BackupAndRestore,
    Callback,
    EarlyStopping,
    LambdaCallback,
    LearningRateScheduler,
    ModelCheckpoint,
    NotebookProgress,
    TensorBoard,
)
from phalanx.keras_layers import Input, Layer, Symbol

__all__ = [
    "BackupAndRestore",
    "Callback",
    "EarlyStopping",
    "History",
    "Input",
    "LambdaCallback",
    "LearningRateScheduler",
    "Model",
    "ModelCheckpoint",
    "Sequential",
    "TensorBoard",
    "layers",
]

Verbose: TypeAlias = Literal["auto", 0, 1, 2]


class History:
    """The losses and metrics of every epoch."""

    def __init__(self, epochs: Sequence[tuple[int, list[tuple[str, float]]]]) -> None:
        self.epoch = [epoch for epoch, _ in epochs]
        """The numbers of the epochs."""
        self.history: dict[str, list[float]] = {}
        """The values of all epochs by name: `loss`, `val_loss`, …"""
        for _, logs in epochs:
            for name, value in logs:
                self.history.setdefault(name, []).append(value)

    def _repr_html_(self) -> str:
        return table(["epoch", *self.history], zip((epoch + 1 for epoch in self.epoch), *self.history.values(), strict=True))


class Model:
    """A functional model: what layers make of inputs. `tf.keras.Model`.

    >>> x = Input(shape=(2,))
    >>> h = layers.Dense(8, "tanh")(x)
    >>> model = Model(x, layers.Dense(1)(layers.Concatenate()([x, h])))
    >>> model.compile("sgd", "mse")
    >>> model.predict(np.zeros((3, 2), np.float32)).shape
    (3, 1)
    """

    def __init__(self, inputs: Symbol | Sequence[Symbol], outputs: Symbol | Sequence[Symbol], *, seed: int = 0) -> None:
        self.inputs, self.outputs = _listed(inputs), _listed(outputs)
        self.seed = seed
        self.stop_training = False
        """A callback sets it to end the training."""
        self._compiled: _phalanx.Compiled | None = None
        self._scope = current_strategy()

    def compile(
        self,
        optimizer: OptimizerChoice = "rmsprop",
        loss: str = "mse",
        metrics: Sequence[str] = (),
        *,
        strategy: str | Strategy | None = None,
    ) -> None:
        """Build the model with an optimizer, a loss and metrics by Keras' names.

        `strategy` is `default`, `mirrored:2`, `multi_worker_mirrored`, `central_storage:2`, `parameter_server:async` and others,
        or `auto` for what the cluster of `TF_CONFIG` needs. By default it is that of the scope in which the model was made, or
        else `auto`. Every task of a job makes the same calls.
        """
        chosen = strategy or self._scope or "auto"
        settings = {
            "optimizer": optimizer_of(optimizer),
            "loss": loss,
            "metrics": list(metrics),
            "strategy": chosen.name if isinstance(chosen, Strategy) else chosen,
            "seed": self.seed,
            "program": _program(),
        }
        self._compiled = _phalanx.Compiled(_phalanx.Stop(), self._described(), settings)

    def _described(self) -> dict[str, Any]:
        """Return the layers, their calls in order, and which calls are inputs and outputs."""
        layers: list[Layer] = []
        calls: list[Any] = []
        numbers: dict[int, int] = {}

        def number(symbol: Symbol) -> int:
            if id(symbol) not in numbers:
                if isinstance(symbol, Input):
                    call: Any = (list(symbol.shape), symbol.name)
                else:
                    inputs = [number(one) for one in symbol.inputs]
                    layer = cast("Layer", symbol.layer)
                    if not any(layer is known for known in layers):
                        layers.append(layer)
                    call = (next(at for at, known in enumerate(layers) if known is layer), inputs)
                calls.append(call)
                numbers[id(symbol)] = len(calls) - 1
            return numbers[id(symbol)]

        inputs = [number(symbol) for symbol in self.inputs]
        outputs = [number(symbol) for symbol in self.outputs]
        return {"layers": [layer.described() for layer in layers], "calls": calls, "inputs": inputs, "outputs": outputs}

    def fit(
        self,
        x: Any,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Verbose = "auto",
        callbacks: Sequence[Callback | ModelCheckpoint | BackupAndRestore | TensorBoard] = (),
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
    ) -> History:
        """Train for a number of epochs, on arrays or on a dataset of batches with a label."""
        validation = None if validation_data is None else _data(validation_data)
        settings = _settings(
            epochs=epochs,
            initial_epoch=initial_epoch,
            batch_size=batch_size,
            steps_per_epoch=steps_per_epoch,
            validation_split=validation_split,
            validation_steps=validation_steps,
            shuffle=shuffle,
            # A notebook shows nothing of what Rust prints.
            verbose=verbose != 0 and not is_notebook(),
        )
        self.stop_training = False
        shown = [NotebookProgress(epochs, steps_per_epoch)] if verbose != 0 and is_notebook() else []
        natives = [callback.bound(self) for callback in [*callbacks, *shown]]
        return History(self._built().fit(_data(x if y is None else (x, y)), validation, settings, natives))

    def evaluate(self, x: Any, y: Any = None, batch_size: int | None = None, verbose: Verbose = "auto") -> dict[str, float]:
        """Return loss and metrics by name."""
        settings = _settings(batch_size=batch_size, verbose=verbose != 0)
        return dict(self._built().evaluate(_data(x if y is None else (x, y)), settings))

    def predict(self, x: Any) -> Array:
        """Return the outputs for every row."""
        return arrays(self._built().predict(_data(x)))["outputs"]

    def summary(self) -> str:
        """Return Keras' table of the layers."""
        return self._built().summary()

    def save_weights(self, filepath: str | PathLike[str]) -> None:
        """Write the weights: a checkpoint that TensorFlow reads, or safetensors if the path ends so."""
        self._built().save_weights(fspath(filepath))

    def load_weights(self, filepath: str | PathLike[str]) -> None:
        """Read what `save_weights` wrote."""
        self._built().load_weights(fspath(filepath))

    def export(self, filepath: str | PathLike[str]) -> None:
        """Write a SavedModel for TensorFlow Serving into a new folder."""
        self._built().export_saved_model(fspath(filepath))

    def _built(self) -> _phalanx.Compiled:
        if self._compiled is None:
            raise Error("the model is not compiled", "PX0309", help="call compile first")
        return self._compiled


class Sequential(Model):
    """A list of layers, of which the first is an `Input` or has an `input_shape`: `tf.keras.Sequential`."""

    def __init__(self, layers: Sequence[Layer | Input] = (), *, seed: int = 0) -> None:
        super().__init__([], [], seed=seed)
        self.layers: list[Layer] = []
        self.input_shape: tuple[int, ...] | None = None
        for layer in layers:
            self.add(layer)

    def add(self, layer: Layer | Input) -> None:
        """Append a layer."""
        shape = layer.shape if isinstance(layer, Input) else layer.input_shape
        self.input_shape = shape if shape is not None and self.input_shape is None else self.input_shape
        if isinstance(layer, Layer):
            self.layers.append(layer)

    def _described(self) -> dict[str, Any]:
        if self.input_shape is None:
            raise Error("the model has no input", "PX0309", help="begin with keras.Input(shape=...), or give input_shape")
        return {"layers": [layer.described() for layer in self.layers], "input_shape": list(self.input_shape)}


def _listed(symbols: Symbol | Sequence[Symbol]) -> list[Symbol]:
    return [symbols] if isinstance(symbols, Symbol) else list(symbols)


def _data(data: Any) -> Any:
    """Return a dataset, or columns and the name of the label, as Rust takes them."""
    if isinstance(data, Dataset):
        return data
    x, y = cast("tuple[Any, Any]", data) if isinstance(data, tuple) else (data, None)
    columns = dict(cast("Mapping[str, Any]", x)) if isinstance(x, Mapping) else {"x": np.asarray(x)}
    if y is None:
        return prepared(columns), None
    return prepared({**columns, "y": np.asarray(y)}), "y"


def _settings(**given: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "epochs": 1,
        "initial_epoch": 0,
        "batch_size": None,
        "steps_per_epoch": None,
        "validation_split": 0.0,
        "validation_steps": None,
        "shuffle": True,
        "verbose": True,
    }
    return {**defaults, **given}
