"""Jobs described by a file (docs/job-toml.md): training without a program.

>>> import phalanx
>>> done = phalanx.train("census.toml", set={"train.batch_size": 256}, model_dir="runs/a")  # doctest: +SKIP
>>> done.metrics["accuracy"]  # doctest: +SKIP
0.8523
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from phalanx import _phalanx
from phalanx._errors import Error
from phalanx.estimator_task import as_task

if TYPE_CHECKING:
    from phalanx.data_columns import Columns

__all__ = ["JobReport", "evaluate", "export", "predict", "train"]


@dataclass(frozen=True)
class JobReport:
    """The outcome of a job in this task."""

    task: str | None
    """Such as `worker/0`; `None` if this process was the whole job."""
    model_dir: str
    """The run directory."""
    global_step: int | None
    """The steps of all trainers, earlier runs included; `None` if this task did not train."""
    steps: int | None
    """The steps of this task."""
    loss: float | None
    """The loss of this task's last step."""
    seconds: float | None
    steps_per_s: float | None
    metrics: dict[str, float] | None
    """The last evaluation, if this task evaluated."""
    named_metrics: dict[str, dict[str, float]]
    """The last evaluation of every named `[[eval]]`."""


def train(
    path: str | PathLike[str],
    *,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the flag of the command
    data_dir: str | PathLike[str] | None = None,
    model_dir: str | PathLike[str] | None = None,
    max_steps: int | None = None,
    seed: int | None = None,
) -> JobReport:
    """Train and evaluate the job in a file, as the task that `TF_CONFIG` names: `phalanx train`.

    `set` has values of any keys, instead of the file's: `{"train.batch_size": 64}`. A run with some gets a directory of its own,
    unless `model_dir` names one.
    """
    given = _given(set, data_dir, model_dir, max_steps, seed)
    return as_task(lambda stop: JobReport(**_phalanx.train_job(stop, fspath(path), given)))


def evaluate(
    path: str | PathLike[str],
    input: str | None = None,  # noqa: A002 - the flag of the command
    *,
    data_dir: str | PathLike[str] | None = None,
) -> dict[str, float]:
    """Evaluate a run directory of a job, or an export, on the job's own files or on `input`: `phalanx eval`."""
    return _phalanx.evaluate_job(fspath(path), input, _given(None, data_dir, None, None, None))


def predict(
    path: str | PathLike[str],
    input: str,  # noqa: A002 - the flag of the command
    *,
    id: str | None = None,  # noqa: A002 - the flag of the command
    no_label: bool = False,
) -> Columns:
    """Predict every row of a file with a run directory of a job, or an export: `phalanx predict`.

    `id` is a column of the input that is carried through. `no_label` says that rows of a CSV file without a header have no label.
    """
    import numpy as np

    from phalanx.data_columns import arrays

    batches: list[Columns] = []
    _phalanx.predict_job(fspath(path), input, id, no_label, lambda columns: batches.append(arrays(columns)))
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]} if batches else {}


def export(model_dir: str | PathLike[str], base: str | PathLike[str], *, raw: bool = False) -> Path:
    """Export the newest checkpoint of a job as a SavedModel into a new folder of `base`: `phalanx export`. Returns the folder.

    The model takes serialized Examples, or with `raw` a tensor for each feature.
    """
    return Path(_phalanx.export_job(fspath(model_dir), fspath(base), raw))


def _given(
    values: Mapping[str, Any] | None,
    data_dir: str | PathLike[str] | None,
    model_dir: str | PathLike[str] | None,
    max_steps: int | None,
    seed: int | None,
) -> dict[str, Any]:
    return {
        "data_dir": None if data_dir is None else fspath(data_dir),
        "model_dir": None if model_dir is None else fspath(model_dir),
        "max_steps": max_steps,
        "seed": seed,
        "set": [f"{key}={_toml(key, value)}" for key, value in (values or {}).items()],
    }


def _toml(key: str, value: Any) -> str:
    """Return a value as TOML.

    >>> [_toml("k", value) for value in (64, 0.5, True, "adam", [1, 2])]
    ['64', '0.5', 'true', '"adam"', '[1, 2]']
    """
    if isinstance(value, (bool, int, float, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml(key, item) for item in cast('list[Any]', value))}]"
    raise Error(f"the value of {key!r} is a {type(value).__name__}", "PX0115", help="give a number, a text, a flag or a list")
