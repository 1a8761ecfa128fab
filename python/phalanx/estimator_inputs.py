"""Input functions: what they may return, and TensorFlow's `numpy_input_fn` and `pandas_input_fn`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from phalanx._errors import Error
from phalanx.data import Dataset, InputContext
from phalanx.data_columns import joined

InputFn: TypeAlias = Callable[..., Any]
"""Returns a dataset, or features and labels. It may take `input_context`, `mode`, `params` and `config`, or one argument of any
other name, which is the context."""

Mode: TypeAlias = Literal["train", "eval", "infer"]


def native(input_fn: InputFn, mode: Mode, config: object) -> Callable[[int, int, int], Dataset]:
    """Return an input function as Rust calls it."""
    names = _parameters(input_fn)

    def call(pipelines: int, pipeline: int, replicas: int) -> Dataset:
        known: dict[str, object] = {"mode": mode, "params": {}, "config": config}
        context = InputContext(pipelines, pipeline, replicas)
        given = {name: known.get(name, context) for name in names}
        return as_dataset(input_fn(**given), repeat=mode == "train")

    return call


def _parameters(input_fn: InputFn) -> list[str]:
    """Return the names of the arguments that have no default."""
    parameters = inspect.signature(input_fn).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    others = [name for name in needed if name not in ("mode", "params", "config", "input_context")]
    if len(others) > 1 or (others and "input_context" in needed):
        raise Error(
            f"an input function takes {', '.join(others)}",
            "PX0309",
            help="it may take input_context, mode, params and config; bind others with functools.partial",
        )
    return needed


def as_dataset(made: Any, *, repeat: bool) -> Dataset:
    """Return what an input function made as a dataset. Arrays are one batch, which a training repeats, as TensorFlow does."""
    if isinstance(made, Dataset):
        return made
    if isinstance(made, (tuple, Mapping)) or hasattr(made, "columns"):
        data = Dataset.from_tensors(made)
        return data.repeat() if repeat else data
    raise Error(
        f"an input function returned a {type(made).__name__}",
        "PX0309",
        help="return a phalanx.data.Dataset, or features and labels",
    )


def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
) -> Callable[[], Dataset]:
    """Return an input function of arrays: `x` is a dict of arrays or one array, `y` the labels.

    `shuffle` must be given, as in TensorFlow; it shuffles in a buffer of `queue_capacity` rows.
    """
    if shuffle is None:
        raise Error("shuffle is not given", "PX0309", place="numpy_input_fn", help="give True to train, False to predict")
    columns, label = joined(x, y)
    rows = Dataset.from_tensor_slices(columns)
    rows = rows if label is None else rows.label(label)

    def input_fn() -> Dataset:
        data = rows.shuffle(queue_capacity) if shuffle else rows
        return data.repeat(num_epochs).batch(batch_size)

    return input_fn


def pandas_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    target_column: str = "target",
) -> Callable[[], Dataset]:
    """Return an input function of a data frame and a series of labels, which is called `target_column`."""
    labels = None if y is None else {target_column: y}
    return numpy_input_fn(x, labels, batch_size, num_epochs, shuffle, queue_capacity)
