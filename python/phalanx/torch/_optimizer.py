"""The optimizer on the servers, for those who keep their own loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType, TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from phalanx import _job
from phalanx._errors import Error
from phalanx._phalanx import Optimizer, Server
from phalanx.distribute import current_strategy
from phalanx.torch._parameters import Parameters, scalar
from phalanx.torch._strategy import ParameterServerStrategy, StrategyModel
from phalanx.torch._supervisor import Session, Supervisor


class PsOptimizer(torch.optim.Optimizer):
    """A `torch.optim.Optimizer` whose `step` sends gradients to the parameter servers, and loads the newest values.

    >>> import phalanx
    >>> model = nn.Linear(1, 1)
    >>> x = torch.linspace(-1, 1, 32).reshape(-1, 1)
    >>> with PsOptimizer(model, phalanx.SGD(0.5), server=phalanx.Server.local()) as optimizer:
    ...     for _ in range(100):
    ...         optimizer.zero_grad()
    ...         loss = nn.functional.mse_loss(model(x), 3 * x + 1)
    ...         loss.backward()
    ...         optimizer.step()
    >>> print(f"{model.weight.item():.2f} {model.bias.item():.2f}")
    3.00 1.00

    The `with` block ends this task's training. At global step `max_steps`, which all trainers reach together,
    `should_stop` becomes true. `supervisor` has further settings of a `Supervisor`. In the scope of a
    `ParameterServerStrategy` the optimizer belongs to the steps that a `ClusterCoordinator` schedules, and needs no block.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        server: Server | None = None,
        optimizers: Mapping[str, Optimizer] = MappingProxyType({}),
        max_steps: int | None = None,
        **supervisor: Any,
    ) -> None:
        parameters = Parameters.of(model)
        # A group may be empty: a model of tables has no other parameters.
        super().__init__([{"params": [one for _, one in parameters.trained]}], {"lr": optimizer.learning_rate})
        self._rate = optimizer.learning_rate
        strategy = current_strategy()
        self._session: _Loop | ParameterServerStrategy
        if not isinstance(strategy, ParameterServerStrategy):
            task = _job.connect() if server is None else server
            self._session = _Loop(Supervisor(task, model, optimizer, optimizers=optimizers, **supervisor), max_steps)
            return
        given = {
            **supervisor,
            **({} if server is None else {"server": server}),
            **({} if max_steps is None else {"max_steps": 0}),
        }
        if given:
            raise Error(
                f"a PsOptimizer in the scope of a strategy takes no {', '.join(sorted(given))}",
                "PX0309",
                help="give the settings to the ParameterServerStrategy",
            )
        self._session = strategy
        strategy.adopt(StrategyModel(parameters, optimizer, dict(optimizers)))

    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:  # type: ignore[override]
        """Send the gradients to the servers; in your own loop, load the newest values.

        `closure` computes the loss and its gradients, and lets reports have the loss. When the job is over, this does nothing.
        """
        loss: Tensor | None = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        rate = float(self.param_groups[0]["lr"])
        changed, self._rate = None if rate == self._rate else rate, rate
        self._session.push(None if loss is None else scalar(loss), changed)
        return loss

    @property
    def global_step(self) -> int:
        """The updates of all trainers, as of this task's last message."""
        return self._own().session.global_step

    @property
    def should_stop(self) -> bool:
        """Whether your own loop should end: the job is ending, or this process was asked to."""
        loop = self._own()
        return not loop.going or loop.session.should_stop

    def close(self) -> None:
        """End this task's training. The `with` block does it."""
        self._own().close(None, None, None)

    def __enter__(self) -> PsOptimizer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._own().close(kind, exception, trace)

    def _own(self) -> _Loop:
        if isinstance(self._session, ParameterServerStrategy):
            raise Error(
                "the optimizer belongs to the steps of a coordinator",
                "PX0309",
                help="close the ClusterCoordinator; make a PsOptimizer outside of the strategy's scope for a loop of your own",
            )
        return self._session


class _Loop:
    """A loop of the program: between two calls of `push`, a step of its session is under way."""

    def __init__(self, supervisor: Supervisor, max_steps: int | None) -> None:
        if not supervisor.server.is_trainer:
            raise Error(
                f"{supervisor.server.task} is a parameter server",
                "PX0309",
                cause="only the chief and the workers compute",
                help="run the loop in a function that phalanx.job calls",
            )
        self._managed: AbstractContextManager[Session] | None = supervisor.managed_session()
        self.session = self._managed.__enter__()
        self.session.stop_at(max_steps)
        self.going = self.session.begin()

    def push(self, loss: float | None, learning_rate: float | None) -> None:
        if self.going:
            self.going = False
            self.going = self.session.end(loss, learning_rate) is not None and self.session.begin()
            if not (self.going or self.session.should_stop):
                self.session.refresh()

    def close(
        self, kind: type[BaseException] | None, exception: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        managed, self._managed = self._managed, None
        if managed is None:
            return None
        if self.going and kind is None:
            # The step after the last one.
            self.session.abandon(Error("the loop has ended", "PX0310"))
        self.going = False
        return managed.__exit__(kind, exception, trace)
