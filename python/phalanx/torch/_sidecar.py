"""An evaluator beside a job."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from torch import nn

from phalanx import _phalanx
from phalanx._errors import Error
from phalanx._phalanx import Buffer, TaskConfig
from phalanx.estimator_task import as_task
from phalanx.torch._parameters import Parameters


class SidecarEvaluator:
    """Evaluates every new checkpoint of a job in its run directory, as long as the job runs: Keras' `SidecarEvaluator`.

    `evaluate` gets the step of a checkpoint, when its values are in the model, and returns names and numbers. They go to event
    files in `eval/` of the run directory. Without a `model_dir`, it is the one that `TF_CONFIG` names or the launcher offers. It
    ends with the job, or after a checkpoint of step `max_evaluations`.
    """

    def __init__(
        self,
        model: nn.Module,
        evaluate: Callable[[int], Mapping[str, float]],
        model_dir: str | os.PathLike[str] | None = None,
        *,
        max_evaluations: int | None = None,
    ) -> None:
        self._parameters = Parameters.of(model)
        if self._parameters.collections:
            raise Error("the rows of tables are not in the model", "PX0309", help="evaluate with the coordinator's steps")
        location = os.fspath(model_dir) if model_dir is not None else TaskConfig.from_env().model_dir
        if location is None:
            raise Error("the evaluator has no run directory", "PX0309", help="give model_dir")
        self._location, self._most = location, max_evaluations
        self._evaluate = evaluate

    def start(self) -> int:
        """Evaluate until the job has ended, and return the number of evaluations."""

        def evaluated(values: list[Buffer], step: int) -> list[tuple[str, float]]:
            self._parameters.load(values)
            return [(name, float(value)) for name, value in self._evaluate(step).items()]

        variables = self._parameters.variables()
        return as_task(lambda stop: _phalanx.evaluate_checkpoints(stop, variables, self._location, self._most, evaluated))
