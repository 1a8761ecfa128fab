"""Jobs whose tasks are killed at random moments: every update counts once, whoever dies. `PHALANX_CHAOS` sets how many jobs.

A killed parameter server comes back with its part of the newest checkpoint. What it took in since is lost, and the chief logs how
many steps that are at most: the values on it are those of the updates that it counts, each once.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Run

pytest.importorskip("torch")

JOBS = int(os.environ.get("PHALANX_CHAOS", "2"))
STEPS = 250

# Every update adds 1 to two parameters and to 16 rows, which lie on both servers.
LEDGER = """
import phalanx, time

def part(server):
    import phalanx.torch as pxt, torch

    class Ledger(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.zeros(5))
            zeros = pxt.EmbeddingBagConfig(embedding_dim=1, name="rows", weight_init_min=0.0, weight_init_max=0.0)
            self.rows = pxt.EmbeddingBagCollection([zeros])

        def forward(self, features):
            return -(self.a.sum() + self.b.sum() + self.rows(features).values().sum())

    model, features = Ledger(), {"rows": torch.arange(16)}
    with pxt.Supervisor(server, model, phalanx.SGD(1.0), save_model_secs=1).managed_session() as session:
        session.stop_at(STEPS)
        while session.step(lambda: model(features), features):
            time.sleep(0.02)

phalanx.job(part)
""".replace("STEPS", str(STEPS))


def tasks_of(launcher: subprocess.Popen[str]) -> dict[str, int]:
    """Return the process of each task that a launcher runs now."""
    found: dict[str, int] = {}
    for process in Path(f"/proc/{launcher.pid}/task").glob("*/children"):
        for pid in process.read_text().split():
            try:
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue  # It has ended.
            config = next((json.loads(one[10:]) for one in variables if one.startswith(b"TF_CONFIG=")), None)
            if config is not None:
                found[f"{config['task']['type']}/{config['task']['index']}"] = int(pid)
    return found


def killed(launcher: subprocess.Popen[str], task: str) -> bool:
    """Kill a task, unless the job ends before it runs."""
    until = time.monotonic() + 60
    while launcher.poll() is None and time.monotonic() < until:
        pid = tasks_of(launcher).get(task)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            return True
        time.sleep(0.02)
    return False


def global_step(job: Path) -> int:
    """Return the global step that the chief has told last."""
    status = job / "logs/status/chief-0.json"
    return json.loads(status.read_text()).get("global_step") or 0 if status.exists() else 0


@pytest.mark.parametrize("seed", range(JOBS))
def test_the_ledger_is_exact_whoever_dies(run: Run, seed: int) -> None:
    chosen = random.Random(seed)
    script = run.script("train.py", LEDGER)
    words = ("launch", "--ps", "2", "--workers", "2", "--no-dashboard", "--run-dir", "job", "--progress", "none")
    launcher = run.start("-m", "phalanx", *words, "--", sys.executable, script)
    victims = [f"ps/{chosen.randrange(2)}", f"worker/{chosen.randrange(2)}"]
    chosen.shuffle(victims)
    moments = sorted(chosen.randrange(STEPS // 3) for _ in victims)
    try:
        hit = []
        for victim, moment in zip(victims, moments, strict=True):
            until = time.monotonic() + 60
            while global_step(run.directory / "job") < moment and time.monotonic() < until:
                assert launcher.poll() is None, launcher.communicate()
                time.sleep(0.01)
            hit.append(killed(launcher, victim))
        out, err = launcher.communicate(timeout=120)
    finally:
        launcher.kill()
    assert launcher.returncode == 0, f"{victims} at {moments}:\n{out}\n{err}"
    assert all(hit), (victims, moments)
    check(run, {victim for victim in victims if victim.startswith("ps")}, out)


def check(run: Run, killed_servers: set[str], log: str) -> None:
    """Check the newest checkpoint: each value is the number of updates that its server counts."""

    def values(name: str) -> list[Any]:
        out, _ = run("-m", "phalanx", "checkpoint", "show", "job", "--values", name, "--json")
        return json.loads(out)["values"]

    (step,) = values("global_step")
    assert step >= STEPS
    lost = max((int(number) for number in re.findall(r"is lost, at most (\d+) steps", log)), default=0)
    counted: dict[str, set[int]] = {}
    for server in range(2):
        items, counts = values(f"_phalanx/ps-{server:05}/items"), values(f"_phalanx/ps-{server:05}/counts")
        for item, updates in zip(items, counts[1::3], strict=True):
            counted.setdefault(item, set()).add(updates)
            if f"ps/{server}" in killed_servers:
                least = step - lost
            else:
                # ps/0 counts the global step: if it dies, a step of each of the three trainers may count twice there.
                least = step - 3 if "ps/0" in killed_servers else step
                assert updates == sum(values(f"_phalanx/ps-{server:05}/applied")[3::7]), "the last step of each incarnation"
            assert least <= updates <= step, f"ps/{server} counts {updates} of {step} updates of {item}; {lost} may be lost"
    assert set(values("a")) == counted["a"]
    assert set(values("b")) == counted["b"]
    assert set(values("rows-values")) == counted["rows"]
