"""A program that is any task of a job."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import traceback
import weakref
import zlib
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Protocol, TypeVar

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


class Part:
    """This task's part of a job that ends with the program, or before it."""

    def __init__(self, server: Server | None, terminate: Callable[[], None], *, handles_signals: bool) -> None:
        self.is_over = False
        self._server = server
        self._signals = _on_sigterm(terminate) if handles_signals else nullcontext()
        self._signals.__enter__()

    def until_exit(self, owner: Closable) -> None:
        """End the part with the program, unless its owner has closed it."""
        _open.add(owner)

    def end(self, exception: BaseException | None, close: Callable[[], None] | None) -> None:
        """End the part: `close` leaves the job, and waits for its end where the task has to."""
        self.is_over = True
        self._signals.__exit__(None, None, None)
        server = self._server
        if server is not None and isinstance(exception, KeyboardInterrupt):
            server.interrupt()
        elif server is not None and exception is not None and not asks_to_stop(exception):
            server.fail(exception)
        if close is not None:
            close()
        elif server is not None and exception is None:
            # It has not connected a model.
            server.leave() if server.is_trainer else server.join()


class Closable(Protocol):
    """What ends with the program."""

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None:
        """End it, because of an exception or without one."""
        ...


_open: weakref.WeakSet[Closable] = weakref.WeakSet()


@atexit.register
def _close() -> None:
    exception: BaseException | None = getattr(sys, "last_value", None)
    for owner in list(_open):
        owner.__exit__(None if exception is None else type(exception), exception, None)


def asks_to_stop(exception: BaseException) -> bool:
    """Return whether Ctrl-C or SIGTERM is behind an exception."""
    return isinstance(exception, KeyboardInterrupt) or (isinstance(exception, Error) and exception.code in ("PX0801", "PX0802"))


def end_with_exit_codes() -> None:
    """Let a launched process that an error ends have the exit code that launchers understand."""
    before = sys.excepthook
    if not _is_launched() or before is not sys.__excepthook__:
        return

    def hook(kind: type[BaseException], exception: BaseException, trace: TracebackType | None) -> None:
        before(kind, exception, trace)
        if isinstance(exception, Error):
            raise SystemExit(exception.exit_code)
        if isinstance(exception, KeyboardInterrupt):
            raise SystemExit(130)

    sys.excepthook = hook


def _is_launched() -> bool:
    return bool(os.environ.get("TF_CONFIG"))


def _stopped_by_sigterm(server: Server) -> AbstractContextManager[None]:
    return _on_sigterm(server.terminate)


@contextmanager
def _on_sigterm(terminate: Callable[[], None]) -> Generator[None]:
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may handle signals.
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda _signal, _frame: terminate())
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
