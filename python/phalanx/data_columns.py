"""Columns as NumPy's arrays, and what people hand over as columns: arrays, lists, series, texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from phalanx._errors import Error

Array: TypeAlias = npt.NDArray[Any]
Columns: TypeAlias = dict[str, Array]
"""Rows as columns: every array has one value, list or tensor per row."""

Leaving: TypeAlias = tuple[str, Any, int, list[int], Any]
"""A column from Rust: name, flat values, rows, shape of a row, ends of ragged rows."""
Arriving: TypeAlias = tuple[str, Any, list[int], Any]
"""A column for Rust: name, flat values, shape of a row, ends of ragged rows."""


def arrays(columns: list[Leaving]) -> Columns:
    """Return columns from Rust as arrays. Texts are `bytes` in arrays of objects, as in TensorFlow; so are lists per row."""
    return {name: _array(values, rows, row_shape, splits) for name, values, rows, row_shape, splits in columns}


def rows_of(columns: Columns) -> Iterator[dict[str, Any]]:
    """Yield the rows of columns."""
    for row in range(min((len(values) for values in columns.values()), default=0)):
        yield {name: values[row] for name, values in columns.items()}


def _array(values: Any, rows: int, row_shape: list[int], splits: Any) -> Array:
    flat: Array = _objects(cast("list[Any]", values)) if isinstance(values, list) else np.asarray(values)
    if flat.dtype == np.int64:
        # C has two types of this size, of which only one is NumPy's own.
        flat = flat.view(np.int64)
    if splits is None:
        return flat.reshape(rows, *row_shape)
    items = flat.reshape(-1, *row_shape)
    return _objects(np.split(items, np.asarray(splits)[1:-1]) if rows else [])


def _objects(values: list[Any]) -> Array:
    array = np.empty(len(values), dtype=object)
    # Assigning the list at once would make a matrix of lists of one length.
    for at, value in enumerate(values):
        array[at] = value
    return array


def prepared(columns: Mapping[str, Any]) -> list[Arriving]:
    """Return columns for Rust, with the types that exist there: float32, int64, uint8 and texts."""
    if not isinstance(columns, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - users' functions return anything
        raise Error(
            f"columns are a {type(columns).__name__}", "PX0404", help="return a dict of arrays, one value or list per row"
        )
    return [_prepared(str(name), values) for name, values in columns.items()]


def _prepared(name: str, values: Any) -> Arriving:
    try:
        array = np.asarray(values)
    except ValueError:
        # Lists of several lengths.
        array = _objects(list(values))
    if array.ndim == 0:
        raise Error(f"column {name!r} is a single value", "PX0303", help="give one value per row: an array or a list")
    if array.dtype.kind == "O":
        return _prepared_objects(name, array)
    return name, _flat(name, array), list(array.shape[1:]), None


def _prepared_objects(name: str, array: Array) -> Arriving:
    """Texts, texts with missing values, or lists of several lengths."""
    flat: list[Any] = array.ravel().tolist()
    if all(isinstance(value, (str, bytes)) or _is_missing(value) for value in flat):
        return name, [_text(value) for value in flat], list(array.shape[1:]), None
    if not all(isinstance(value, (list, tuple, np.ndarray)) for value in flat):
        numbers = np.asarray([np.nan if value is None else value for value in flat])
        if numbers.dtype.kind == "O":
            raise _unknown(name, {type(value).__name__ for value in flat})
        return name, _flat(name, numbers), list(array.shape[1:]), None
    splits = np.zeros(len(flat) + 1, dtype=np.int64)
    np.cumsum([len(value) for value in flat], out=splits[1:])
    full = [np.asarray(value) for value in flat if len(value)]
    items = np.concatenate(full) if full else np.empty(0, dtype=np.float32)
    return (*_prepared(name, items)[:3], splits)


def _flat(name: str, array: Array) -> Any:
    kind = array.dtype.kind
    if kind in "SU":
        return [_text(value) for value in array.ravel().tolist()]
    if kind == "M":
        raise Error(
            f"column {name!r} has times of NumPy", "PX0404", help="convert it: .astype('int64'), or strings as in ISO 8601"
        )
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array).reshape(-1)
    if kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise Error(f"column {name!r} has numbers beyond int64", "PX0404", help="give them as strings")
    wanted = {"f": np.float32, "i": np.int64, "u": np.int64, "b": np.int64}.get(kind)
    if wanted is None:
        raise _unknown(name, {str(array.dtype)})
    return np.ascontiguousarray(array, dtype=wanted).reshape(-1)


def _unknown(name: str, types: set[str]) -> Error:
    return Error(f"column {name!r} has values of type {', '.join(sorted(types))}", "PX0404", help="give numbers or texts")


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"


def _text(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else b""


LABEL = "label"
"""The name of a label that was given without one."""


def joined(features: Any, labels: Any = None) -> tuple[dict[str, Any], str | None]:
    """Return features, and labels if there are some, as one mapping, with the name of the label.

    >>> joined({"x": [1, 2]}, [0, 1])
    ({'x': [1, 2], 'label': [0, 1]}, 'label')
    """
    # A data frame maps names to columns.
    columns: dict[str, Any] = {str(name): features[name] for name in features} if hasattr(features, "keys") else {}
    if not columns:
        columns = {"x": features}
    if labels is None:
        return columns, None
    named: Mapping[str, Any] = cast("Mapping[str, Any]", labels) if isinstance(labels, Mapping) else dict[str, Any]()
    if len(named) == 1:
        name, values = next(iter(named.items()))
    else:
        name, values = str(getattr(cast("object", labels), "name", None) or LABEL), cast("object", labels)
    if name in columns:
        raise Error(
            f"a feature has the label's name, {name!r}", "PX0404", help="rename the feature, or name the label: {'clicked': y}"
        )
    return {**columns, name: values}, name


def over_arrays(function: Callable[[Columns], Any]) -> Callable[[list[Leaving]], Any]:
    """Return a function of columns from Rust that calls `function` with arrays."""
    return lambda columns: function(arrays(columns))
