"""The command `phalanx`: `python -m phalanx demo`."""

from __future__ import annotations

import signal
import sys

from phalanx._phalanx import run_command


def main() -> int:
    """Run the command with the arguments of this process and return its exit code."""
    # Python's handler only sets a flag, which nobody reads while the command runs.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_command(sys.argv[1:], [sys.executable, "-m", "phalanx"])


if __name__ == "__main__":
    sys.exit(main())
