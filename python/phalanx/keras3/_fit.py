"""`fit` and `evaluate` of a Keras model whose variables are on parameter servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from phalanx._errors import Error
from phalanx.data_dataset import Dataset
from phalanx.keras3._backend import keras
from phalanx.keras3._input import Batch, TrainingData, batches_of
from phalanx.keras3._optimizers import on_servers
from phalanx.torch._parameters import Parameters
from phalanx.torch._remote import PerWorkerIterator, RemoteValue
from phalanx.torch._strategy import StrategyModel

if TYPE_CHECKING:
    from phalanx.keras3 import ParameterServerStrategy

_AHEAD = 64
"""After how many steps the chief takes the results that are there, for the progress bar."""


class ServerModel:
    """A Keras model in the scope of a strategy: its `fit` and `evaluate` are calls of the whole job."""

    def __init__(self, strategy: ParameterServerStrategy, model: Any) -> None:
        self._strategy, self._model = strategy, model
        self._fit, self._evaluate = model.fit, model.evaluate
        self._is_leading = False
        self._loss: float | None = None
        self._rate = 0.0
        self._results: list[RemoteValue[list[Any]]] = []

    def take_over(self) -> None:
        """Replace the model's methods."""
        self._model.fit, self._model.evaluate = self.fit, self.evaluate

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        **validation: Any,
    ) -> Any:
        """Train as `keras.Model.fit` does; every task returns the history of the chief."""
        if validation_split or class_weight is not None:
            what = "validation_split" if validation_split else "class_weight"
            raise Error(f"fit on parameter servers takes no {what}", "PX0309", help="give validation_data, or sample_weight")
        data = TrainingData(x, y, sample_weight, batch_size, shuffle)
        steps = data.steps(steps_per_epoch)
        self._connect(data)
        coordinator = self._strategy.coordinator()
        coordinator.register(self.step)
        made = coordinator.create_per_worker_dataset(lambda: data.batches(self._strategy.input_context))
        batches: PerWorkerIterator[Batch] = iter(made)

        def lead() -> list[Any]:
            loop = _ChiefLoop(self, batches, steps)
            history = self._fit(
                x=_tokens(),
                shuffle=False,
                epochs=epochs,
                verbose=verbose,
                callbacks=[loop, *_listed(callbacks)],
                validation_data=_validation(validation_data),
                initial_epoch=initial_epoch,
                steps_per_epoch=steps,
                **validation,
            )
            return [history.epoch, {name: [float(one) for one in values] for name, values in history.history.items()}]

        self._model.train_function = self._schedule
        epochs_done, logs = coordinator.call(lambda: self._leading(lead))
        history = keras.callbacks.History()
        history.set_model(self._model)
        history.epoch, history.history = epochs_done, logs
        self._model.history = history
        return history

    def evaluate(self, x: Any = None, y: Any = None, **settings: Any) -> Any:
        """Evaluate as `keras.Model.evaluate` does: the chief computes, and every task returns the result."""
        if self._is_leading or self._strategy.model is None:
            return self._evaluate(x, y, **settings)
        given = _validation(x)
        return self._strategy.coordinator().call(lambda: self._leading(lambda: _plain(self._evaluate(given, y, **settings))))

    # What the chief does in Keras' loop.

    def schedule(self, batches: PerWorkerIterator[Batch]) -> None:
        """Schedule a step, at the learning rate of Keras' optimizer."""
        rate = float(keras.ops.convert_to_numpy(self._model.optimizer.learning_rate))
        self._model.optimizer.iterations.assign_add(1)
        self._results.append(self._strategy.coordinator().schedule(self.step, args=(batches, rate)))
        if len(self._results) % _AHEAD == 0:
            self.count()

    def join(self) -> None:
        """Wait for the steps that are scheduled, and count them."""
        self._strategy.coordinator().join_here()
        self.count()

    def count(self) -> None:
        """Add what steps that are done have added to the metrics."""
        waiting: list[RemoteValue[list[Any]]] = []
        for result in self._results:
            if result.result is None:
                waiting.append(result)
                continue
            for variable, added in zip(self._model.metrics_variables, result.fetch(), strict=True):
                variable.assign(keras.ops.convert_to_numpy(variable) + added)
        self._results = waiting

    def _leading(self, lead: Any) -> Any:
        self._is_leading = True
        try:
            return lead()
        finally:
            self._is_leading = False

    def _schedule(self, _tokens: Any) -> dict[str, Any]:
        raise Error("the model trains with fit", "PX0309", cause="its variables are on parameter servers")

    # What a worker does in a step.

    def step(self, batches: Iterator[Batch], rate: float) -> list[Any]:
        """Compute a step of Keras, and return what it adds to the metrics."""
        model = self._model
        kept = [keras.ops.convert_to_numpy(one).copy() for one in model.metrics_variables]
        self._rate = rate
        model.reset_metrics()
        model.train()
        try:
            model.train_step(next(batches))
            return [keras.ops.convert_to_numpy(one).copy() for one in model.metrics_variables]
        finally:
            model.eval()
            for variable, value in zip(model.metrics_variables, kept, strict=True):
                variable.assign(value)

    def _apply(self, gradients: list[Any], variables: list[Any]) -> None:
        """Push the gradients instead of applying them: the servers do."""
        self._strategy.push(self._loss, self._rate)

    def _scale_loss(self, loss: Any) -> Any:
        self._loss = float(loss.detach())
        return loss

    def _connect(self, data: TrainingData) -> None:
        """Put the model's variables on the servers, once."""
        if self._strategy.model is not None:
            if self._strategy.model is not getattr(self, "_connected", None):
                raise Error("a job with parameter servers trains one model", "PX0309", help="train the other one in its own job")
            return
        model = self._model
        if not model.compiled:
            raise Error("the model is not compiled", "PX0309", help="call compile first")
        with torch.no_grad():
            # Builds the model, the loss and the metrics.
            model.test_step(data.first())
        model.reset_metrics()
        optimizer = on_servers(model.optimizer)
        model.optimizer.built = True
        model.optimizer.apply, model.optimizer.scale_loss = self._apply, self._scale_loss
        self._connected = StrategyModel(_parameters(model), optimizer, {})
        self._strategy.adopt(self._connected)


