"""A scheduled step, in the task that computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from phalanx._errors import Error
from phalanx._phalanx import StepRequest
from phalanx._values import encode
from phalanx.torch._parameters import Numbers, Parameters
from phalanx.torch._rows import LookedUp, StepRows
from phalanx.torch._strategy import ParameterServerStrategy

Pushed: TypeAlias = tuple[float | None, list[Numbers | None], list[Numbers | None], LookedUp, float | None]
"""A loss if it is known, the gradients of the variables and of rows, and a learning rate if it has changed."""
Called: TypeAlias = tuple[Callable[..., Any], list[Any], dict[str, Any]]


class Step:
    """A step that this task computes: the newest values are loaded, and an optimizer may push gradients."""

    def __init__(self, strategy: ParameterServerStrategy, parameters: Parameters, rows: StepRows, request: StepRequest) -> None:
        self._strategy, self._parameters, self._rows, self._request = strategy, parameters, rows, request
        self._pushed: Pushed | None = None

    def run(self, arguments: Callable[[], Called]) -> tuple[bytes, Pushed | None]:
        """Call a function, and return its encoded result and the gradients that an optimizer has pushed, if any."""
        metrics = self._strategy.metrics
        before = [metric.native.words() for metric in metrics]
        read, self._rows.read = self._rows.read, self._request.rows
        try:
            for metric in metrics:
                metric.native.reset()
            self._parameters.load(self._request.take_values())
            self._rows.begin()
            function, args, kwargs = arguments()
            with self._strategy.stepping(self._push):
                result = function(*args, **kwargs)
            added = {at: words for at, metric in enumerate(metrics) if any(words := metric.native.words())}
            return encode([result, added]), self._pushed
        finally:
            self._rows.read = read
            self._rows.clear()
            for metric, words in zip(metrics, before, strict=False):
                metric.native.load_words(words)

    def _push(self, loss: float | None, learning_rate: float | None) -> None:
        if self._pushed is not None:
            raise Error("a step pushes gradients once", "PX0309", help="call optimizer.step() once in a step")
        fetched, looked_up = self._rows.gradients()
        self._pushed = loss, self._parameters.gradients(), fetched, looked_up, learning_rate
