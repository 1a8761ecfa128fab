"""A real TensorFlow Estimator program under `phalanx launch`."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("launched_estimator.py")
MARK = "PHALANX_TEST_MARK"


@pytest.fixture
def binary():
    path = os.environ.get("PHALANX_BIN")
    if not path:
        pytest.fail("set PHALANX_BIN to the phalanx binary")
    return path


def left(mark):
    """Processes that a job left behind: all of its tasks have the mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


def test_an_estimator_program_runs_and_its_endless_server_is_ended(tmp_path, binary):
    mark = f"launch-{os.getpid()}"
    run, model = tmp_path / "run", tmp_path / "model"
    command = [binary, "launch", "--ps", "1", "--workers", "1", "--run-dir", run, "--model-dir", model, "--progress", "plain",
               "--", sys.executable, SCRIPT, model, "200"]
    env = {**os.environ, MARK: mark, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
    env.pop("TF_CONFIG", None)
    done = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-4000:]
    for line in ("chief/0  | this is chief 0", "worker/0 | this is worker 0", "ps/0     | this is ps 0", "chief/0  | chief 0 is done"):
        assert line in done.stdout, done.stdout[-4000:]
    assert "Stopping ps/0" in done.stderr, done.stderr
    assert "nothing left running" in done.stderr
    until = time.monotonic() + 10
    while left(mark) and time.monotonic() < until:
        time.sleep(0.05)
    assert left(mark) == []
    for task in ("chief-0", "worker-0", "ps-0"):
        assert "this is" in (run / "logs" / f"{task}.log").read_text()

    status = subprocess.run([binary, "status", str(run), "--json"], capture_output=True, text=True, timeout=60, check=True)
    board = json.loads(status.stdout)
    assert board["state"] == "succeeded"
    assert {task["task"]: task["state"] for task in board["tasks"]} == {"chief/0": "done", "worker/0": "done", "ps/0": "stopped"}
    assert board["step"] >= 200
    assert board["checkpoints"][-1]["step"] >= 200
    assert board["loss"] is not None
