"""The coordinator: it schedules functions of the program on whichever worker is free."""

from __future__ import annotations

import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, TypeVar, cast

from phalanx import _job, _phalanx
from phalanx._errors import Error
from phalanx._phalanx import Buffer, StepRequest
from phalanx._values import decode, encode
from phalanx.data_dataset import InputContext
from phalanx.torch._embedding import Ids
from phalanx.torch._outcome import Outcome, ShardedVariable, sharded
from phalanx.torch._remote import PerWorkerDataset, RemoteValue, described
from phalanx.torch._rows import StepRows
from phalanx.torch._step import Step
from phalanx.torch._strategy import ParameterServerStrategy, StrategyModel

T = TypeVar("T")

_COLLECT = 1000
"""After how many steps the chief takes the results that are there."""


class ClusterCoordinator:
    """Schedules functions of the program on whichever worker is free: TensorFlow's `ClusterCoordinator`.

    >>> import phalanx, torch, phalanx.torch as pxt
    >>> strategy = pxt.ParameterServerStrategy()
    >>> with strategy.scope():
    ...     model = torch.nn.Linear(1, 1)
    ...     optimizer = pxt.PsOptimizer(model, phalanx.SGD(0.5))
    >>> def step_fn(iterator):
    ...     x = next(iterator)
    ...     optimizer.zero_grad()
    ...     loss = torch.nn.functional.mse_loss(model(x), 3 * x + 1)
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss.item()
    >>> with pxt.ClusterCoordinator(strategy) as coordinator:
    ...     batches = iter(coordinator.create_per_worker_dataset(lambda: (torch.rand(32, 1) for _ in range(1000))))
    ...     for _ in range(100):
    ...         loss = coordinator.schedule(step_fn, args=(batches,))
    ...     coordinator.join()
    ...     print(loss.fetch() < 0.1, coordinator.global_step)
    True 100

    Every task runs the same program: its n-th `join` is that of all others. The chief's waits for the steps; until then workers
    compute steps, of the functions that they have reached themselves, and parameter servers serve. All then have the same
    results, metrics and values, so no task takes another way. The `with` block ends this task's part; without one, it ends with
    the program.
    """

    def __init__(self, strategy: ParameterServerStrategy) -> None:
        strategy.coordinated = True
        self.strategy = strategy
        self.global_step = 0
        """The updates of the model, as of the last `join`."""
        self._native: _phalanx.Coordinator | None = None
        self._rows: StepRows | None = None
        self._functions: dict[str, Callable[..., Any]] = {}
        self._datasets: list[Callable[[], Iterable[Any]]] = []
        self._iterators: dict[int, Iterator[Any]] = {}
        self._scheduled = 0
        self._waiting: dict[int, weakref.ref[RemoteValue[Any]]] = {}
        # In the chief: what is known of the call that is open.
        self._is_open = False
        self._is_broken = False
        self._outcome = Outcome()
        self._known: tuple[bytes, list[Buffer]] | None = None
        self._task = _job.Part(strategy.server, self._terminate, handles_signals=strategy.is_launched)
        self._task.until_exit(self)

    @property
    def is_chief(self) -> bool:
        """Whether this task decides: to print and to write files once."""
        return self._connected().is_chief

    def schedule(
        self,
        fn: Callable[..., T],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] = MappingProxyType({}),
    ) -> RemoteValue[T]:
        """Schedule a function on whichever worker is free. Waits while the queue is full.

        It is known by its name, and the worker calls its own. If a worker is lost, its steps run again elsewhere; what they
        pushed counts once. Arguments and results are numbers, texts, bytes, lists, tuples, dicts, arrays and tensors, and
        per-worker iterators.
        """
        name = self.register(fn)
        native = self._connected()
        value: RemoteValue[T] = RemoteValue(self)
        number, self._scheduled = self._scheduled, self._scheduled + 1
        self._waiting[number] = weakref.ref(value)
        if native.is_chief:
            self._open(native)
            if self._known is None:
                native.schedule(number, encode([name, list(args), dict(kwargs)], described))
                self._until("done")
                if number % _COLLECT == _COLLECT - 1:
                    self._collect(native)
        self._is_open = True
        return value

    def join(self) -> None:
        """Wait until every step is done, and raise the first error of a step. All tasks then have the newest values."""
        if self._is_open:
            self.synchronize()

    def done(self) -> bool:
        """Return whether every step is done; if so, as `join`. A job of one process computes them now, and other tasks than the
        chief wait for it."""
        native = self._connected()
        if not self._is_open:
            return True
        if native.is_chief and self._known is None and self.strategy.server is not None and not self._collect(native):
            return False
        self.synchronize()
        return True

    def fetch(self, values: Any) -> Any:
        """Return the results of remote values in lists, tuples and dicts."""
        if isinstance(values, RemoteValue):
            return cast("RemoteValue[Any]", values).fetch()
        if isinstance(values, (list, tuple)):
            fetched = [self.fetch(one) for one in cast("list[Any]", values)]
            return fetched if isinstance(values, list) else tuple(fetched)
        if isinstance(values, Mapping):
            return {name: self.fetch(one) for name, one in cast("Mapping[Any, Any]", values).items()}
        return values

    def create_per_worker_dataset(self, dataset_fn: Callable[[], Iterable[T]]) -> PerWorkerDataset[T]:
        """Let every worker make a dataset for itself, when a step first reads it. `dataset_fn` returns anything to iterate over.

        `strategy.distribute_datasets_from_function` within it tells which share is the worker's. A worker that is started again
        begins its dataset again.
        """
        self._datasets.append(dataset_fn)
        return PerWorkerDataset(len(self._datasets) - 1)

    def variables(self) -> list[ShardedVariable]:
        """Return the variables on the servers, with their shards."""
        described = self.synchronize(lambda native: [native.variables(), self._until("variables")][1])
        return [sharded(one) for one in described]

    def save(self) -> None:
        """Save a checkpoint, if the job has a run directory."""
        self.synchronize(lambda native: [native.save(), self._until("done")][0])

    def close(self) -> None:
        """End this task's part of the job, when every step is done. The chief saves."""
        if self._task.is_over:
            return
        try:
            if self._native is not None:
                self.save()
        except BaseException as exception:
            self._leave(exception)
            raise
        self._leave(None)

    def __enter__(self) -> ClusterCoordinator:
        return self

    def __exit__(self, kind: type[BaseException] | None, exception: BaseException | None, trace: TracebackType | None) -> None:
        if exception is None:
            self.close()
        else:
            self._leave(exception)

    def call(self, chief: Callable[[], T]) -> T:
        """Let the chief run a function, which may schedule and `join_here`; every task returns what it returned."""

        def extra(native: _phalanx.Coordinator) -> T:
            return chief()

        return self.synchronize(extra)

    def join_here(self) -> None:
        """In the chief, within `call`: wait until every step is done, load the newest values, and raise the first error."""
        native = self._connected()
        native.join()
        self._take(*self._until("finished"))
        self._outcome.raise_error()
        native.values()
        self.model.parameters.load(self._until("values"))

    # How tasks come together.

    def synchronize(self, extra: Callable[[_phalanx.Coordinator], Any] | None = None) -> Any:
        """End the call that is open: all tasks get its outcome. `extra` is what the chief adds to it."""
        native = self._connected()
        if native.is_chief:
            self._open(native)
            if self._known is None:
                self._conclude(native, extra)
        else:
            native.call()
        data, values = self._known or self._until("outcome")
        outcome = Outcome.decoded(data)
        self._known, self._is_open, self._outcome = None, False, Outcome()
        self._apply(outcome, values)
        outcome.raise_error()
        return outcome.extra

    def _open(self, native: _phalanx.Coordinator) -> None:
        """Begin a call in the chief, unless one is open. One that a former incarnation of it has completed is not repeated."""
        if self._is_open:
            return
        native.call()
        kind, payload = self._next("begun", "outcome")
        self._is_open = True
        if kind == "outcome":
            self._known = payload

    def _conclude(self, native: _phalanx.Coordinator, extra: Callable[[_phalanx.Coordinator], Any] | None) -> None:
        try:
            added = None if extra is None else extra(native)
            native.join()
            self._take(*self._until("finished"))
            self._outcome.extra = added
        except Error as error:
            if self._is_broken:
                raise
            self._outcome.error = self._outcome.error or error
        # Those that nobody can ask for any more stay here.
        alive = [(number, value()) for number, value in self._waiting.items()]
        self._outcome.results = {number: value.result for number, value in alive if value is not None and value.result}
        self._outcome.metrics = [metric.native.words() for metric in self.strategy.metrics]
        native.end(self._outcome.encoded())

    def _collect(self, native: _phalanx.Coordinator) -> bool:
        native.collect()
        return self._take(*self._until("finished"))

    def _take(self, results: list[tuple[int, bytes | None, Error | None]], global_step: int | None) -> bool:
        for number, data, error in results:
            result = self._outcome.take(data, error, self._merge)
            if (value := self._waiting[number]()) is not None:
                value.result = result
            else:
                del self._waiting[number]
        self._outcome.global_step = global_step or self._outcome.global_step
        return global_step is not None

    def _merge(self, metric: int, words: list[float]) -> None:
        self.strategy.metrics[metric].native.merge(words)

    def _apply(self, outcome: Outcome, values: list[Buffer]) -> None:
        for number, value in self._waiting.items():
            if (waiting := value()) is not None:
                waiting.result = outcome.results.get(number)
        self._waiting.clear()
        for metric, words in zip(self.strategy.metrics, outcome.metrics, strict=False):
            metric.native.load_words(words)
        self.global_step = outcome.global_step
        self.model.parameters.load(values)

    @property
    def model(self) -> StrategyModel:
        """The model of the strategy."""
        model = self.strategy.model
        if model is None:
            raise Error("the strategy has no model", "PX0309", help="make a model and a PsOptimizer in the strategy's scope")
        return model

    def _connected(self) -> _phalanx.Coordinator:
        if self._task.is_over:
            raise Error("the coordinator has ended", "PX0309", help="do not use it after its with block, or after close")
        if self._native is None:
            model, strategy = self.model, self.strategy
            variables, tables = model.parameters.variables(), model.parameters.tables(model.optimizer)
            settings = strategy.settings(model.optimizer, model.optimizers)
            kind, sizes = strategy.partitioner.kind, list(strategy.partitioner.sizes)
            self._native = _phalanx.Coordinator(strategy.server, variables, tables, settings, (kind, sizes))
            self._rows = StepRows(model.parameters.collections, self._read_rows)
            self._rows.bind()
        return self._native

    def _read_rows(self, table: int, ids: Ids) -> tuple[Buffer, Buffer, Buffer]:
        native = self._connected()
        if native.is_chief and self._is_open and self._known is not None:
            raise Error("rows are read between two calls", "PX0309", help="join first")
        native.rows(table, ids)
        return self._until("rows")

    # Steps that this task computes.

    def _until(self, kind: str) -> Any:
        return self._next(kind)[1]

    def _next(self, *kinds: str) -> tuple[str, Any]:
        """Compute steps until one of these events comes."""
        native = self._native
        while native is not None:
            try:
                kind, payload = native.next()
            except BaseException:
                self._is_broken = True
                raise
            if kind == "step":
                self._compute(payload)
            elif kind in kinds:
                return kind, payload
            else:
                raise Error(f"the coordinator told {kind!r} instead of {kinds[0]!r}", "PX0803")
        raise Error("the coordinator has ended", "PX0309")

    def _compute(self, request: StepRequest) -> None:
        step = Step(self.strategy, self.model.parameters, cast("StepRows", self._rows), request)
        try:
            result, gradients = step.run(lambda: self._arguments(request))
        except StopIteration as end:
            error = Error("a dataset has ended", "PX0405", place=request.task, help="repeat it, or schedule fewer steps")
            error.__cause__ = end
            request.fail(error)
        except Error as error:
            request.fail(error)
        except Exception as exception:
            # All tasks get the exception; where it came from is known here only.
            traceback.print_exc()
            what = "".join(traceback.format_exception_only(exception)).strip()
            request.fail(Error(f"the step raised {what}", "PX0311", help=f"its traceback is in the log of {request.task}"))
        except BaseException as exception:
            request.fail(exception)
            raise
        else:
            request.end(result, gradients)

    def _arguments(self, request: StepRequest) -> tuple[Callable[..., Any], list[Any], dict[str, Any]]:
        name, args, kwargs = decode(request.request, lambda described: self._own(described, request))
        function = self._functions.get(name)
        if function is None:
            known = ", ".join(self._functions) or "none"
            raise Error(
                f"{request.task} knows no step {name!r}",
                "PX0309",
                cause=f"its program has scheduled {known} by now",
                help="let every task make the same calls: take no other way by role, time or chance",
            )
        return function, args, kwargs

    def _own(self, described: list[Any], request: StepRequest) -> object:
        """Return this worker's dataset or iterator."""
        kind, index = str(described[0]), int(described[1])
        pipelines, pipeline = request.input_pipeline
        self.strategy.input_context = InputContext(pipelines, pipeline, 1)
        if kind == "dataset":
            return self._datasets[index]()
        if index not in self._iterators:
            self._iterators[index] = iter(self._datasets[index]())
        return self._iterators[index]

    def register(self, fn: Callable[..., Any]) -> str:
        """Let this task know a function before it is scheduled, and return its name."""
        name = getattr(fn, "__qualname__", type(fn).__qualname__)
        known = self._functions.get(name)
        if known is not None and getattr(known, "__code__", known) is not getattr(fn, "__code__", fn):
            raise Error(
                f"two functions are called {name!r}",
                "PX0309",
                cause="a step is sent by the name of its function",
                help="give each its own name",
            )
        self._functions[name] = fn
        return name

    # The end.

    def _terminate(self) -> None:
        if self._native is not None:
            self._native.terminate()

    def _leave(self, exception: BaseException | None) -> None:
        if self._task.is_over:
            return
        if exception is not None and _job.asks_to_stop(exception):
            # What is under way is saved.
            self._terminate()
        native, self._native = self._native, None
        self._task.end(exception, native.close if native is not None else None)
        if self._rows is not None:
            self._rows.unbind()
