"""What a call to the coordinator leaves, for all tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from phalanx._errors import Error
from phalanx._values import decode, encode

_CANCELLED = "PX0310"
"""The code of steps that another one's error has ended before they began."""


@dataclass(frozen=True)
class VariableShard:
    """A shard of a variable: some of its rows, on one parameter server."""

    name: str
    """`emb.weight/part_0`, or the name of the variable where there is only one shard."""
    shape: tuple[int, ...]
    device: str
    """As TensorFlow prints it: `/job:ps/replica:0/task:1/device:CPU:0`."""


@dataclass(frozen=True)
class ShardedVariable:
    """A variable and its shards, in the order of their rows."""

    name: str
    shards: list[VariableShard]


def sharded(described: Any) -> ShardedVariable:
    """Return a variable as Rust describes it."""
    name, shards = described
    return ShardedVariable(name, [VariableShard(own, tuple(shape), device) for own, shape, device in shards])


@dataclass(frozen=True)
class StepResult:
    """The result of a step, or its error."""

    result: Any
    error: Error | None = None

    def value(self) -> Any:
        """Return the result."""
        if self.error is not None:
            raise self.error
        return self.result


@dataclass
class Outcome:
    """The results of a call's steps, the states of the metrics, the first error, and what the program adds."""

    results: dict[int, StepResult] = field(default_factory=dict[int, StepResult])
    metrics: list[list[float]] = field(default_factory=list[list[float]])
    error: Error | None = None
    extra: Any = None
    global_step: int = 0

    def take(self, data: bytes | None, error: Error | None, merge: Callable[[int, list[float]], None]) -> StepResult:
        """Return the result of a step; `merge` adds to a metric what the step adds."""
        if data is None:
            if error is not None and (self.error is None or self.error.code == _CANCELLED):
                self.error = error
            return StepResult(None, error)
        result, added = decode(data)
        for metric, words in added.items():
            merge(metric, words)
        return StepResult(result)

    def encoded(self) -> bytes:
        """Return it as the chief sends it."""
        results = [[number, one.result, _parts(one.error)] for number, one in self.results.items()]
        return encode([results, self.metrics, _parts(self.error), self.extra, self.global_step])

    @classmethod
    def decoded(cls, data: bytes) -> Outcome:
        """Return what the chief has sent."""
        results, metrics, error, *rest = decode(data)
        return cls({at: StepResult(result, _error(parts)) for at, result, parts in results}, metrics, _error(error), *rest)

    def raise_error(self) -> None:
        """Raise the first error of a step, if there is one."""
        if self.error is not None:
            raise self.error


def _parts(error: Error | None) -> list[Any] | None:
    return None if error is None else [error.what, error.code, error.place, error.cause, error.help, error.exit_code]


def _error(parts: list[Any] | None) -> Error | None:
    return None if parts is None else Error(*parts)
