"""The blocks of Python in the guide run, after the page's own commands, in an empty folder. README's are first_hour.sh's.

Needs PHALANX_BIN.
"""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(?:^<!-- (?P<mark>.*?) -->\n)?^```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
# docs/python is python/tests' own.
PAGES = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if "```python" in page.read_text() and page.parent.name != "python"
]


def commands(text):
    """The commands of a transcript, without what they print."""
    lines, typed, is_open = text.splitlines(), [], False
    for line in lines:
        if is_open:
            typed[-1] += "\n" + line
        elif line.startswith("$ "):
            typed.append(line[2:])
        else:
            continue
        is_open = typed[-1].endswith("\\") or typed[-1].count("'") % 2 == 1
    return typed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/phalanx").symlink_to(pathlib.Path(os.environ["PHALANX_BIN"]).resolve())
    environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": str(tmp_path)}
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", environment["PATH"])
    names, ran = {}, 0
    for block in BLOCK.finditer(page.read_text()):
        mark, language, text = block["mark"] or "", block["language"], block["text"]
        if mark.startswith("file: "):
            (folder / mark.removeprefix("file: ")).write_text(text)
        elif language == "console" and not mark.startswith("not run"):
            for command in commands(text):
                # A command that fails on purpose shows its error.
                check = "error[" not in text
                subprocess.run(["bash", "-c", command], env=environment, check=check, timeout=300)
        elif language == "python":
            exec(compile(text, f"{page.name}, a block of Python", "exec"), names)  # noqa: S102: that is what is tested
            ran += 1
    assert ran > 0
