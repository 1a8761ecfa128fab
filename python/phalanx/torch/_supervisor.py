"""A trainer's session for a PyTorch module."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from phalanx import _phalanx
from phalanx._errors import Error
from phalanx._phalanx import Buffer, Optimizer, Server
from phalanx.torch._embedding import EmbeddingBagCollection, EmbeddingBagConfig, Features, Ids, bags_of, ids_of

Numbers = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Step:
    """What came of a step."""

    loss: float
    """The loss of this task's batch."""
    global_step: int
    """The updates of all trainers before this step; its own goes with the next message."""


@dataclass(frozen=True)
class _Variable:
    name: str
    shape: list[int]
    values: Numbers
    trained: bool


@dataclass(frozen=True)
class _Initializer:
    kind: str
    first: float
    second: float
    seed: int


@dataclass(frozen=True)
class _Table:
    name: str
    dim: int
    initializer: _Initializer
    optimizer: Optimizer


@dataclass(frozen=True)
class _Settings:
    optimizer: Optimizer
    optimizers: dict[str, Optimizer]
    model_dir: str | None
    consistency: str
    overlap: bool
    skip_non_finite: bool
    save_model_secs: int | None
    save_model_steps: int | None


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
        self._settings = _Settings(
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
            if _asks_to_stop(exception):
                session.close(with_workers=False, interrupted=True)
            else:
                session.unbind()
                self.server.fail(exception)
            raise
        else:
            session.close(with_workers=self._wait_for_workers)


class Session:
    """A trainer's connection to the model on the servers; `Supervisor.managed_session` makes one."""

    def __init__(self, server: Server, model: nn.Module, settings: _Settings) -> None:
        self._server, self._model = server, model
        self._parameters = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
        floats = ((name, one) for name, one in model.named_buffers() if one.is_floating_point() and one.numel() > 0)
        self._states = list(floats)
        self._collections = [one for one in model.modules() if isinstance(one, EmbeddingBagCollection)]
        tables = [table for one in self._collections for table in one.embedding_bag_configs()]
        self._tables = {table.name: at for at, table in enumerate(tables)}
        self._rows = _Rows(self)
        trained = [_variable(name, one, trained=True) for name, one in self._parameters]
        states = [_variable(name, one, trained=False) for name, one in self._states]
        described = [_table(table, settings.optimizer) for table in tables]
        self.inner = _phalanx.Session(server, trained + states, described, settings)
        for collection in self._collections:
            collection._source = self._rows  # pyright: ignore[reportPrivateUsage]

    def step(self, loss: Callable[[], Tensor], features: Features = None) -> Step | None:
        """Compute one step: `loss` computes the loss of this task's batch with the newest values. `None` when the job is over.

        `features` are those that the model's `EmbeddingBagCollection` gets within `loss`: their rows are then fetched in the
        step's only message. Rows of other features cost another one each.
        """
        wanted = self._rows.begin(features, self._collections)
        begun = self.inner.begin([(self._tables[table], ids) for table, ids in wanted])
        if begun is None:
            return None
        values, rows = begun
        try:
            before = self._load(values)
            self._rows.fill(wanted, rows, features)
            for _, parameter in self._parameters:
                parameter.grad = None
            with torch.enable_grad():
                found = loss()
                number = _scalar(found)
                found.backward()  # pyright: ignore[reportUnknownMemberType]
            gradients = [_numbers(one.grad) for _, one in self._parameters]
            # The servers apply gradients: those of a state are how much it has to fall.
            changes = [old - _copied(one) for old, (_, one) in zip(before, self._states, strict=True)]
            gradients += [change if change.any() else None for change in changes]
            fetched, looked_up = self._rows.gradients()
        except BaseException as exception:
            if isinstance(exception, KeyboardInterrupt):
                self._server.interrupt()
            self._rows.clear()
            self.inner.abandon(exception)
            raise
        self._rows.clear()
        looked_up = [(self._tables[table], ids, numbers) for table, ids, numbers in looked_up]
        global_step = self.inner.end(number, gradients, fetched, looked_up)
        return None if global_step is None else Step(number, global_step)

    def refresh(self) -> None:
        """Load the newest values into the model: for an evaluation outside of a step."""
        self._load(self.inner.refresh())

    def commit(self) -> None:
        """Send the gradients of the last step now, instead of with the next one, and load the newest values into the model."""
        self._load(self.inner.commit())

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
            if not (interrupted and _asks_to_stop(error)):
                raise
        finally:
            self.unbind()

    def unbind(self) -> None:
        """Let the model go: its tables can be given to another session."""
        for collection in self._collections:
            collection._source = None  # pyright: ignore[reportPrivateUsage]

    def look_up(self, table: str, ids: Ids) -> tuple[Ids, Tensor, Tensor]:
        """Read rows of a table: the unique ids, their rows, and for each id the index of its row."""
        unique, rows, positions = self.inner.rows(self._tables[table], ids)
        return np.frombuffer(memoryview(unique), np.int64), _rows(rows, self._dim(table)), _positions(positions)

    def rows_of(self, table: str, fetched: tuple[Buffer, Buffer]) -> tuple[Tensor, Tensor]:
        """Return fetched rows as tensors."""
        return _rows(fetched[0], self._dim(table)), _positions(fetched[1])

    def _dim(self, table: str) -> int:
        configs = (config for one in self._collections for config in one.embedding_bag_configs())
        return next(config.embedding_dim for config in configs if config.name == table)

    def _load(self, values: list[Buffer]) -> list[Numbers]:
        """Put new values into the model, and return those of the states."""
        variables = [one for _, one in self._parameters] + [one for _, one in self._states]
        states: list[Numbers] = []
        with torch.no_grad():
            for at, (variable, new) in enumerate(zip(variables, values, strict=True)):
                view = memoryview(new)
                variable.copy_(torch.frombuffer(view, dtype=torch.float32).view(variable.shape))
                if at >= len(self._parameters):
                    states.append(np.frombuffer(view, np.float32))
        return states


def _asks_to_stop(exception: BaseException) -> bool:
    """Return whether Ctrl-C or SIGTERM is behind it."""
    return isinstance(exception, KeyboardInterrupt) or (isinstance(exception, Error) and exception.code in ("PX0801", "PX0802"))


class _Rows:
    """The rows of a step."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._features: object = None
        self._fetched: dict[str, tuple[Tensor, Tensor]] = {}
        self._looked_up: list[tuple[str, Ids, Tensor]] = []
        # Rows that are looked up outside of a step have no gradients.
        self._stepping = threading.local()

    def begin(self, features: Features, collections: list[EmbeddingBagCollection]) -> list[tuple[str, Ids]]:
        """Return the ids that a step needs, for each table."""
        if features is None:
            return []
        tables = (table for one in collections for table in one.embedding_bag_configs())
        return [(table.name, ids_of(bags_of(table, features))) for table in tables]

    def fill(self, wanted: list[tuple[str, Ids]], rows: list[tuple[Buffer, Buffer]], features: object) -> None:
        """Take the rows that the step was begun with."""
        self._features = features
        self._stepping.now = True
        for (table, _), fetched in zip(wanted, rows, strict=True):
            leaf, positions = self._session.rows_of(table, fetched)
            self._fetched[table] = (leaf.requires_grad_(), positions)

    def rows(self, table: str, ids: Ids, features: object) -> tuple[Tensor, Tensor]:
        """Return the unique rows of these ids, and for each id the index of its row."""
        if features is not None and features is self._features and table in self._fetched:
            return self._fetched[table]
        unique, rows, positions = self._session.look_up(table, ids)
        if getattr(self._stepping, "now", False):
            self._looked_up.append((table, unique, rows.requires_grad_()))
        return rows, positions

    def gradients(self) -> tuple[list[Numbers | None], list[tuple[str, Ids, Numbers]]]:
        """Return the gradients of the rows that the step was begun with, and of those that it has looked up since."""
        fetched = [_numbers(leaf.grad) for leaf, _ in self._fetched.values()]
        looked_up: dict[str, list[tuple[Ids, Numbers]]] = {}
        for table, unique, leaf in self._looked_up:
            numbers = _numbers(leaf.grad)
            if numbers is not None:
                looked_up.setdefault(table, []).append((unique, numbers))
        return fetched, [(table, *_summed(parts)) for table, parts in looked_up.items()]

    def clear(self) -> None:
        """Forget the rows of the step."""
        self._features, self._fetched, self._looked_up = None, {}, []
        self._stepping.now = False


def _summed(parts: list[tuple[Ids, Numbers]]) -> tuple[Ids, Numbers]:
    """Return the gradients of several look-ups in a table, each id once."""
    if len(parts) == 1:
        return parts[0]
    ids, at = np.unique(np.concatenate([ids for ids, _ in parts]), return_inverse=True)
    dims = [numbers.reshape(len(own), -1) for own, numbers in parts]
    sums = np.zeros((len(ids), dims[0].shape[1]), np.float32)
    np.add.at(sums, at, np.concatenate(dims))
    return ids, sums


def _variable(name: str, tensor: Tensor, *, trained: bool) -> _Variable:
    if tensor.dtype != torch.float32:
        raise Error(
            f"{name!r} holds {tensor.dtype}",
            "PX0303",
            cause="variables on the servers are 32-bit floats",
            help="keep parameters as float32, and compute in other types with torch.autocast",
        )
    return _Variable(name, list(tensor.shape), _copied(tensor), trained)


def _table(config: EmbeddingBagConfig, optimizer: Optimizer) -> _Table:
    low, high = config.first_values()
    first = _Initializer("uniform", low, high, config.seed()) if low < high else _Initializer("constant", low, 0.0, 0)
    return _Table(config.name, config.embedding_dim, first, config.optimizer or optimizer)


def _scalar(loss: Tensor) -> float:
    if loss.numel() != 1:
        raise Error(
            f"a loss has shape {tuple(loss.shape)}",
            "PX0303",
            cause="a step returns one number",
            help="reduce it, for example with .mean()",
        )
    return float(loss.detach())


def _copied(tensor: Tensor) -> Numbers:
    return tensor.detach().cpu().numpy().reshape(-1).copy()


def _numbers(gradient: Tensor | None) -> Numbers | None:
    if gradient is None:
        return None
    dense = gradient.to_dense() if gradient.is_sparse else gradient
    return np.ascontiguousarray(dense.detach().to("cpu", torch.float32).numpy()).reshape(-1)


def _rows(rows: Buffer, dim: int) -> Tensor:
    # An empty buffer cannot be wrapped.
    return torch.frombuffer(memoryview(rows), dtype=torch.float32).view(-1, dim) if len(rows) else torch.zeros(0, dim)


def _positions(positions: Buffer) -> Tensor:
    return torch.frombuffer(memoryview(positions), dtype=torch.int64) if len(positions) else torch.zeros(0, dtype=torch.int64)
