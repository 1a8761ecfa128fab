"""Ends the threads of iterators before Python ends: one that calls a function of Python afterwards would abort the process."""

from __future__ import annotations

import atexit
import weakref
from typing import Protocol, TypeVar


class Closable(Protocol):
    """An iterator with threads."""

    def close(self) -> None:
        """End the threads."""
        ...


T = TypeVar("T", bound=Closable)

_open: weakref.WeakSet[Closable] = weakref.WeakSet()


def until_exit(iterator: T) -> T:
    """Return an iterator, and close it when Python ends."""
    _open.add(iterator)
    return iterator


@atexit.register
def _close() -> None:
    for iterator in list(_open):
        iterator.close()
