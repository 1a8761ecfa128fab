"""`Dataset`: the stages of `tf.data.Dataset`, which run in Rust."""

from __future__ import annotations

import html
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from phalanx import _phalanx
from phalanx._errors import Error
from phalanx._notebook import table
from phalanx.data_columns import Columns, arrays, joined, over_arrays, prepared, rows_of
from phalanx.data_exit import until_exit

AUTOTUNE = -1
"""Lets the library choose a number of threads or the size of a buffer."""

_CHUNK = 1024


class InputContext:
    """Which of how many input pipelines an input function makes data for: TensorFlow's `InputContext`."""

    def __init__(self, num_input_pipelines: int = 1, input_pipeline_id: int = 0, num_replicas_in_sync: int = 1) -> None:
        self.num_input_pipelines = num_input_pipelines
        self.input_pipeline_id = input_pipeline_id
        self.num_replicas_in_sync = num_replicas_in_sync

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """Return the rows that one replica gets of a global batch."""
        if global_batch_size % self.num_replicas_in_sync:
            raise Error(
                f"a global batch of {global_batch_size} rows for {self.num_replicas_in_sync} replicas",
                "PX0309",
                help=f"choose a multiple of {self.num_replicas_in_sync}",
            )
        return global_batch_size // self.num_replicas_in_sync

    def __repr__(self) -> str:
        return f"<InputContext {self.input_pipeline_id} of {self.num_input_pipelines}>"


