"""A trainer's session for a PyTorch module."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor, nn

from phalanx import _phalanx
from phalanx._errors import Error
from phalanx._job import asks_to_stop
from phalanx._phalanx import Optimizer, Server
from phalanx.torch._embedding import Features, Ids
from phalanx.torch._parameters import Parameters, Settings, scalar
from phalanx.torch._rows import StepRows


@dataclass(frozen=True)
class Step:
    """What came of a step."""

    loss: float
    """The loss of this task's batch."""
    global_step: int
    """The updates of all trainers before this step; its own goes with the next message."""


class Supervisor:
    """Trains a module whose parameters are on the parameter servers.

    The chief initialises the servers with the values of its `model`, or from the newest checkpoint in `model_dir`; every other
    trainer's model takes theirs. Parameters that need no gradient stay with each trainer; floating-point buffers, such as the
    averages of `BatchNorm1d`, are on the servers, too.

    `optimizer` applies the gradients of all parameters, and those in `optimizers` that of the parameters they name.
    `consistency` is `async`, `ssp:K`, `sync` or `sync:BACKUPS`. With `wait_for_workers`, a chief whose input has ended waits for
    the other trainers; otherwise it ends the job. `skip_non_finite` drops a step whose loss or gradient is not finite, which
    otherwise ends the job.
    """

    def __init__(
        self,
        server: Server,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        optimizers: Mapping[str, Optimizer] = MappingProxyType({}),
        model_dir: str | None = None,
        consistency: str = "async",
        overlap: bool = False,
        skip_non_finite: bool = False,
        save_model_secs: int | None = None,
        save_model_steps: int | None = None,
        wait_for_workers: bool = True,
    ) -> None:
        self.server = server
        self.model = model
        self._wait_for_workers = wait_for_workers
        self._settings = Settings(
            optimizer,
            dict(optimizers),
            model_dir,
            consistency,
            overlap,
            skip_non_finite,
            save_model_secs,
            save_model_steps,
        )

    @contextmanager
    def managed_session(self) -> Generator[Session]:
        """Prepare the session, and end this task's training with the block.

        The chief initialises the model, and saves when it ends. An exception in the block ends the job for all tasks; Ctrl-C
        saves, leaves the job and raises `KeyboardInterrupt`.
        """
        session = Session(self.server, self.model, self._settings)
        try:
            yield session
        except BaseException as exception:
            if isinstance(exception, KeyboardInterrupt):
                self.server.interrupt()
            if asks_to_stop(exception):
                session.close(with_workers=False, interrupted=True)
            else:
                session.unbind()
                self.server.fail(exception)
            raise
        else:
            session.close(with_workers=self._wait_for_workers)


class Session:
    """A trainer's connection to the model on the servers; `Supervisor.managed_session` makes one."""

    def __init__(self, server: Server, model: nn.Module, settings: Settings) -> None:
        self._server = server
        self._parameters = Parameters.of(model)
        variables, tables = self._parameters.variables(), self._parameters.tables(settings.optimizer)
        self.inner = _phalanx.Session(server, variables, tables, settings)
        self._rows = StepRows(self._parameters.collections, self.inner.rows)
        self._rows.bind()

    def step(self, loss: Callable[[], Tensor], features: Features = None) -> Step | None:
        """Compute one step: `loss` computes the loss of this task's batch with the newest values. `None` when the job is over.

        `features` are those that the model's `EmbeddingBagCollection` gets within `loss`: their rows are then fetched in the
        step's only message. Rows of other features cost another one each.
        """
        if not self.begin(features):
            return None
        try:
            self._parameters.clear_gradients()
            with torch.enable_grad():
                found = loss()
                number = scalar(found)
                found.backward()  # pyright: ignore[reportUnknownMemberType]
        except BaseException as exception:
            self.abandon(exception)
            raise
        global_step = self.end(number)
        return None if global_step is None else Step(number, global_step)

    def begin(self, features: Features = None) -> bool:
        """Begin a step: load the newest values. `step` does it; `False` when the job is over."""
        begun = self.inner.begin(self._rows.wanted(features))
        if begun is None:
            return False
        values, rows = begun
        try:
            self._parameters.load(values)
            self._rows.begin(rows, features)
        except BaseException as exception:
            self.abandon(exception)
            raise
        return True

    def end(self, loss: float | None, learning_rate: float | None = None) -> int | None:
        """End a step with the gradients of the model, and return the global step before it; `None` when the job is over.

        A `learning_rate` is that of this task's steps from this one on.
        """
        try:
            gradients = self._parameters.gradients()
            fetched, looked_up = self._rows.gradients()
        except BaseException as exception:
            self.abandon(exception)
            raise
        self._rows.clear()
        return self.inner.end((loss, gradients, fetched, looked_up, learning_rate))

    def abandon(self, exception: BaseException) -> None:
        """Leave a step because of an exception: nothing of it reaches the servers."""
        if isinstance(exception, KeyboardInterrupt):
            self._server.interrupt()
        self._rows.clear()
        self.inner.abandon(exception)

    def refresh(self) -> None:
        """Load the newest values into the model: for an evaluation outside of a step."""
        self._parameters.load(self.inner.refresh())

    def commit(self) -> None:
        """Send the gradients of the last step now, instead of with the next one, and load the newest values into the model."""
        self._parameters.load(self.inner.commit())

    def save(self) -> None:
        """Save a checkpoint, where this task is the chief and has a run directory."""
        self.inner.save()

    def stop_at(self, last: int | None) -> None:
        """End training at this global step, which all trainers reach together."""
        self.inner.stop_at(last)

    def save_position(self, position: bytes) -> None:
        """Save the position in this task's input, at most 64 KiB, with the next step: it counts as soon as the step does."""
        self.inner.save_position(position)

    @property
    def restored_position(self) -> bytes | None:
        """The position that an earlier run of this task saved."""
        return self.inner.restored_position

    @property
    def global_step(self) -> int:
        """The updates of all trainers, as of this task's last message."""
        return self.inner.global_step

    @property
    def should_stop(self) -> bool:
        """Whether trainers should stop: the job is ending, or this process was asked to."""
        return self._server.should_stop

    def close(self, *, with_workers: bool, interrupted: bool = False) -> None:
        """End this task's training. `managed_session` does it."""
        try:
            self.inner.stop(with_workers)
        except Error as error:
            if not (interrupted and asks_to_stop(error)):
                raise
        finally:
            self.unbind()

    def unbind(self) -> None:
        """Let the model go: its tables can be given to another session."""
        self._rows.unbind()

    def look_up(self, table: str, ids: Ids) -> tuple[Ids, Tensor, Tensor]:
        """Read rows of a table: the unique ids, their rows, and for each id the index of its row."""
        return self._rows.look_up(table, ids)
