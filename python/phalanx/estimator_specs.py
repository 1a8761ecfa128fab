"""What a training and its evaluations are told: `TrainSpec`, `EvalSpec`, exporters and hooks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from phalanx import _phalanx
from phalanx._errors import Error
from phalanx._notebook import ProgressBar, is_notebook
from phalanx.estimator_inputs import InputFn, native
from phalanx.estimator_task import as_task

if TYPE_CHECKING:
    from phalanx.estimator_base import Estimator


@dataclass(frozen=True)
class ServingInputReceiver:
    """The input of an exported model: serialized Examples, or a tensor for each feature."""

    kind: Literal["examples", "raw"] = "examples"

    def __call__(self) -> ServingInputReceiver:
        return self


def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any] | None = None, default_batch_size: int | None = None
) -> ServingInputReceiver:
    """Return the input of serialized Examples. The features are those of the model's columns."""
    return ServingInputReceiver("examples")


def build_raw_serving_input_receiver_fn(
    features: Mapping[str, Any] | None = None, default_batch_size: int | None = None
) -> ServingInputReceiver:
    """Return the input of a tensor for each feature of the model's columns."""
    return ServingInputReceiver("raw")


class Exporter:
    """Exports the model to `export/NAME` of the run directory after evaluations. Use one of its subclasses."""

    _kind = "final"

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: ServingInputReceiver | None = None,
        *,
        assets_extra: Mapping[str, str | PathLike[str]] | None = None,
        exports_to_keep: int | None = None,
        metric: str = "loss",
        higher: bool = False,
    ) -> None:
        self.name = name
        self._settings: dict[str, Any] = {
            "kind": self._kind,
            "name": name,
            "metric": metric,
            "higher": higher,
            "raw": (serving_input_receiver_fn or ServingInputReceiver()).kind == "raw",
            "exports_to_keep": exports_to_keep or 0,
            "assets_extra": extra_files(assets_extra),
        }


class FinalExporter(Exporter):
    """Exports once, when training has ended."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: ServingInputReceiver | None = None,
        assets_extra: Mapping[str, str | PathLike[str]] | None = None,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra=assets_extra)


class LatestExporter(Exporter):
    """Exports after every evaluation."""

    _kind = "latest"

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: ServingInputReceiver | None = None,
        assets_extra: Mapping[str, str | PathLike[str]] | None = None,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra=assets_extra, exports_to_keep=exports_to_keep)


class BestExporter(Exporter):
    """Exports after an evaluation that is better than all earlier ones: with the lowest `metric`, or the highest."""

    _kind = "best"

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: ServingInputReceiver | None = None,
        *,
        metric: str = "loss",
        higher: bool = False,
        assets_extra: Mapping[str, str | PathLike[str]] | None = None,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(
            name,
            serving_input_receiver_fn,
            assets_extra=assets_extra,
            exports_to_keep=exports_to_keep,
            metric=metric,
            higher=higher,
        )


def extra_files(assets_extra: Mapping[str, str | PathLike[str]] | None) -> list[tuple[str, bytes]]:
    """Read the files that an export takes along."""
    return [(name, Path(path).read_bytes()) for name, path in (assets_extra or {}).items()]


@dataclass
class SessionRunContext:
    """What a hook can ask for."""

    global_step: int
    stop_requested: bool = False

    def request_stop(self) -> None:
        """End the training: the whole job on the chief, only this task on a worker."""
        self.stop_requested = True


@dataclass(frozen=True)
class SessionRunValues:
    """The outcome of a step."""

    results: float
    """The loss."""
    global_step: int


class SessionRunHook:
    """Is called during a training. A step costs some microseconds more for each hook.

    >>> class GoodEnough(SessionRunHook):
    ...     def after_run(self, run_context, run_values):
    ...         if run_values.results < 0.01:
    ...             run_context.request_stop()
    """

    def begin(self) -> None:
        """Run before the first step."""

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Run after every step of this task."""

    def end(self, session: None) -> None:
        """Run after the last step, unless the training failed."""

    def _begin(self, global_step: int) -> None:
        self.begin()

    def _after_step(self, global_step: int, loss: float) -> bool:
        context = SessionRunContext(global_step)
        self.after_run(context, SessionRunValues(loss, global_step))
        return context.stop_requested

    def _end(self, global_step: int) -> None:
        self.end(None)


class EarlyStopping:
    """Ends a training whose evaluations no longer improve. The functions of `phalanx.estimator.experimental` make one."""

    def __init__(self, settings: tuple[str, str | None, str, bool, int, int]) -> None:
        self.settings = settings


Hook: TypeAlias = SessionRunHook | EarlyStopping


def stop_if_no_decrease_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_decrease: int,
    *,
    eval_name: str | None = None,
    run_every_secs: int = 60,
) -> EarlyStopping:
    """Return a hook that ends a training when a metric of the evaluations has not fallen for a number of steps."""
    steps = max_steps_without_decrease
    return EarlyStopping((estimator.model_dir, eval_name, metric_name, False, steps, run_every_secs))


def stop_if_no_increase_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_increase: int,
    *,
    eval_name: str | None = None,
    run_every_secs: int = 60,
) -> EarlyStopping:
    """Return a hook that ends a training when a metric of the evaluations has not risen for a number of steps."""
    steps = max_steps_without_increase
    return EarlyStopping((estimator.model_dir, eval_name, metric_name, True, steps, run_every_secs))


