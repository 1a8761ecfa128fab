"""Replicas of a torch module in one process, for loops of `strategy.run`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

import torch

from phalanx._errors import Error
from phalanx.data_dataset import InputContext
from phalanx.distribute import MirroredStrategy as Mirrored
from phalanx.distribute import ReduceOp, current_strategy

T = TypeVar("T")


class PerReplica(Generic[T]):
    """A value of each replica."""

    def __init__(self, values: Sequence[T]) -> None:
        self.values = tuple(values)

    def __repr__(self) -> str:
        return f"PerReplica{self.values}"


class MirroredStrategy(Mirrored):
    """Replicas of a torch module on this machine: TensorFlow's `MirroredStrategy`, for custom loops.

    A step of `run` calls a function for every replica, each with its part of the batch; their gradients are summed, and a
    `MirroredOptimizer` applies the sum once. The replicas share this process's device and take turns, so the strategy has the
    arithmetic of several devices without their speed.

    >>> strategy = MirroredStrategy(["cpu:0", "cpu:1"])
    >>> with strategy.scope():
    ...     model = torch.nn.Linear(1, 1, bias=False)
    ...     optimizer = MirroredOptimizer(torch.optim.SGD(model.parameters(), 0.1))
    >>> def replica_fn(x):
    ...     optimizer.zero_grad()
    ...     loss = (model(x) - 2 * x).square().sum() / 4
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss.item()
    >>> batches = strategy.distribute_datasets_from_function(lambda context: [torch.rand(2, 1) for _ in range(400)])
    >>> for batch in batches:
    ...     loss = strategy.reduce("SUM", strategy.run(replica_fn, args=(batch,)))
    >>> loss < 0.01
    True
    """

    def run(
        self, fn: Callable[..., T], args: Sequence[Any] = (), kwargs: Mapping[str, Any] = MappingProxyType({})
    ) -> PerReplica[T]:
        """Call a function for every replica: `PerReplica` arguments give each its own."""
        replicas = self.num_replicas_in_sync
        results: list[T] = []
        for at in range(replicas):
            self._turn = at, replicas
            try:
                own = [_own(one, at) for one in args]
                results.append(fn(*own, **{name: _own(one, at) for name, one in kwargs.items()}))
            finally:
                self._turn = 0, 1
        return PerReplica(results)

    def reduce(self, reduce_op: ReduceOp | str, value: Any, axis: int | None = None) -> Any:
        """Return the sum or the mean of the replicas' values; with an `axis`, along that axis, too."""
        parts: list[Any] = list(cast("PerReplica[Any]", value).values) if isinstance(value, PerReplica) else [value]
        mean = ReduceOp(reduce_op) is ReduceOp.MEAN
        total = sum(one if axis is None else one.sum(axis) for one in parts)
        rows = len(parts) if axis is None else sum(one.shape[axis] for one in parts)
        return total / rows if mean else total

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Iterable[T]], options: object = None
    ) -> MirroredDataset[T]:
        """Return the batches of a function's dataset, of which every replica gets one in a step."""
        return MirroredDataset(dataset_fn(InputContext(1, 0, self.num_replicas_in_sync)), self.num_replicas_in_sync)

    @property
    def turn(self) -> tuple[int, int]:
        """The replica that computes, and how many there are."""
        return getattr(self, "_turn", (0, 1))


class MirroredDataset(Generic[T]):
    """Batches, of which every replica gets one in a step. Those that are too few for a step at the end are left out."""

    def __init__(self, batches: Iterable[T], replicas: int) -> None:
        self._batches, self._replicas = batches, replicas

    def __iter__(self) -> Iterator[PerReplica[T]]:
        batches = iter(self._batches)
        while True:
            own = [batch for _, batch in zip(range(self._replicas), batches, strict=False)]
            if len(own) < self._replicas:
                return
            yield PerReplica(own)


class MirroredOptimizer:
    """An optimizer of torch in the scope of a `MirroredStrategy`: it applies the sum of all replicas' gradients once."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        strategy = current_strategy()
        if not isinstance(strategy, MirroredStrategy):
            raise Error("a MirroredOptimizer is made in the scope of a phalanx.torch.MirroredStrategy", "PX0309")
        self.optimizer, self._strategy = optimizer, strategy

    def zero_grad(self) -> None:
        """Forget the gradients of the step before."""
        if self._strategy.turn[0] == 0:
            self.optimizer.zero_grad()

    def step(self) -> None:
        """Apply the gradients, when the last replica has computed its own."""
        replica, replicas = self._strategy.turn
        if replica == replicas - 1:
            self.optimizer.step()


def _own(value: Any, replica: int) -> Any:
    return cast("PerReplica[Any]", value).values[replica] if isinstance(value, PerReplica) else value
