"""The scripts in python/examples, each as the job that its first lines show."""

from __future__ import annotations

import json
import re
import socket
import sys
from pathlib import Path

import pytest
from conftest import Run

pytest.importorskip("torch")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
QUIET = ("--no-dashboard", "--progress", "none", "--run-dir", "job")


def launched(run: Run, name: str, *layout: str, arguments: tuple[str, ...] = ()) -> str:
    """Launch an example, and return what its tasks printed."""
    out, err = run("-m", "phalanx", "launch", *QUIET, *layout, "--", sys.executable, EXAMPLES / name, *arguments, seconds=240)
    return out + err


def number(pattern: str, text: str) -> float:
    """Return the last number that a pattern finds."""
    found = re.findall(pattern, text)
    assert found, f"there is no {pattern!r} in:\n{text}"
    return float(found[-1])


def test_a_linear_regressor_in_every_role(run: Run) -> None:
    shown = launched(run, "linear_regressor.py", "--ps", "2", "--workers", "2", "--evaluator", arguments=("--steps", "300"))
    assert number(r"'average_loss': ([\d.e-]+)", shown) < 0.2


def ports(count: int) -> list[int]:
    """Return ports that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found


@pytest.mark.parametrize("by", ["flags", "TF_CONFIG"])
def test_a_linear_regressor_whose_tasks_are_started_by_hand(run: Run, by: str) -> None:
    hosts = [f"127.0.0.1:{port}" for port in ports(3)]
    ps, workers = hosts[:1], hosts[1:]
    common = ["--steps", "200", "--model_dir", str(run.directory / "model")]
    tasks = [("ps", 0), ("worker", 0), ("worker", 1)]
    processes = []
    for job, index in tasks:
        words, env = list(common), {"PHALANX_TOKEN": "b" * 32}
        if by == "flags":
            flags = {"ps_hosts": ",".join(ps), "worker_hosts": ",".join(workers), "job_name": job, "task_index": index}
            words += [f"--{name}={value}" for name, value in flags.items()]
        else:
            role, at = ("chief", 0) if (job, index) == ("worker", 0) else (job, max(index - 1, 0))
            cluster = {"chief": workers[:1], "ps": ps, "worker": workers[1:]}
            env["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": role, "index": at}})
        processes.append(run.start(EXAMPLES / "linear_regressor.py", *words, env=env))
    try:
        for (job, index), process in zip(tasks, processes, strict=True):
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, f"{job}/{index}:\n{out}\n{err}"
    finally:
        for process in processes:
            process.kill()
    assert (run.directory / "model" / "checkpoint").exists()


def test_a_dnn_classifier_in_every_role(run: Run) -> None:
    shown = launched(run, "dnn_classifier.py", "--ps", "2", "--workers", "2", "--evaluator", arguments=("--steps", "100"))
    assert number(r"'accuracy': ([\d.]+)", shown) > 0.8


def test_a_mirrored_fit(run: Run) -> None:
    shown = launched(run, "mirrored_fit.py", "--ps", "0", "--workers", "0")
    assert number(r"'loss': ([\d.e-]+)", shown) < 1


def test_a_custom_loop(run: Run) -> None:
    shown = launched(run, "custom_loop.py", "--ps", "0", "--workers", "0")
    assert number(r"epoch 9: accuracy ([\d.]+)", shown) > 0.95


@pytest.mark.parametrize("tasks", ["one process", "six tasks"])
def test_the_coordinator_tutorial(run: Run, tasks: str) -> None:
    if tasks == "one process":
        shown, _ = run(EXAMPLES / "coordinator.py")
    else:
        shown = launched(run, "coordinator.py", "--ps", "2", "--workers", "3")
        assert re.search(r"emb_layer.weight/part_1 \(4, 20\) on /job:ps/replica:0/task:1", shown), shown
    assert len(re.findall(r"Finished epoch \d, accuracy is", shown)) == 4
    assert number(r"Evaluation accuracy: ([\d.]+)", shown) > 0.8
    assert number(r"Distributed evaluation accuracy: ([\d.]+)", shown) > 0.8


def test_a_sidecar_evaluation(run: Run) -> None:
    shown = launched(run, "sidecar.py", "--ps", "2", "--workers", "2", "--evaluator")
    assert "trained to step 300" in shown
    assert number(r"step 300: loss ([\d.]+)", shown) < 0.01
    assert number(r"evaluated (\d+) checkpoints", shown) >= 1


def test_keras_3(run: Run) -> None:
    pytest.importorskip("keras")
    shown = launched(run, "keras_fit.py", "--ps", "2", "--workers", "2")
    assert len(re.findall(r"\d+ epochs, accuracy 0\.9\d\d", shown)) == 5, shown


def test_two_towers(run: Run) -> None:
    assert number(r"recall at 10: ([\d.]+)", launched(run, "two_tower.py", "--ps", "2", "--workers", "2")) > 0.5


def test_dlrm(run: Run) -> None:
    assert number(r"AUC ([\d.]+)", launched(run, "dlrm.py", "--ps", "2", "--workers", "2")) > 0.7
