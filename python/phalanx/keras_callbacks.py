"""The callbacks of `phalanx.keras`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from phalanx._notebook import ProgressBar

if TYPE_CHECKING:
    from phalanx.keras import Model

Logs: TypeAlias = dict[str, float]


class Callback:
    """Is called during `fit`: override the methods you need.

    `self.model.stop_training = True` ends the training, and `self.learning_rate` may be set. The model's other methods wait for
    the end of `fit`.

    >>> class GoodEnough(Callback):
    ...     def on_epoch_end(self, epoch, logs):
    ...         self.model.stop_training = logs["loss"] < 0.01
    """

    model: Model
    learning_rate: float

    def on_train_begin(self) -> None:
        """Run before the first epoch."""

    def on_train_end(self, logs: Logs) -> None:
        """Run after the last epoch."""

    def on_epoch_begin(self, epoch: int) -> None:
        """Run before an epoch."""

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Run after an epoch and its validation."""

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Run after a step."""

    def bound(self, model: Model) -> Any:
        """Return the callback of a model as Rust takes it."""
        self.model = model
        return self

    def _on(self, what: str, at: int, logs: list[tuple[str, float]] | None, learning_rate: float) -> tuple[bool, float]:
        self.learning_rate = learning_rate
        named = dict(logs or ())
        match what:
            case "train_begin":
                self.on_train_begin()
            case "train_end":
                self.on_train_end(named)
            case "epoch_begin":
                self.on_epoch_begin(at)
            case "epoch_end":
                self.on_epoch_end(at, named)
            case _:
                self.on_train_batch_end(at, named)
        return self.model.stop_training, self.learning_rate


class EarlyStopping(Callback):
    """Ends a training whose monitored value no longer improves."""

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: int = 0,
        mode: Literal["auto", "min", "max"] = "auto",
    ) -> None:
        self.monitor, self.min_delta, self.patience = monitor, abs(min_delta), patience
        # As in Keras, a name that says so is to rise.
        rises = mode == "max" or (mode == "auto" and monitor.endswith(("acc", "accuracy", "auc")))
        self._sign = -1.0 if rises else 1.0
        self.stopped_epoch = 0

    def on_train_begin(self) -> None:
        self._best, self._wait = float("inf"), 0

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        if self.monitor not in logs:
            raise KeyError(f"there is no {self.monitor!r} to monitor: the logs have {', '.join(logs)}")
        value = self._sign * logs[self.monitor]
        self._wait += 1
        if value < self._best - self.min_delta:
            self._best, self._wait = value, 0
        elif self._wait >= self.patience and epoch > 0:
            self.stopped_epoch, self.model.stop_training = epoch, True


class LearningRateScheduler(Callback):
    """Sets the learning rate of every epoch: `schedule(epoch, rate)`."""

    def __init__(self, schedule: Callable[[int, float], float]) -> None:
        self._schedule = schedule

    def on_epoch_begin(self, epoch: int) -> None:
        self.learning_rate = float(self._schedule(epoch, self.learning_rate))


class LambdaCallback(Callback):
    """Calls functions after epochs and steps."""

    def __init__(
        self,
        on_epoch_end: Callable[[int, Logs], object] | None = None,
        on_train_batch_end: Callable[[int, Logs], object] | None = None,
    ) -> None:
        self._epoch_end, self._batch_end = on_epoch_end, on_train_batch_end

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        if self._epoch_end is not None:
            self._epoch_end(epoch, logs)

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        if self._batch_end is not None:
            self._batch_end(batch, logs)


class NotebookProgress(Callback):
    """Shows the progress of a training in a notebook; `fit` adds it there."""

    def __init__(self, epochs: int, steps: int | None) -> None:
        self._epochs, self._steps, self._epoch, self._done = epochs, steps, 0, 0

    def on_train_begin(self) -> None:
        self._bar = ProgressBar(None if self._steps is None else self._epochs * self._steps)

    def on_epoch_begin(self, epoch: int) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        self._done += 1
        self._bar.update(self._done, logs, f"epoch {self._epoch + 1} of {self._epochs}, ")

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        # The steps of the first epoch are those of each.
        self._bar.expect(self._done * self._epochs // (epoch + 1))
        self._bar.update(self._done, logs, f"epoch {epoch + 1} of {self._epochs}, ", end=True)


@dataclass(frozen=True)
class ModelCheckpoint:
    """Saves the weights after every epoch, or only when `monitor` is the best so far. `{epoch}` stands for the epoch."""

    filepath: str | PathLike[str]
    monitor: str = "val_loss"
    save_best_only: bool = False

    def bound(self, model: Model) -> Any:
        """Return the callback as Rust takes it."""
        return "ModelCheckpoint", fspath(self.filepath), self.monitor if self.save_best_only else None


@dataclass(frozen=True)
class BackupAndRestore:
    """Saves model and input position while training; a training that is started again continues there."""

    backup_dir: str | PathLike[str]

    def bound(self, model: Model) -> Any:
        """Return the callback as Rust takes it."""
        return "BackupAndRestore", fspath(self.backup_dir), None


@dataclass(frozen=True)
class TensorBoard:
    """Writes losses and metrics for TensorBoard."""

    log_dir: str | PathLike[str] = "logs"

    def bound(self, model: Model) -> Any:
        """Return the callback as Rust takes it."""
        return "TensorBoard", fspath(self.log_dir), None
