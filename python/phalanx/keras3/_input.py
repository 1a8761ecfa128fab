"""The input of a worker of `phalanx.keras3`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import numpy as np

from phalanx._errors import Error
from phalanx.data_dataset import Dataset, InputContext
from phalanx.keras3._backend import keras

Batch = tuple[Any, ...]
"""Inputs, targets and weights, as far as they are there."""


class DatasetCreator:
    """Data that every worker makes for itself: `dataset_fn` gets an `InputContext`, and returns anything to iterate over."""

    def __init__(self, dataset_fn: Callable[[InputContext], Iterable[Any]]) -> None:
        self.dataset_fn = dataset_fn


class TrainingData:
    """The data of a `fit`: arrays, or something to iterate over."""

    def __init__(self, x: Any, y: Any, sample_weight: Any, batch_size: int | None, shuffle: bool) -> None:
        self._given = x
        self._batch_size, self._shuffle = batch_size or 32, shuffle
        self._arrays: Batch | None = None
        if not isinstance(x, (Dataset, DatasetCreator)) and _is_arrays(x):
            given = [x, y, sample_weight]
            while given[-1] is None:
                given.pop()
            self._arrays = tuple(keras.tree.map_structure(_array, one) for one in given)

    def steps(self, given: int | None) -> int:
        """Return the steps of an epoch."""
        if given is not None:
            return given
        if self._arrays is not None:
            return -(-self._rows() // self._batch_size)
        if hasattr(self._given, "__len__"):
            return len(self._given)
        raise Error(
            "the number of steps of an epoch is not known",
            "PX0309",
            cause=f"a {type(self._given).__name__} has no length",
            help="give steps_per_epoch",
        )

    def first(self) -> Batch:
        """Return a batch, from which an unbuilt model learns its shapes."""
        return next(self.batches(InputContext(), forever=False))

    def batches(self, context: InputContext, *, forever: bool = True) -> Iterator[Batch]:
        """Yield the batches of a worker's share."""
        passes = 0
        while forever or passes == 0:
            empty = True
            for batch in self._pass(context, passes):
                empty = False
                yield batch
            if empty:
                raise Error("the data of a worker is empty", "PX0405", place=f"pass {passes}, {context!r}")
            passes += 1

    def _pass(self, context: InputContext, number: int) -> Iterator[Batch]:
        if self._arrays is not None:
            return self._of_arrays(context, number)
        data = self._given
        if isinstance(data, DatasetCreator):
            data = data.dataset_fn(context)
        elif isinstance(data, Dataset) and context.num_input_pipelines > 1:
            data = data.shard(context)
        return batches_of(data)

    def _rows(self) -> int:
        return len(keras.tree.flatten(self._arrays)[0])

    def _of_arrays(self, context: InputContext, number: int) -> Iterator[Batch]:
        # Each worker has every n-th row of its own, or all of them if there are few.
        share = slice(context.input_pipeline_id, None, context.num_input_pipelines)
        rows = np.arange(self._rows())
        rows = rows[share] if len(rows[share]) else rows
        if self._shuffle:
            np.random.default_rng((number, context.input_pipeline_id)).shuffle(rows)
        for start in range(0, len(rows), self._batch_size):
            chosen = rows[start : start + self._batch_size]
            yield tuple(keras.tree.map_structure(_Rows(chosen), one) for one in self._arrays or ())


def batches_of(data: Any) -> Iterator[Batch]:
    """Yield the batches of a dataset, of a `PyDataset`, or of anything to iterate over."""
    if isinstance(data, Dataset):
        label = data._label  # pyright: ignore[reportPrivateUsage]
        for columns in data:
            features = {name: values for name, values in columns.items() if name != label}
            inputs: Any = next(iter(features.values())) if len(features) == 1 else features
            yield (inputs,) if label is None else (inputs, columns[label])
        return
    if isinstance(data, keras.utils.PyDataset):
        data = (data[at] for at in range(data.num_batches))
    for batch in data:
        yield tuple(cast("Iterable[Any]", batch)) if isinstance(batch, (tuple, list)) else (batch,)


class _Rows:
    """Takes rows of an array."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def __call__(self, array: Any) -> Any:
        return array[self._rows]


def _is_arrays(x: Any) -> bool:
    if isinstance(x, (Mapping, list, tuple)):
        return all(_is_arrays(one) for one in keras.tree.flatten(x))
    return isinstance(x, np.ndarray) or (hasattr(x, "__array__") and hasattr(x, "shape"))


def _array(values: Any) -> Any:
    array = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    return array.astype(keras.config.floatx()) if array.dtype == np.float64 else array
