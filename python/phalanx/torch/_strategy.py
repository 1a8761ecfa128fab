"""The strategy whose variables are on parameter servers, and what is made in its scope."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from torch import Tensor

from phalanx import _job
from phalanx._errors import Error
from phalanx._phalanx import Optimizer, Server, TaskConfig
from phalanx.data_dataset import InputContext
from phalanx.distribute import Partitioner, ReduceOp, Strategy, TFConfigClusterResolver
from phalanx.metrics import Metric, made_here
from phalanx.torch._parameters import Parameters, Settings

T = TypeVar("T")


@dataclass
class StrategyModel:
    """The model of a strategy: its variables, and how gradients change them."""

    parameters: Parameters
    optimizer: Optimizer
    optimizers: dict[str, Optimizer]


class ParameterServerStrategy(Strategy):
    """Variables on the parameter servers of a cluster; workers compute: TensorFlow's `ParameterServerStrategy`.

    Its first use starts the task that `TF_CONFIG` names, or it uses `server`; without a cluster, this process is chief, worker
    and server. Every task runs the same program and makes the same calls: parameter servers serve, workers compute steps, the
    chief decides. A `ClusterCoordinator` schedules the steps.

    `consistency` is `async`, `ssp:K`, `sync` or `sync:BACKUPS`. Without a `model_dir`, the run directory is the one that
    `TF_CONFIG` names or the launcher offers, if there is any.
    """

    def __init__(
        self,
        cluster_resolver: TFConfigClusterResolver | None = None,
        variable_partitioner: Partitioner | None = None,
        *,
        server: Server | None = None,
        consistency: str = "async",
        model_dir: str | os.PathLike[str] | None = None,
        skip_non_finite: bool = False,
        save_model_secs: int | None = None,
        save_model_steps: int | None = None,
    ) -> None:
        super().__init__(f"parameter_server:{consistency}")
        self._server = server
        self.is_launched = server is None
        """Whether the task is this process, which a launcher may have started."""
        self.partitioner = variable_partitioner or Partitioner()
        self.metrics: list[Metric] = []
        """The metrics that were made in the scope."""
        self.model: StrategyModel | None = None
        self.input_context = InputContext()
        """The share of the input that this task reads."""
        self.coordinated = False
        """Whether there is a coordinator."""
        self._push: Callable[[float | None, float | None], None] | None = None
        self._consistency, self._model_dir = consistency, None if model_dir is None else os.fspath(model_dir)
        self._saving = (skip_non_finite, save_model_secs, save_model_steps)
        if self.is_launched:
            _job.end_with_exit_codes()

    @property
    def server(self) -> Server | None:
        """This process's task, which the first use starts; `None` if the process is a job of its own."""
        if self._server is None and not TaskConfig.from_env().is_local:
            self._server = _job.connect()
        return self._server

    @contextmanager
    def scope(self) -> Generator[ParameterServerStrategy]:
        """Make the model, its `PsOptimizer` and metrics within it."""
        metrics = made_here.set(self.metrics)
        try:
            with super().scope():
                yield self
        finally:
            made_here.reset(metrics)

    def run(self, fn: Callable[..., T], args: Sequence[Any] = (), kwargs: Mapping[str, Any] = MappingProxyType({})) -> T:
        """Call a function for every replica of this worker, of which there is one."""
        return fn(*args, **kwargs)

    def reduce(self, reduce_op: ReduceOp | str, value: Any, axis: int | None = None) -> Any:
        """Return a value of all replicas, of which there is one; with an `axis`, its sum or mean along that axis."""
        if axis is None:
            return value
        if ReduceOp(reduce_op) is ReduceOp.SUM:
            return value.sum(axis)
        return value.mean(axis)

    def distribute_datasets_from_function(self, dataset_fn: Callable[[InputContext], T], options: object = None) -> T:
        """Return what a function makes for this worker's share of the input."""
        return dataset_fn(self.input_context)

    def adopt(self, model: StrategyModel) -> None:
        """Take the model whose variables go to the servers. A `PsOptimizer` does it."""
        if self.model is not None or self.coordinated:
            raise Error(
                "a job with parameter servers trains one model",
                "PX0309",
                cause="the strategy has one already",
                help="put both networks into one module, and give it to one PsOptimizer",
            )
        self.model = model

    def settings(self, optimizer: Optimizer, optimizers: dict[str, Optimizer]) -> Settings:
        """Return the settings of the job's supervisor."""
        skip, seconds, steps = self._saving
        return Settings(optimizer, optimizers, self._model_dir, self._consistency, False, skip, seconds, steps)

    @contextmanager
    def stepping(self, push: Callable[[float | None, float | None], None]) -> Generator[None]:
        """Let optimizers push the gradients of a step there: a loss if it is known, and a learning rate if it has changed."""
        self._push = push
        try:
            yield
        finally:
            self._push = None

    def push(self, loss: float | None, learning_rate: float | None) -> None:
        """Push the gradients of the step that this task computes."""
        if self._push is None:
            raise Error(
                "the optimizer has no step",
                "PX0309",
                cause="its model is on parameter servers, which take gradients of scheduled steps",
                help="call optimizer.step() in a function that ClusterCoordinator.schedule runs",
            )
        self._push(loss, learning_rate)


def compute_average_loss(per_example_loss: Tensor, global_batch_size: int | None = None) -> Tensor:
    """Return the sum of losses divided by the rows of all replicas' batches: `tf.nn.compute_average_loss`."""
    rows = per_example_loss.shape[0] if global_batch_size is None else global_batch_size
    return per_example_loss.sum() / rows
