"""One call that is a task of a job."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TypeVar, cast

from phalanx import _job
from phalanx._errors import Error
from phalanx._phalanx import Server, Stop

T = TypeVar("T")


def as_task(run: Callable[[Stop], T]) -> T:
    """Run a part of a job: SIGTERM saves and ends it, and a failure ends a launched process with its exit code."""
    stop = Stop()
    try:
        with _job._stopped_by_sigterm(cast(Server, stop)):  # pyright: ignore[reportPrivateUsage]
            return run(stop)
    except Error as error:
        if not _job._is_launched():  # pyright: ignore[reportPrivateUsage]
            raise
        traceback.print_exc()
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        if not _job._is_launched():  # pyright: ignore[reportPrivateUsage]
            raise
        raise SystemExit(130) from None
