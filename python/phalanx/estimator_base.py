"""`Estimator`: trains, evaluates, predicts and exports a model in a run directory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np

from phalanx import _phalanx
from phalanx._errors import Error
from phalanx._notebook import table
from phalanx.data_columns import Array, arrays, rows_of
from phalanx.data_exit import until_exit
from phalanx.estimator_config import RunConfig, WarmStartSettings
from phalanx.estimator_inputs import InputFn, native
from phalanx.estimator_specs import Hook, ServingInputReceiver, extra_files, native_hooks
from phalanx.estimator_task import as_task
from phalanx.feature_column import FeatureColumn

WarmStart: TypeAlias = WarmStartSettings | str


class Estimator:
    """A model and its run directory. Use one of the canned models."""

    def __init__(
        self,
        model: _phalanx.Model,
        model_dir: str | PathLike[str] | None,
        config: RunConfig | None,
        warm_start_from: WarmStart | None,
    ) -> None:
        self._config = RunConfig() if config is None else config
        own = None if model_dir is None else fspath(model_dir)
        self._model_dir = _model_dir(own, self._config)
        self._native = _phalanx.Estimator(
            model,
            self._config._native(self._model_dir, warm_start_from),  # pyright: ignore[reportPrivateUsage]
        )

    @property
    def config(self) -> RunConfig:
        """The settings of the run."""
        return self._config

    @property
    def model_dir(self) -> str:
        """The run directory."""
        if self._model_dir is None:
            raise Error(
                "a job of several tasks needs a model_dir", "PX0107", help="set one that all tasks see: RunConfig(model_dir=...)"
            )
        return self._model_dir

    def train(
        self,
        input_fn: InputFn,
        hooks: Sequence[Hook] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
    ) -> Self:
        """Train from the newest checkpoint, or from the start: `steps` more, or up to the global step `max_steps`."""
        if steps is not None and max_steps is not None:
            raise Error("steps and max_steps are both given", "PX0309", place="train", help="leave one of them out")
        own = native(input_fn, "train", self._config)
        as_task(lambda stop: self._native.train(stop, own, steps, max_steps, native_hooks(hooks, max_steps)))
        return self

    def evaluate(self, input_fn: InputFn, steps: int | None = None, *, name: str | None = None) -> dict[str, float]:
        """Evaluate the newest checkpoint on `steps` batches, or on all, and write the metrics to `eval` or `eval_NAME`."""
        return self._native.evaluate(native(input_fn, "eval", self._config), steps, name)

    def predict(
        self,
        input_fn: InputFn,
        predict_keys: str | Sequence[str] | None = None,
        *,
        yield_single_examples: bool = True,
        carry: Sequence[str] = (),
    ) -> Iterator[dict[str, Any]]:
        """Yield the predictions for every row, or for every batch: `probabilities`, `class_ids`, … or `predictions`.

        `carry` are columns of the input that are part of the predictions, such as an id.
        """
        predictions = until_exit(self._native.predict(native(input_fn, "infer", self._config), list(carry)))
        keys = [predict_keys] if isinstance(predict_keys, str) else predict_keys
        return _rows(predictions, keys, list(carry), yield_single_examples)

    def export_saved_model(
        self,
        export_dir_base: str | PathLike[str],
        serving_input_receiver_fn: ServingInputReceiver | None = None,
        assets_extra: Mapping[str, str | PathLike[str]] | None = None,
    ) -> Path:
        """Export the newest checkpoint as a SavedModel for TensorFlow. Returns its folder, named by the seconds since 1970."""
        raw = (serving_input_receiver_fn or ServingInputReceiver()).kind == "raw"
        return Path(self._native.export_saved_model(fspath(export_dir_base), raw, extra_files(assets_extra)))

    def _repr_html_(self) -> str:
        checkpoint = self.latest_checkpoint() or "none: it is not trained"
        rows = [("model", type(self).__name__), ("model_dir", self._model_dir), ("newest checkpoint", checkpoint)]
        return table(["estimator", ""], rows)

    def latest_checkpoint(self) -> str | None:
        """Return the path of the newest checkpoint, if there is one."""
        name = self._native.latest_checkpoint()
        return None if name is None else f"{self.model_dir.rstrip('/')}/{name}"

    def eval_dir(self, name: str | None = None) -> str:
        """Return the folder of the metrics of evaluations."""
        return f"{self.model_dir.rstrip('/')}/{'eval' if name is None else f'eval_{name}'}"

    def get_variable_names(self) -> list[str]:
        """Return the names of the variables of the newest checkpoint."""
        return [name for name, _ in self._native.variables()]

    def get_variable_value(self, name: str) -> Array:
        """Return the value of a variable of the newest checkpoint."""
        values, shape = self._native.variable(name)
        return np.asarray(values).reshape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model_dir={self._model_dir!r})"


def _model_dir(own: str | None, config: RunConfig) -> str | None:
    """Return the one run directory that the estimator, its settings, TF_CONFIG or the launcher names."""
    if own is not None and config._own_model_dir not in (None, own):  # pyright: ignore[reportPrivateUsage]
        raise Error(
            "there are two run directories",
            "PX0107",
            cause=f"the estimator has {own!r}, its config {config.model_dir!r}",
            help="set it once",
        )
    chosen = own if own is not None else config.model_dir
    if chosen is None and config.task_config.is_local:
        return tempfile.mkdtemp()
    return chosen


def _rows(
    predictions: _phalanx.Predictions, keys: Sequence[str] | None, carry: list[str], single: bool
) -> Iterator[dict[str, Any]]:
    while (columns := predictions.next_batch()) is not None:
        batch = arrays(columns)
        if keys is not None:
            kept = {name: batch[name] for name in [*carry, *keys] if name in batch}
            if len(kept) <= len(carry):
                raise Error(
                    f"no prediction is called {', '.join(keys)}", "PX0309", help=f"the predictions are {', '.join(batch)}"
                )
            batch = kept
        if not single:
            yield batch
            continue
        yield from rows_of(batch)


def settings(**given: Any) -> dict[str, Any]:
    """Return the settings of a model, with the defaults for those that it does not have."""
    defaults: dict[str, Any] = {
        "n_classes": 2,
        "label_dimension": 1,
        "label_vocabulary": None,
        "weight_column": None,
        "loss_reduction": "sum_over_batch_size",
        "thresholds": [],
        "eval_metrics": [],
        "group_by": None,
        "poisson": False,
        "hidden_units": [],
        "bottom_units": [],
        "activation": "relu",
        "dropout": None,
        "batch_norm": False,
        "precision": "float32",
        "optimizer": None,
        "linear_optimizer": None,
        "dnn_optimizer": None,
        "sparse_combiner": "sum",
        "l2": 0.0,
        "embedding_l2": 0.0,
        "dimension": 0,
        "global_mean": 0.0,
    }
    unknown = given.keys() - defaults.keys()
    assert not unknown, f"no model has the settings {unknown}"
    made = {**defaults, **given}
    made["activation"] = _name_of(made["activation"])
    made["loss_reduction"] = str(getattr(made["loss_reduction"], "value", made["loss_reduction"]))
    column = made["weight_column"]
    made["weight_column"] = column.name if isinstance(column, FeatureColumn) else column
    made["hidden_units"], made["bottom_units"] = list(made["hidden_units"]), list(made["bottom_units"])
    return made


def _name_of(activation: str | Callable[..., Any] | None) -> str:
    """Return the name of an activation, given by name or as a function such as `torch.nn.functional.relu`."""
    if activation is None:
        return "linear"
    return activation if isinstance(activation, str) else str(getattr(activation, "__name__", activation))
