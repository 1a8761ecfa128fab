"""References to what is on workers: results of steps, datasets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from phalanx._errors import Error
from phalanx.torch._outcome import StepResult

if TYPE_CHECKING:
    from phalanx.torch._coordinator import ClusterCoordinator

T = TypeVar("T")


class RemoteValue(Generic[T]):
    """The future result of a step."""

    def __init__(self, coordinator: ClusterCoordinator) -> None:
        self._coordinator = coordinator
        self.result: StepResult | None = None
        """The result, or the error, once this task knows it."""

    def fetch(self) -> T:
        """Wait for the result, with those of all steps that are scheduled, and return it."""
        if self.result is None:
            self._coordinator.synchronize()
        if self.result is None:
            raise Error("the outcome of a step is not known", "PX0312", cause="the job ended before its worker reported it")
        return self.result.value()

    get = fetch

    def __repr__(self) -> str:
        return f"<RemoteValue {'waiting' if self.result is None else self.result}>"


class PerWorkerDataset(Generic[T]):
    """A dataset that every worker makes for itself. Give it, or `iter` of it, to a step."""

    def __init__(self, index: int) -> None:
        self.index = index

    def __iter__(self) -> PerWorkerIterator[T]:
        return PerWorkerIterator(self.index)


class PerWorkerIterator(Iterator[T]):
    """An iterator of which every worker has its own: a step gets that of the worker that computes it."""

    def __init__(self, index: int) -> None:
        self.index = index

    def __next__(self) -> T:
        raise Error("a per-worker iterator is read in steps", "PX0309", help="give it to schedule as an argument")


def described(value: object) -> list[Any] | None:
    """Return how a reference travels to a worker, which has its own."""
    if isinstance(value, PerWorkerIterator):
        return ["iterator", value.index]
    if isinstance(value, PerWorkerDataset):
        return ["dataset", value.index]
    return None