class Dataset:
    """A lazy sequence of rows, or of batches of rows after `batch`: `tf.data.Dataset`.

    Nothing is read before iteration, and every iteration starts from the beginning. Stages run in Rust; only the functions of
    `map`, `filter` and `from_generator` are Python, and they get columns of many rows at once.
    """

    def __init__(self, native: _phalanx.Dataset, label_name: str | None = None) -> None:
        """Use the functions of this module and the class methods instead."""
        self._native = native
        self._label = label_name

    def _then(self, native: _phalanx.Dataset) -> Dataset:
        return Dataset(native, self._label)

    # Sources

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """Return the rows of a mapping of arrays, or of a pair of features and labels.

        >>> Dataset.from_tensor_slices(({"x": [1, 2]}, [0, 1])).batch(2)
        Dataset(from_tensor_slices(2 rows) → batch(2))
        """
        return _in_memory(tensors, slices=True)

    @staticmethod
    def from_tensors(tensors: Any) -> Dataset:
        """Return a dataset of one batch: all rows."""
        return _in_memory(tensors, slices=False)

    @staticmethod
    def from_generator(generator: Callable[[], Iterable[Any]], *, label: str | None = None, batched: bool = False) -> Dataset:
        """Return the rows that a function's iterator yields: mappings, or pairs of features and a label, which `label` names.

        With `batched`, an element has arrays of many rows, which is faster: an element of one row costs microseconds of Python.

        >>> data = Dataset.from_generator(lambda: ({"x": float(i)} for i in range(3)))
        >>> [row["x"].item() for row in data]
        [0.0, 1.0, 2.0]
        """

        def columns(element: Any) -> dict[str, Any]:
            if not isinstance(element, tuple):
                return element
            if label is None:
                raise Error("a generator yields pairs, and the label has no name", "PX0404", help='name it: label="clicked"')
            features, target = cast("tuple[Any, Any]", element)
            return joined(features, {label: target})[0]

        def rows() -> Iterator[Any]:
            elements = iter(generator())
            while chunk := [columns(element) for element in islice(elements, 1 if batched else _CHUNK)]:
                yield prepared(chunk[0] if batched else {name: [row[name] for row in chunk] for name in chunk[0]})

        return Dataset(_phalanx.Dataset.from_generator(rows, label), label)

    @staticmethod
    def range(*args: int) -> Dataset:
        """Return integers in the column `value`, counted as `range` does."""
        counted = range(*args)
        return Dataset(_phalanx.Dataset.range(counted.start, counted.stop, counted.step))

    # Stages

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
    ) -> Dataset:
        """Call a function with the columns of many rows, or of a batch after `batch`; it returns as many rows of any columns.

        A function of two arguments gets features and label, and returns both.

        >>> data = Dataset.range(3).map(lambda c: {"square": c["value"] ** 2})
        >>> next(iter(data.batch(3)))["square"]
        array([0, 1, 4])
        """
        label, function = self._label, map_func
        if label is not None and _takes_two(map_func):

            def function(columns: Columns) -> Any:
                features = {name: values for name, values in columns.items() if name != label}
                made = map_func(features, columns[label])
                return joined(made[0], {label: made[1]})[0] if isinstance(made, tuple) else made

        mapped = over_arrays(lambda columns: prepared(function(columns)))
        return self._then(self._native.map(mapped, num_parallel_calls, deterministic))

    def filter(self, predicate: Callable[[Columns], Any]) -> Dataset:
        """Keep the rows for which a function of many rows returns true: an array with a flag per row.

        >>> [row["value"].item() for row in Dataset.range(5).filter(lambda c: c["value"] % 2 == 0)]
        [0, 2, 4]
        """
        keep = over_arrays(lambda columns: np.asarray(predicate(columns), dtype=bool).reshape(-1).tolist())
        return self._then(self._native.filter(keep))

    def shuffle(self, buffer_size: int, seed: int | None = None, reshuffle_each_iteration: bool = True) -> Dataset:
        """Shuffle in a buffer of this many elements, differently in every pass."""
        return self._then(self._native.shuffle(buffer_size, seed, reshuffle_each_iteration))

    def repeat(self, count: int | None = None) -> Dataset:
        """Repeat `count` times; without end by default, and with -1."""
        return self._then(self._native.repeat(None if count is None or count < 0 else count))

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """Make batches of rows; the last one may be smaller."""
        return self._then(self._native.batch(batch_size, drop_remainder))

    def unbatch(self) -> Dataset:
        """Take batches apart into rows."""
        return self._then(self._native.unbatch())

    def rebatch(self, batch_size: int | Sequence[int]) -> Dataset:
        """Make batches of another size, or of several in turn."""
        return self._then(self._native.rebatch([batch_size] if isinstance(batch_size, int) else list(batch_size)))

    def take(self, count: int) -> Dataset:
        """Keep the first elements only."""
        return self if count < 0 else self._then(self._native.take(count))

    def skip(self, count: int) -> Dataset:
        """Leave the first elements out."""
        return self._then(self._native.skip(count))

    def shard(self, num_shards: int | InputContext, index: int | None = None) -> Dataset:
        """Return every `num_shards`-th element, or the share of an input pipeline.

        >>> [row["value"].item() for row in Dataset.range(5).shard(2, 1)]
        [1, 3]
        """
        if isinstance(num_shards, InputContext):
            cx = num_shards
            native = self._native.shard_for(cx.num_input_pipelines, cx.input_pipeline_id, cx.num_replicas_in_sync)
            return self._then(native)
        return self._then(self._native.shard(num_shards, index or 0))

    def concatenate(self, dataset: Dataset) -> Dataset:
        """Return the elements of this dataset and then those of another."""
        return self._then(self._native.concatenate(dataset._native))

    @staticmethod
    def zip(*datasets: Dataset) -> Dataset:
        """Put the columns of several datasets side by side."""
        first, *others = datasets
        for other in others:
            first = Dataset(first._native.zip(other._native), first._label or other._label)
        return first

    def enumerate(self, start: int = 0) -> Dataset:
        """Add a column with the number of each element."""
        return self._then(self._native.enumerate(start))

    def cache(self, filename: str | PathLike[str] = "") -> Dataset:
        """Keep the elements of the first pass in memory, or in a folder."""
        return self._then(self._native.cache(fspath(filename) or None))

    def prefetch(self, buffer_size: int = AUTOTUNE) -> Dataset:
        """Read this many elements ahead, on a thread."""
        return self._then(self._native.prefetch(buffer_size))

    def label(self, name: str) -> Dataset:
        """Mark a column as the label that models learn."""
        return Dataset(self._native.label(name), name)

    def select(self, names: Iterable[str]) -> Dataset:
        """Keep these columns only."""
        return self._then(self._native.select(list(names)))

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """Return what a function makes of this dataset."""
        return transformation_func(self)

    # Elements

    def __iter__(self) -> Iterator[Columns]:
        """Yield every batch as arrays; every row as arrays without the first axis if the dataset is not batched."""
        batched = self._native.is_batched
        iterator = until_exit(self._native.iter())
        while (columns := iterator.next_chunk(1 if batched else _CHUNK)) is not None:
            chunk = arrays(columns)
            if batched:
                yield chunk
                continue
            yield from rows_of(chunk)

    def as_numpy_iterator(self) -> Iterator[Columns]:
        """Return an iterator over the elements."""
        return iter(self)

    @property
    def element_spec(self) -> dict[str, tuple[str, tuple[int | None, ...]]]:
        """The type and the shape of every column, from the first element. Texts and lists are objects."""
        first = next(iter(self), None)
        if first is None:
            raise Error("the dataset is empty", "PX0405", place=str(self))
        batched = self._native.is_batched
        spec: dict[str, tuple[str, tuple[int | None, ...]]] = {}
        for name, values in first.items():
            array = np.asarray(values)
            spec[name] = (str(array.dtype), (None, *array.shape[1:]) if batched else array.shape)
        return spec

    def __repr__(self) -> str:
        return f"Dataset({self._native.describe()})"

    def _repr_html_(self) -> str:
        stages = self._native.describe().split(" → ")
        label = "" if self._label is None else f"<p>label: <code>{html.escape(self._label)}</code></p>"
        return table(["", "stage"], enumerate(stages, start=1)) + label

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            page = "docs/if-you-know-tensorflow.md has the stages of tf.data, and why some are missing"
            raise AttributeError(f"a Dataset of Phalanx has no {name}: {page}")


def _in_memory(tensors: Any, *, slices: bool) -> Dataset:
    pair = isinstance(tensors, tuple)
    if pair and len(cast("tuple[Any, ...]", tensors)) != 2:
        raise Error("a tuple is a pair of features and labels", "PX0404", help="name columns in a dict")
    columns, label = joined(*tensors) if pair else joined(tensors)
    return Dataset(_phalanx.Dataset.from_columns(prepared(columns), label, slices), label)


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    needed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    return len(needed) == 2
