"""The settings of a run: `tf.estimator.RunConfig`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, Final

from phalanx._errors import Error
from phalanx._job import _program  # pyright: ignore[reportPrivateUsage] - the fingerprint of the script is the same
from phalanx._phalanx import ClusterSpec, TaskConfig


class _Unset:
    def __repr__(self) -> str:
        return "unset"


_UNSET: Final = _Unset()
"""Tells a setting that was not given from `None`."""


@dataclass(frozen=True)
class WarmStartSettings:
    """Starts from another training's weights, where the run directory has no checkpoint.

    `ckpt_to_initialize_from` is a run directory, a checkpoint or an exported model. `vars_to_warm_start` are the beginnings of
    the names of the variables that are taken over; all by default.
    """

    ckpt_to_initialize_from: str | PathLike[str]
    vars_to_warm_start: str | Sequence[str] = ()
    var_name_to_prev_var_name: Mapping[str, str] = field(default_factory=dict[str, str])

    def _native(self) -> tuple[str, list[str], list[tuple[str, str]]]:
        starts = self.vars_to_warm_start
        # TensorFlow's default, a pattern for all.
        prefixes = [starts] if isinstance(starts, str) else list(starts)
        prefixes = [prefix for prefix in prefixes if prefix != ".*"]
        return fspath(self.ckpt_to_initialize_from), prefixes, list(self.var_name_to_prev_var_name.items())


class RunConfig:
    """The run directory, how often it is saved, and the task that `TF_CONFIG` names. Names and defaults are TensorFlow's.

    By default, checkpoints are saved after 5 seconds, then less and less often, and every 600 seconds in the long run.
    `train_distribute` is a name: `mirrored:2`, `multi_worker_mirrored`, `parameter_server:async`, `parameter_server:sync`,
    `parameter_server:ssp:3` and others. `overlap` lets a worker compute while its last update is on the way to the servers.

    >>> config = RunConfig(save_checkpoints_steps=500, keep_checkpoint_max=3)
    >>> config.task_type, config.is_chief, config.num_ps_replicas
    ('worker', True, 0)
    """

    def __init__(
        self,
        model_dir: str | PathLike[str] | None = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int = 100,
        save_checkpoints_steps: int | _Unset | None = _UNSET,
        save_checkpoints_secs: int | _Unset | None = _UNSET,
        *,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: str | None = None,
        eval_distribute: str | None = None,
        session_creation_timeout_secs: int = 7200,
        overlap: bool = False,
    ) -> None:
        self.task_config = TaskConfig.from_env()
        own = None if model_dir is None else fspath(model_dir)
        self.model_dir: str | None = own if own is not None else self.task_config.model_dir
        self._own_model_dir = own
        self.tf_random_seed = tf_random_seed
        self.save_summary_steps = save_summary_steps
        self._interval = _interval(save_checkpoints_steps, save_checkpoints_secs)
        self.keep_checkpoint_max = keep_checkpoint_max
        self.keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self.log_step_count_steps = log_step_count_steps
        self.train_distribute = train_distribute
        self.eval_distribute = eval_distribute
        self.session_creation_timeout_secs = session_creation_timeout_secs
        self.overlap = overlap
        self._given: dict[str, Any] = {
            "model_dir": own,
            "tf_random_seed": tf_random_seed,
            "save_summary_steps": save_summary_steps,
            "save_checkpoints_steps": save_checkpoints_steps,
            "save_checkpoints_secs": save_checkpoints_secs,
            "keep_checkpoint_max": keep_checkpoint_max,
            "keep_checkpoint_every_n_hours": keep_checkpoint_every_n_hours,
            "log_step_count_steps": log_step_count_steps,
            "train_distribute": train_distribute,
            "eval_distribute": eval_distribute,
            "session_creation_timeout_secs": session_creation_timeout_secs,
            "overlap": overlap,
        }

    def replace(self, **changes: Any) -> RunConfig:
        """Return the settings with some of them changed."""
        given = dict(self._given)
        for one, other in (
            ("save_checkpoints_steps", "save_checkpoints_secs"),
            ("save_checkpoints_secs", "save_checkpoints_steps"),
        ):
            if changes.get(one) is not None:
                given[other] = None
        return RunConfig(**{**given, **changes})

    @property
    def save_checkpoints_steps(self) -> int | None:
        """The steps between two checkpoints, if they are saved by steps."""
        return self._interval[1] if self._interval[0] == "steps" else None

    @property
    def save_checkpoints_secs(self) -> int | None:
        """The seconds between two checkpoints, if they are saved by time."""
        return {"secs": self._interval[1], "growing": 600}.get(self._interval[0])

    @property
    def cluster_spec(self) -> ClusterSpec:
        """The cluster of `TF_CONFIG`."""
        return self.task_config.cluster

    @property
    def task_type(self) -> str:
        """The role of this process; `worker` without `TF_CONFIG`, as in TensorFlow."""
        return (self.task_config.task or ("worker", 0))[0]

    @property
    def task_id(self) -> int:
        """The index of this process among those of its role."""
        return (self.task_config.task or ("worker", 0))[1]

    @property
    def is_chief(self) -> bool:
        """Whether this process is the chief."""
        return self.task_config.is_chief

    @property
    def num_ps_replicas(self) -> int:
        """The number of parameter servers."""
        return self.task_config.counts[0]

    @property
    def num_worker_replicas(self) -> int:
        """The number of chief and workers."""
        return max(self.task_config.counts[1], 1)

    def _native(self, model_dir: str | None, warm_start: WarmStartSettings | str | None) -> dict[str, Any]:
        """Return the settings for Rust."""
        start = WarmStartSettings(warm_start) if isinstance(warm_start, str) else warm_start
        return {
            "task": self.task_config,
            "model_dir": model_dir,
            "tf_random_seed": self.tf_random_seed,
            "keep_checkpoint_max": self.keep_checkpoint_max or 0,
            "keep_checkpoint_every_n_hours": self.keep_checkpoint_every_n_hours,
            "warm_start": None if start is None else start._native(),  # pyright: ignore[reportPrivateUsage]
            "save_checkpoints": self._interval,
            "save_summary_steps": self.save_summary_steps,
            "log_step_count_steps": self.log_step_count_steps,
            "session_creation_timeout_secs": self.session_creation_timeout_secs,
            "train_distribute": self.train_distribute,
            "eval_distribute": self.eval_distribute,
            "overlap": self.overlap,
            "program": _program(),
        }


def _interval(steps: int | _Unset | None, secs: int | _Unset | None) -> tuple[str, int]:
    if isinstance(steps, _Unset) and isinstance(secs, _Unset):
        return "growing", 0
    steps, secs = (None if isinstance(given, _Unset) else given for given in (steps, secs))
    if steps is not None and secs is not None:
        raise Error(
            "checkpoints are saved by steps or by seconds",
            "PX0309",
            place="RunConfig",
            help="give save_checkpoints_steps or save_checkpoints_secs, not both",
        )
    if steps is not None:
        return "steps", steps
    return ("never", 0) if secs is None else ("secs", secs)
