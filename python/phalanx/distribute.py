"""Names of `tf.distribute` that strategies share, of whichever library's models.

>>> from phalanx import distribute
>>> distribute.FixedShardsPartitioner(2)
Partitioner(kind='fixed_shards', sizes=(2,))
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum

from phalanx._phalanx import ClusterSpec, TaskConfig

__all__ = [
    "CentralStorageStrategy",
    "FixedShardsPartitioner",
    "MaxSizePartitioner",
    "MinSizePartitioner",
    "MirroredStrategy",
    "MultiWorkerMirroredStrategy",
    "OneDeviceStrategy",
    "Partitioner",
    "ReduceOp",
    "Strategy",
    "TFConfigClusterResolver",
]


class ReduceOp(Enum):
    """How the values of replicas become one."""

    SUM = "SUM"
    MEAN = "MEAN"


@dataclass(frozen=True)
class Partitioner:
    """How variables are split into shards. Use one of the functions."""

    kind: str = "whole"
    sizes: tuple[int, ...] = ()


def FixedShardsPartitioner(num_shards: int) -> Partitioner:  # noqa: N802 - a class of TensorFlow
    """Return a partitioner into this many shards, or one for each row if there are fewer rows."""
    return Partitioner("fixed_shards", (num_shards,))


def MinSizePartitioner(min_shard_bytes: int = 256 << 10, max_shards: int = 1) -> Partitioner:  # noqa: N802
    """Return a partitioner into at most `max_shards` shards of at least this size."""
    return Partitioner("min_size", (min_shard_bytes, max_shards))


def MaxSizePartitioner(max_shard_bytes: int, max_shards: int | None = None) -> Partitioner:  # noqa: N802
    """Return a partitioner into shards of at most this size."""
    return Partitioner("max_size", (max_shard_bytes,) if max_shards is None else (max_shard_bytes, max_shards))


class TFConfigClusterResolver:
    """What `TF_CONFIG` says about the cluster and this process's task."""

    def __init__(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> None:
        config = TaskConfig.from_env()
        own = config.task
        self.task_type: str | None = task_type if task_type is not None else (own[0] if own else None)
        """`chief`, `worker`, `ps` or `evaluator`; `None` without a cluster."""
        self.task_id: int | None = task_id if task_id is not None else (own[1] if own else None)
        """The task's index among those of its type."""
        self.rpc_layer = rpc_layer
        """Has no effect."""
        self._cluster = config.cluster

    def cluster_spec(self) -> ClusterSpec:
        """Return the addresses of all tasks."""
        return self._cluster


_scope: ContextVar[Strategy | None] = ContextVar("scope", default=None)


def current_strategy() -> Strategy | None:
    """Return the strategy whose scope this thread is in."""
    return _scope.get()


class Strategy:
    """Where the variables of a model are, and which replicas compute: by its name, or as one of the subclasses.

    `phalanx.keras` fits models under all of them. Parameter servers are `Strategy("parameter_server:async")`, or the strategies
    of `phalanx.torch` and `phalanx.keras3`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        """As `compile(strategy=…)` takes it."""

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas compute a step together."""
        kind, _, sizes = self.name.partition(":")
        replicas = int(sizes) if kind in ("mirrored", "central_storage") and sizes else 1
        if kind != "multi_worker_mirrored":
            return replicas
        return max(1, sum(TaskConfig.from_env().cluster.num_tasks(job) for job in self._trainers()))

    def _trainers(self) -> list[str]:
        return [job for job in TaskConfig.from_env().cluster.jobs if job in ("chief", "worker")]

    @contextmanager
    def scope(self) -> Generator[Strategy]:
        """Make models within it."""
        before = _scope.set(self)
        try:
            yield self
        finally:
            _scope.reset(before)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class MirroredStrategy(Strategy):
    """Replicas on this machine: as many as `devices`, or one."""

    def __init__(self, devices: list[str] | None = None) -> None:
        super().__init__(f"mirrored:{len(devices) if devices else 1}")


class CentralStorageStrategy(Strategy):
    """Replicas on this machine, which share variables: as many as `compute_devices`, or one."""

    def __init__(self, compute_devices: list[str] | None = None) -> None:
        super().__init__(f"central_storage:{len(compute_devices) if compute_devices else 1}")


class MultiWorkerMirroredStrategy(Strategy):
    """A replica on every worker of the cluster."""

    def __init__(self, cluster_resolver: TFConfigClusterResolver | None = None) -> None:
        super().__init__("multi_worker_mirrored")


class OneDeviceStrategy(Strategy):
    """Everything on one device."""

    def __init__(self, device: str) -> None:
        super().__init__(f"one_device:{device}")
