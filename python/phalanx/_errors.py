"""The error class. It is in Python because classes of the stable ABI cannot derive from exceptions before 3.12."""

from __future__ import annotations


class Error(Exception):
    """A failure, in the parts that its reader needs.

    >>> error = Error("ps/1 is unreachable", "PX0201", place="127.0.0.1:2222", help="start ps/1")
    >>> print(error)
    [PX0201] ps/1 is unreachable
      = at: 127.0.0.1:2222
      = help: start ps/1
    """

    code: str
    """The stable code, such as `PX0201`: docs/errors.md explains it."""
    what: str
    """What happened."""
    place: str | None
    """Where: a task, an address, a file and line."""
    cause: str | None
    """Why, or the evidence."""
    help: str | None
    """What to do next."""
    exit_code: int
    """The exit code of a process that ends because of this: 1 user, 2 usage, 130 Ctrl-C, 138 infrastructure, 143 SIGTERM."""

    def __init__(
        self,
        what: str,
        code: str,
        place: str | None = None,
        cause: str | None = None,
        help: str | None = None,  # noqa: A002 - the word of every report
        exit_code: int = 1,
        pointed_at: str | None = None,
    ) -> None:
        self.what, self.code, self.place, self.cause, self.help = what, code, place or pointed_at, cause, help
        self.exit_code = exit_code
        # These make the exception picklable, as processes of a pool need it.
        super().__init__(what, code, self.place, cause, help, exit_code)

    def __str__(self) -> str:
        parts = (("at", self.place), ("why", self.cause), ("help", self.help))
        return "\n".join([f"[{self.code}] {self.what}", *(f"  = {label}: {text}" for label, text in parts if text)])