def make_early_stopping_hook(
    estimator: Estimator,
    should_stop_fn: Callable[[], bool],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Return a hook that ends the training when a function says so. It is asked every so many seconds, or steps."""
    return _Asking(should_stop_fn, run_every_secs, run_every_steps)


class _Asking(SessionRunHook):
    def __init__(self, should_stop: Callable[[], bool], secs: float | None, steps: int | None) -> None:
        self._should_stop, self._secs, self._every = should_stop, secs or 0.0, steps
        self._asked, self._seen = float("-inf"), 0

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self._seen += 1
        due = self._seen % self._every == 0 if self._every else time.monotonic() - self._asked >= self._secs
        if not due:
            return
        self._asked = time.monotonic()
        if self._should_stop():
            run_context.request_stop()


class _NotebookProgress(SessionRunHook):
    """Shows the progress of a training in a notebook."""

    def __init__(self, last: int | None) -> None:
        self._last, self._loss = last, dict[str, float]()

    def _begin(self, global_step: int) -> None:
        self._bar = ProgressBar(self._last, global_step)

    def _after_step(self, global_step: int, loss: float) -> bool:
        self._loss = {"loss": loss}
        self._bar.update(global_step, self._loss)
        return False

    def _end(self, global_step: int) -> None:
        self._bar.update(global_step, self._loss, end=True)


def native_hooks(hooks: Sequence[Hook] | None, max_steps: int | None) -> list[Any]:
    """Return hooks as Rust calls them, and in a notebook one that shows the progress."""
    shown = [_NotebookProgress(max_steps)] if is_notebook() else []
    return [hook.settings if isinstance(hook, EarlyStopping) else hook for hook in [*(hooks or ()), *shown]]


class TrainSpec:
    """The input of a training, and the global step at which it ends; `None` trains until the input ends.

    >>> from phalanx.data import csv
    >>> spec = TrainSpec(lambda: csv("train.csv", label="income").shuffle(10_000).repeat().batch(128), max_steps=20_000)
    """

    def __init__(self, input_fn: InputFn, max_steps: int | None = None, hooks: Sequence[Hook] | None = None) -> None:
        if max_steps is not None and max_steps < 1:
            raise Error(f"max_steps is {max_steps}", "PX0309", place="TrainSpec", help="give at least 1")
        self.input_fn, self.max_steps, self.hooks = input_fn, max_steps, tuple(hooks or ())

    def _native(self, config: object) -> dict[str, Any]:
        input_fn = native(self.input_fn, "train", config)
        return {"input_fn": input_fn, "max_steps": self.max_steps, "hooks": native_hooks(self.hooks, self.max_steps)}


class EvalSpec:
    """The input and the schedule of evaluations. By default 100 batches are evaluated, at most every 600 seconds."""

    def __init__(
        self,
        input_fn: InputFn,
        steps: int | None = 100,
        name: str | None = None,
        *,
        exporters: Exporter | Iterable[Exporter] | None = None,
        start_delay_secs: int = 120,
        throttle_secs: int = 600,
        every_steps: int = 0,
    ) -> None:
        self.input_fn, self.steps, self.name = input_fn, steps, name
        self.exporters = (exporters,) if isinstance(exporters, Exporter) else tuple(exporters or ())
        self.start_delay_secs, self.throttle_secs, self.every_steps = start_delay_secs, throttle_secs, every_steps

    def _native(self, config: object) -> dict[str, Any]:
        return {
            "input_fn": native(self.input_fn, "eval", config),
            "steps": self.steps,
            "name": self.name,
            "start_delay_secs": self.start_delay_secs,
            "throttle_secs": self.throttle_secs,
            "every_steps": self.every_steps,
            "exporters": [exporter._settings for exporter in self.exporters],  # pyright: ignore[reportPrivateUsage]
        }


@dataclass(frozen=True)
class Report:
    """The outcome of `train_and_evaluate` in this task."""

    task: str | None
    """Such as `worker/0`; `None` if this process was the whole job."""
    global_step: int | None
    """The steps of all trainers, earlier runs included; `None` if this task did not train."""
    steps: int | None
    """The steps of this task."""
    loss: float | None
    """The loss of this task's last step."""
    seconds: float | None
    metrics: dict[str, float] | None
    """The last evaluation, if this task evaluated."""
    named_metrics: dict[str, dict[str, float]]
    """The last evaluation of every named `EvalSpec`."""


def train_and_evaluate(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec | Sequence[EvalSpec] = ()) -> Report:
    """Train and evaluate as the task that `TF_CONFIG` names; without it, in this process alone.

    Every task of a job runs the same script. A parameter server serves; chief and workers train; an evaluator evaluates
    every checkpoint. All return when the training has ended. Ctrl-C and SIGTERM save and end the job. A task of a launched job
    that fails ends its process with the exit code that launchers understand.
    """
    specs = (eval_spec,) if isinstance(eval_spec, EvalSpec) else tuple(eval_spec)
    config, native_estimator = estimator.config, estimator._native  # pyright: ignore[reportPrivateUsage]

    def run(stop: _phalanx.Stop) -> Report:
        train = train_spec._native(config)  # pyright: ignore[reportPrivateUsage]
        evals = [spec._native(config) for spec in specs]  # pyright: ignore[reportPrivateUsage]
        return Report(**native_estimator.train_and_evaluate(stop, train, evals))

    return as_task(run)
