"""What the tests share: scripts that run as processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


class Run:
    """Runs Python scripts in a directory of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def script(self, name: str, text: str) -> Path:
        """Write a script."""
        path = self.directory / name
        path.write_text(text)
        return path

    def start(self, *words: str | Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start Python with these arguments."""
        ours = {name: value for name, value in os.environ.items() if name not in ("TF_CONFIG", "PHALANX_TOKEN")}
        return subprocess.Popen(
            [sys.executable, *map(str, words)],
            cwd=self.directory,
            # Several tasks share the machine: threads of each that spin would only wait for each other.
            env={**ours, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(
        self, *words: str | Path, code: int = 0, env: Mapping[str, str] | None = None, seconds: float = 120
    ) -> tuple[str, str]:
        """Run Python with these arguments and return what it printed; fail if it does not end with `code`."""
        process = self.start(*words, env=env)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"{words} did not end:\n{out}\n{err}")
        assert process.returncode == code, f"{words} ended with {process.returncode}:\n{out}\n{err}"
        return out, err


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run scripts in a directory of their own."""
    return Run(tmp_path)
