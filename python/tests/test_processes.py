"""Jobs of real processes, started by the command in the package."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path

import pytest
from conftest import Run

pytest.importorskip("torch")

# Every update adds 1 to a parameter and 1 to a row of a table: what is on the servers is a ledger of the updates.
LEDGER = """
import sys, time
import phalanx, phalanx.torch as pxt, torch

class Ledger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Parameter(torch.zeros(3))
        zeros = pxt.EmbeddingBagConfig(embedding_dim=2, name="rows", weight_init_min=0.0, weight_init_max=0.0)
        self.rows = pxt.EmbeddingBagCollection([zeros])

    def forward(self, features):
        return -(self.dense.sum() + self.rows(features).values().sum())

def part(server):
    model, features = Ledger(), {"rows": torch.tensor([7])}
    model_dir = sys.argv[1] if len(sys.argv) > 1 else None
    with pxt.Supervisor(server, model, phalanx.SGD(1.0), model_dir=model_dir).managed_session() as session:
        session.stop_at(STEPS)
        while session.step(lambda: model(features), features):
            time.sleep(PAUSE)
        session.refresh()
        dense, rows = model.dense.tolist(), model.rows(features).values().tolist()
        print("ledger", server.task, session.global_step, dense, rows, flush=True)

phalanx.job(part)
"""


def ledger(steps: int, pause: float = 0.0) -> str:
    return LEDGER.replace("STEPS", str(steps)).replace("PAUSE", str(pause))


def test_the_command_knows_its_version(run: Run) -> None:
    out, _ = run("-m", "phalanx", "--version")
    assert re.fullmatch(r"phalanx \d+\.\d+\.\d+\n", out)
    _, err = run("-m", "phalanx", "lunch", code=2)
    assert "launch" in err


def test_the_demo_runs_its_tasks_from_the_package(run: Run) -> None:
    out, _ = run("-m", "phalanx", "demo", "--json", "--no-dashboard", "--max-steps", "400", "--model-dir", "demo")
    found = json.loads(out)
    assert found["auc"] > 0.5
    assert set(found["exit_codes"].values()) == {0}
    assert "demo-task" in (run.directory / "demo/logs/job.json").read_text()


def launched(run: Run, script: Path, *flags: str) -> tuple[set[str], int]:
    """Launch a job of the script; return the trainers that came to its end, and check the ledger in its last checkpoint."""
    words = ("-m", "phalanx", "launch", "--no-dashboard", "--run-dir", "job", *flags, "--", sys.executable, script)
    out, err = run(*words)
    ended = set(re.findall(r"ledger (\S+) ", out + err))
    # A job of one process in the same directory continues, and has nothing left to do.
    out, _ = run(script, "job")
    _, _, step, numbers = out.split(maxsplit=3)
    assert numbers.strip() == f"[{step}.0, {step}.0, {step}.0] [[{step}.0, {step}.0]]"
    return ended, int(step)


def test_a_launched_job_counts_every_update_once(run: Run) -> None:
    ended, steps = launched(run, run.script("train.py", ledger(60)), "--ps", "1", "--workers", "2")
    assert ended == {"chief/0", "worker/0", "worker/1"}
    # Trainers that were computing when the last step was reached still send it.
    assert 60 <= steps <= 62


def test_a_killed_worker_leaves_the_ledger_exact(run: Run) -> None:
    script = run.script("train.py", ledger(150, pause=0.01))
    ended, steps = launched(run, script, "--ps", "2", "--workers", "2", "--kill", "worker/0@40")
    assert "chief/0" in ended
    assert "worker/1" in ended
    assert 150 <= steps <= 153


def test_a_checkpoint_has_the_names_of_torch(run: Run) -> None:
    script = """
import phalanx, phalanx.torch as pxt, torch

model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1, bias=False))
own = {"1.weight": phalanx.Adagrad(0.1)}
supervisor = pxt.Supervisor(phalanx.Server.local(), model, phalanx.SGD(0.5), optimizers=own, model_dir="run")
with supervisor.managed_session() as session:
    session.step(lambda: model(torch.ones(1, 2)).sum())
"""
    run(run.script("train.py", script))
    out, _ = run("-m", "phalanx", "checkpoint", "show", "run")
    shapes = dict(re.findall(r"^(\S+) +float32 +(\[.*?\])", out, re.MULTILINE))
    assert shapes == {"0.bias": "[3]", "0.weight": "[3, 2]", "1.weight": "[1, 3]", "1.weight/Adagrad": "[1, 3]"}


def test_two_scripts_do_not_meet_in_one_job(run: Run) -> None:
    one, other = run.script("one.py", ledger(5)), run.script("other.py", ledger(6))
    cluster = {"chief": ["127.0.0.1:0"], "ps": ["127.0.0.1:0"]}
    out, _ = run("-m", "phalanx", "launch", "--ps", "1", "--workers", "0", "--print")
    configs = [line[line.index("{") :].strip().strip("'") for line in out.splitlines() if "{" in line]
    by_role = {json.loads(config)["task"]["type"]: config for config in configs}
    assert set(by_role) == set(cluster)
    chief = run.start(one, env={"TF_CONFIG": by_role["chief"], "PHALANX_TOKEN": "a" * 32})
    server = run.start(other, env={"TF_CONFIG": by_role["ps"], "PHALANX_TOKEN": "a" * 32})
    try:
        _, err = server.communicate(timeout=60)
        assert server.returncode == 2, err
        assert "PX0203" in err
    finally:
        chief.kill()
        server.kill()


@pytest.mark.parametrize(
    ("sent", "code", "told"),
    # Python itself ends by SIGINT after a KeyboardInterrupt that nobody handles.
    [(signal.SIGINT, -signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, 1, "PX0802")],
)
def test_a_signal_saves_and_ends_the_program(run: Run, sent: signal.Signals, code: int, told: str) -> None:
    endless = ledger(1_000_000).replace("time.sleep(0.0)", 'print("step", flush=True)')
    process = run.start(run.script("train.py", endless), "run")
    assert process.stdout is not None
    for _ in range(20):
        assert process.stdout.readline() == "step\n"
    process.send_signal(sent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert told in err
    saved = (run.directory / "run" / "checkpoint").read_text()
    assert int(re.findall(r'model_checkpoint_path: "model.ckpt-(\d+)"', saved)[0]) >= 20, saved
