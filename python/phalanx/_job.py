"""A program that is any task of a job."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from phalanx._errors import Error
from phalanx._phalanx import Server

T = TypeVar("T")


def connect() -> Server:
    """Start the task that `TF_CONFIG` names; without it, a job of this process alone.

    All tasks of a job run the same script: a task of another one is refused (PX0203).
    """
    return Server.from_env(_program())


def job(part: Callable[[Server], T]) -> T | None:
    """Run `part` as the task that this process is, and end the task with it.

    A parameter server serves until the job is over, and does not run `part`: it returns `None`. An exception of one task
    reaches all others. SIGTERM and Ctrl-C save and end the job. In a launched job, the process then ends with the exit code
    that launchers understand.
    """
    try:
        server = connect()
        with _stopped_by_sigterm(server):
            return _run(server, part)
    except Error as error:
        if not _is_launched():
            raise
        traceback.print_exc()
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        if not _is_launched():
            raise
        raise SystemExit(130) from None


def _run(server: Server, part: Callable[[Server], T]) -> T | None:
    if not server.is_trainer:
        server.join()
        return None
    try:
        done = part(server)
    except KeyboardInterrupt:
        server.interrupt()
        server.leave()
        raise
    except BaseException as exception:
        server.fail(exception)
        raise
    server.leave()
    return done


def _is_launched() -> bool:
    return bool(os.environ.get("TF_CONFIG"))


@contextmanager
def _stopped_by_sigterm(server: Server) -> Generator[None]:
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may handle signals.
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda _signal, _frame: server.terminate())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _program() -> str:
    """Return a fingerprint of the script that this process runs."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script is None:
        return "interactive"
    with open(script, "rb") as file:
        return f"{zlib.crc32(file.read()):08x}"
