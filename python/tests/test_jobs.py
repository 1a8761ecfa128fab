"""phalanx.train and phalanx.jobs: jobs described by a file."""

from __future__ import annotations

import re

import numpy as np
import pytest

import phalanx
from phalanx import jobs

JOB = """
[data]
train = "points.csv"
eval = "points.csv"
label = "y"
[columns]
x = { kind = "numeric" }
[model]
kind = "linear_regressor"
columns = ["x"]
[train]
batch_size = 10
max_steps = 300
"""


@pytest.fixture
def job(tmp_path):
    x = np.linspace(0, 1, 100)
    (tmp_path / "points.csv").write_text("x,y\n" + "".join(f"{a},{2 * a + 1}\n" for a in x))
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path


def test_a_job_is_trained_evaluated_predicted_and_exported(job):
    done = phalanx.train(job / "job.toml", model_dir=job / "run", set={"train.batch_size": 20})
    assert (done.global_step, done.steps, done.task) == (300, 300, None)
    assert done.metrics["average_loss"] < 0.05
    assert done.model_dir == str(job / "run")
    assert jobs.evaluate(job / "run")["average_loss"] == pytest.approx(done.metrics["average_loss"])
    predicted = jobs.predict(job / "run", str(job / "points.csv"))["predictions"]
    assert predicted.shape == (100, 1)
    assert predicted[0, 0] < predicted[-1, 0]
    assert (jobs.export(job / "run", job / "exports") / "saved_model.pb").exists()


def test_a_mistake_is_pointed_at(job):
    (job / "job.toml").write_text(JOB.replace("batch_size = 10", "batch_size = 0"))
    with pytest.raises(phalanx.Error) as raised:
        phalanx.train(job / "job.toml")
    assert raised.value.code == "PX0115"
    assert "job.toml:12:14" in raised.value.place
    with pytest.raises(phalanx.Error, match="bathc_size"):
        phalanx.train(job / "job.toml", set={"train.bathc_size": 1})
    with pytest.raises(phalanx.Error) as raised:
        jobs.evaluate(job / "nothing")
    assert raised.value.code.startswith("PX0")


def test_a_job_runs_in_every_role(job, run):
    script = run.script("train.py", "import phalanx\nprint(phalanx.train('job.toml', model_dir='run'))\n")
    launch = ["launch", "--ps", "1", "--workers", "1", "--no-dashboard", "--progress", "none", "--run-dir", "logs"]
    run("-m", "phalanx", *launch, "--", "python", script)
    newest = re.search(r'^model_checkpoint_path: "model.ckpt-(\d+)"', (job / "run/checkpoint").read_text())
    # Each of the two trainers makes its step before it sees the other's last one.
    assert newest is not None
    assert int(newest[1]) in (300, 301)
