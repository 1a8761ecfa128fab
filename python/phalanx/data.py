"""Input pipelines with the names of `tf.data`, read and shuffled in Rust.

>>> import numpy as np
>>> from phalanx.data import Dataset
>>> data = Dataset.from_tensor_slices({"age": np.array([39.0, 50.0, 38.0]), "job": ["clerk", "nurse", "cook"]})
>>> for batch in data.batch(2):
...     print(batch["age"], batch["job"])
[39. 50.] [b'clerk' b'nurse']
[38.] [b'cook']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any, Literal, TypeAlias

from phalanx import _phalanx
from phalanx._errors import Error
from phalanx.data_columns import Columns
from phalanx.data_dataset import AUTOTUNE, Dataset, InputContext

__all__ = [
    "AUTOTUNE",
    "Columns",
    "Dataset",
    "InputContext",
    "csv",
    "from_arrow",
    "npz",
    "parquet",
    "text_lines",
    "tfrecord",
]

Files: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]
"""Paths or patterns; `s3://` and others too."""
NonFinite: TypeAlias = Literal["fail", "skip", "zero", "keep"]
"""What happens to NaN and infinite numbers."""


def _files(files: Files) -> list[str]:
    several = [files] if isinstance(files, (str, PathLike)) else files
    return [fspath(file) for file in several]


def _rows(
    label: str | None,
    select: Iterable[str] | None,
    defaults: Mapping[str, Any] | None,
    required: Iterable[str],
    bad_rows: int | None,
    non_finite: NonFinite,
) -> dict[str, Any]:
    return {
        "label": label,
        "select": None if select is None else list(select),
        "defaults": list((defaults or {}).items()),
        "required": list(required),
        "bad_rows": bad_rows,
        "non_finite": non_finite,
    }


def csv(
    files: Files,
    *,
    names: Sequence[str] | None = None,
    header: bool = True,
    label: str | None = None,
    select: Iterable[str] | None = None,
    types: Mapping[str, str] | None = None,
    defaults: Mapping[str, float | str] | None = None,
    required: Iterable[str] = (),
    delimiter: str = ",",
    quotes: bool = True,
    trim: bool = False,
    na_values: Iterable[str] = (),
    comment: str | None = None,
    bad_rows: int | None = None,
    non_finite: NonFinite = "fail",
) -> Dataset:
    """Return the rows of CSV files, plain or gzip. Types follow from the first 100 rows, unless `types` has them.

    `bad_rows` is how many rows that do not parse are skipped; by default the first one is an error.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "people.csv")
    >>> _ = path.write_text("age,job,income\\n39,clerk,0\\n50,,1\\n")
    >>> next(iter(csv(path, label="income", defaults={"job": "unknown"}).batch(2)))["job"]
    array([b'clerk', b'unknown'], dtype=object)
    """
    text = {
        "names": None if names is None else list(names),
        "header": header,
        "delimiter": delimiter,
        "quotes": quotes,
        "trim": trim,
        "na_values": list(na_values),
        "comment": comment,
        "types": list((types or {}).items()),
    }
    rows = _rows(label, select, defaults, required, bad_rows, non_finite)
    return Dataset(_phalanx.Dataset.csv(_files(files), text, rows), label)


def parquet(
    files: Files,
    *,
    label: str | None = None,
    select: Iterable[str] | None = None,
    defaults: Mapping[str, float | str] | None = None,
    required: Iterable[str] = (),
    bad_rows: int | None = None,
    non_finite: NonFinite = "fail",
) -> Dataset:
    """Return the rows of Parquet files; only the columns of `select`, and the label, are decompressed."""
    rows = _rows(label, select, defaults, required, bad_rows, non_finite)
    return Dataset(_phalanx.Dataset.parquet(_files(files), rows), label)


def tfrecord(
    files: Files,
    features: Mapping[str, tuple[str, int | None]] | None = None,
    *,
    label: str | None = None,
    defaults: Mapping[str, float | str] | None = None,
    bad_rows: int | None = None,
    non_finite: NonFinite = "fail",
) -> Dataset:
    """Return the Examples of TFRecord files; without `features`, the records themselves in the column `record`.

    A feature is a type and the number of its values; `None` is any number.

    >>> features = {"price": ("float32", 1), "tags": ("int64", None)}
    >>> tfrecord("cars-*.tfrecord", features, label="price")
    Dataset(tfrecord)
    """
    wanted = None if features is None else [(name, kind, length) for name, (kind, length) in features.items()]
    rows = _rows(label, None, defaults, (), bad_rows, non_finite)
    return Dataset(_phalanx.Dataset.tfrecord(_files(files), wanted, rows), label)


def npz(files: Files, *, label: str | None = None, select: Iterable[str] | None = None) -> Dataset:
    """Return the arrays of `.npz` files, which have as many rows, as columns."""
    selected = None if select is None else list(select)
    return Dataset(_phalanx.Dataset.npz(_files(files), label, selected), label)


def text_lines(files: Files, *, skip_lines: int = 0) -> Dataset:
    """Return the lines of text files in the column `line`."""
    return Dataset(_phalanx.Dataset.text_lines(_files(files), skip_lines))


def from_arrow(
    data: Any,
    *,
    label: str | None = None,
    select: Iterable[str] | None = None,
    defaults: Mapping[str, float | str] | None = None,
    required: Iterable[str] = (),
    bad_rows: int | None = None,
    non_finite: NonFinite = "fail",
) -> Dataset:
    """Return the rows of anything with `__arrow_c_stream__`: a data frame of Polars or pandas, a `pyarrow.Table`, a relation of
    DuckDB.

    The data frame's memory is used in place, and lives as long as the dataset. Rows are copied as they are read, in chunks.
    Missing values become the column's default, or 0 and the empty string.
    """
    if not hasattr(data, "__arrow_c_stream__"):
        raise Error(
            f"a {type(data).__name__} has no __arrow_c_stream__",
            "PX0402",
            help="give a data frame or an Arrow table; from_tensor_slices takes arrays",
        )
    rows = _rows(label, select, defaults, required, bad_rows, non_finite)
    return Dataset(_phalanx.Dataset.from_arrow(data.__arrow_c_stream__(), rows), label)