class _ChiefLoop(keras.callbacks.Callback):
    """Schedules the steps of the chief's loop, and waits for them at the end of an epoch."""

    def __init__(self, own: ServerModel, batches: PerWorkerIterator[Batch], steps: int) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.model: Any
        self._own, self._batches, self._steps = own, batches, steps
        self._at = 0

    def on_train_begin(self, logs: Any = None) -> None:
        self.model.train_function = self._schedule

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._own.join()
        self.model.reset_metrics()
        self._at = 0

    def on_train_end(self, logs: Any = None) -> None:
        self._own.join()

    def _schedule(self, _token: Any) -> dict[str, Any]:
        self._at += 1
        self._own.schedule(self._batches)
        if self._at == self._steps:
            self._own.join()
        return self.model.get_metrics_result()


def _parameters(model: Any) -> Parameters:
    trained = [(_name(model, one), one.value) for one in model.trainable_variables]
    states = [(_name(model, one), one.value) for one in model.non_trainable_variables if "float" in str(one.dtype)]
    return Parameters(trained, states)


def _name(model: Any, variable: Any) -> str:
    return variable.path.removeprefix(f"{model.name}/")


def _tokens() -> Iterator[tuple[Any]]:
    """Yield what stands for the batches in the chief's loop: workers read the data."""
    while True:
        yield (np.zeros((1, 1), np.float32),)


def _validation(data: Any) -> Any:
    """Return data as Keras takes it."""
    if not isinstance(data, Dataset):
        return data
    return torch.utils.data.DataLoader(_Batches(data), batch_size=None)


class _Batches(torch.utils.data.IterableDataset[Any]):
    def __init__(self, data: Dataset) -> None:
        self._data = data

    def __iter__(self) -> Iterator[Batch]:
        return batches_of(self._data)


def _listed(callbacks: Any) -> list[Any]:
    if callbacks is None:
        return []
    return list(cast("list[Any]", callbacks)) if isinstance(callbacks, (list, tuple)) else [callbacks]


def _plain(result: Any) -> Any:
    if isinstance(result, dict):
        return {name: float(one) for name, one in cast("dict[str, Any]", result).items()}
    return [float(one) for one in cast("list[Any]", result)] if isinstance(result, list) else float(result)
