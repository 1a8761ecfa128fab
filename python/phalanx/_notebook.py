"""What notebooks show: tables, links, and the progress of a training."""

from __future__ import annotations

import html
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as HTML.

    >>> table(["epoch", "loss"], [(1, 0.5)])
    '<table><thead><tr><th>epoch</th><th>loss</th></tr></thead><tbody><tr><td>1</td><td>0.5</td></tr></tbody></table>'
    """
    top = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    lines = ("".join(f"<td>{html.escape(shown(value))}</td>" for value in row) for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(f'<tr>{line}</tr>' for line in lines)}</tbody></table>"


def shown(value: object) -> str:
    """Return a number with the digits that mean something, and anything else as text."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class ProgressBar:
    """The progress of a training, as an output of the notebook's cell that is replaced now and then."""

    EVERY = 0.2
    """Seconds between two updates: each is a message to the browser."""

    def __init__(self, last: int | None, first: int = 0) -> None:
        from IPython.display import HTML, display  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

        self._html = cast(Any, HTML)
        self._last, self._first, self._lock = last, first, threading.Lock()
        self._shown_at, self._began = 0.0, time.monotonic()
        self._handle = cast(Any, display)(self._html("training begins"), display_id=True)

    def expect(self, last: int) -> None:
        """Set the last step."""
        self._last = last

    def update(self, step: int, values: Mapping[str, float], what: str = "", *, end: bool = False) -> None:
        """Show a step and its values, unless something was shown just now."""
        now = time.monotonic()
        with self._lock:
            if not end and now - self._shown_at < self.EVERY:
                return
            self._shown_at = now
            rate = (step - self._first) / max(now - self._began, 1e-9)
            bar = "" if self._last is None else f"<progress value={step} max={self._last}></progress> "
            of = "" if self._last is None else f" of {self._last}"
            logs = "".join(f", {html.escape(name)} {shown(value)}" for name, value in values.items())
            self._handle.update(self._html(f"{bar}{html.escape(what)}step {step}{of}{logs}, {rate:.0f} steps/s"))
