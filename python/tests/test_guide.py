"""The pages in docs/python, and README's part about Python: their files are written and their commands run, as a reader would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = "not run: needs the Python package"
BLOCK = re.compile(r"^<!-- (?P<mark>.*?) -->\n```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/python").glob("*.md"))]


def transcript(text: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a block, with what it shows for each."""
    typed: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            typed.append((line[2:], []))
        else:
            typed[-1][1].append(line)
    return typed


def pattern(shown: list[str]) -> re.Pattern[str]:
    """Return what the output has to match: `[..]` is anything in a line, a line `...` any lines."""
    lines = [r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(re.escape("[..]"), ".*") + r"\n" for line in shown]
    return re.compile("".join(lines))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    if "import torch" in page.read_text() or ", torch\n" in page.read_text():
        pytest.importorskip("torch")
    if "import keras" in page.read_text():
        pytest.importorskip("keras")
    # `python` is this interpreter.
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
    }
    ran = 0
    for block in BLOCK.finditer(page.read_text()):
        mark, text = block["mark"], block["text"]
        if mark.startswith("file: ") and block["language"] == "python":
            (tmp_path / mark.removeprefix("file: ")).write_text(text)
        if mark != OURS:
            continue
        for command, shown in transcript(text):
            done = subprocess.run(
                ["bash", "-c", f"exec 2>&1; {command}"],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=240,
            )
            assert done.returncode == 0, f"{command}:\n{done.stdout}"
            assert not shown or pattern(shown).fullmatch(done.stdout), f"{command} shows something else:\n{done.stdout}"
            ran += 1
    assert ran > 0
