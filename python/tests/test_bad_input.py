"""No input, however odd, reaches Python as a panic: what is wrong is a `phalanx.Error` or one of Python's own errors."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from phalanx import _phalanx, data, estimator, feature_column, keras

# These start tasks or programs: other tests give them bad input.
LEFT_OUT = {"Server", "MiniCluster", "Session", "run_command", "train_job", "Stop"}

ODD: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**63, -(2**63), 2**70, 0.5, -0.0, float("nan"), float("inf"), 1e308,
    "", "x", "\0", "é" * 300, "mse", "adam", "../..", "s3://", b"", b"\xff\xfe", [], {}, (), [[]], [None], ["x"], [1, "x"],
    {"x": None}, {"x": []}, {"": 1}, ("x", -1), object(), len, type,
    np.zeros(0), np.zeros((2, 0)), np.ones(3), np.ones((2, 2), np.int8), np.array(1.0), np.array(["a", "b"]),
    np.array([1, None], object), np.ones(4, np.float32)[::2], np.array([np.nan]), np.array(["2020-01-01"], "datetime64[s]"),
]  # fmt: skip


def functions(module: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public functions and classes of a module, and the methods that need no object."""
    for name, thing in vars(module).items():
        if name.startswith("_") or name in LEFT_OUT or not callable(thing):
            continue
        if getattr(thing, "__module__", "").split(".")[0] != "phalanx":
            continue
        yield name, thing
        for inner, method in vars(thing).items() if inspect.isclass(thing) else ():
            if isinstance(method, staticmethod):
                yield f"{name}.{inner}", getattr(thing, inner)


def arguments(function: Callable[..., Any], chosen: random.Random) -> list[Any]:
    """Choose arguments for a function."""
    try:
        count = len(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        count = 2
    return [chosen.choice(ODD) for _ in range(chosen.randint(0, count))]


def tried(function: Callable[..., Any], *given: Any) -> Any:
    """Call a function; return what it returned, or nothing after an error that is no panic."""
    try:
        return function(*given)
    except Exception as exception:
        # PyO3's panics are no `Exception`; those that our calls catch say what they are.
        if "panicked" in str(exception):
            raise
        return None


def methods(thing: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield what can be called of an object of ours, and computes nothing."""
    for name in dir(type(thing)):
        if not name.startswith("_") and name not in ("iter", "train", "train_and_evaluate", "fit", "export"):
            method = tried(getattr, thing, name)
            if callable(method):
                yield name, method


@pytest.mark.parametrize("module", [_phalanx, data, estimator, feature_column, keras, keras.layers], ids=lambda one: one.__name__)
def test_odd_arguments_are_errors(module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    chosen, called = random.Random(7), 0
    for _name, function in functions(module):
        for _ in range(60):
            made = tried(function, *arguments(function, chosen))
            called += 1
            if type(made).__module__.startswith("phalanx"):
                tried(repr, made)
                for _inner, method in methods(made):
                    tried(method, *arguments(method, chosen))
    assert called > 50


CHAINS = ("map", "filter", "shuffle", "repeat", "batch", "take", "skip", "shard", "label", "select", "prefetch", "rebatch", "zip")


def test_odd_pipelines_are_errors() -> None:
    chosen, rows = random.Random(11), 0
    for _ in range(400):
        columns = {str(name): chosen.choice(ODD) for name in range(chosen.randint(1, 3))}
        made = tried(data.Dataset.from_tensor_slices, columns)
        made = data.Dataset.range(chosen.randint(-2, 5)) if made is None else made
        for _ in range(chosen.randint(0, 3)):
            stage = getattr(made, chosen.choice(CHAINS))
            then = tried(stage, *arguments(stage, chosen))
            made = then if isinstance(then, data.Dataset) else made
        rows += len(tried(lambda made=made: [row for row, _ in zip(made, range(5), strict=False)]) or [])
    assert rows > 50
