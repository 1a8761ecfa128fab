"""Ctrl-C ends every call that can wait: in order the first time, at once the second time."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import Run

# What each script begins with. `endless` never ends and computes nothing, `stuck` never yields anything.
COMMON = """
import json, os, threading, time
import numpy as np
import phalanx
from phalanx import data, estimator as est, feature_column as fc, jobs, keras
from phalanx.data import Dataset

def stuck():
    print("stuck", flush=True)
    threading.Event().wait()
    yield {"x": 1.0}

def endless(label=True):
    rows = Dataset.from_tensor_slices(({"x": np.ones((8, 1))}, np.ones(8)) if label else {"x": np.ones((8, 1))})
    return rows.batch(8).repeat()

def linear():
    return est.LinearRegressor([fc.numeric_column("x")], "model")

def trained():
    return linear().train(endless, max_steps=1)

def fitted():
    model = keras.Sequential([keras.Input(shape=(1,)), keras.layers.Dense(1)])
    model.compile("sgd", loss="mse")
    return model

def alone(role):
    # A task whose peers never start.
    tasks = {"chief": ["127.0.0.1:0"], "ps": ["127.0.0.1:1"]}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": tasks, "task": {"type": role, "index": 0}})
    os.environ["PHALANX_TOKEN"] = "a" * 32
"""

# What is prepared, and the call that only Ctrl-C ends.
WAITING = {
    "a dataset whose generator is stuck": ("rows = iter(Dataset.from_generator(stuck))", "next(rows)"),
    "a dataset that keeps no row": ("rows = iter(endless().filter(lambda c: c['x'][:, 0] > 1))", "next(rows)"),
    "the shape of a dataset": ("", "Dataset.from_generator(stuck).element_spec"),
    "an arrow stream": (
        """
import pyarrow as pa
def batches():
    threading.Event().wait()
    yield
stream = pa.RecordBatchReader.from_batches(pa.schema([("x", pa.float32())]), batches())""",
        "data.from_arrow(stream)",
    ),
    "training": ("model = linear()", "model.train(endless)"),
    "training and evaluation": (
        "specs = est.TrainSpec(endless, max_steps=10**9), est.EvalSpec(endless, throttle_secs=10**6)",
        "est.train_and_evaluate(linear(), *specs)",
    ),
    "an evaluation": ("model = trained()", "model.evaluate(endless)"),
    "an evaluation after training": (
        "specs = est.TrainSpec(endless, max_steps=2), est.EvalSpec(endless, steps=None)",
        "est.train_and_evaluate(linear(), *specs)",
    ),
    "predictions": (
        "predicted = trained().predict(lambda: endless(label=False).filter(lambda c: c['x'][:, 0] > 1))",
        "next(predicted)",
    ),
    "fit": ("model = fitted()", "model.fit(endless(), epochs=10**9, verbose=0)"),
    "fit that validates": (
        "model = fitted()",
        "model.fit(endless(), steps_per_epoch=1, validation_data=endless(), verbose=0)",
    ),
    "evaluate of keras": ("model = fitted()", "model.evaluate(endless(), verbose=0)"),
    "predict of keras": ("model = fitted()", "model.predict(endless(label=False))"),
    "a job that does not form": ("alone('chief'); server = phalanx.connect()", "server.wait_until_formed()"),
    "a server without a job": ("alone('ps'); server = phalanx.connect()", "server.join()"),
    "training without servers": ("alone('chief')", "linear().train(endless)"),
    "fit without servers": ("alone('chief'); model = fitted()", "model.fit(endless(), steps_per_epoch=1, verbose=0)"),
    "a cluster": (
        """
def part(server):
    server.wait_until_formed()
    while not server.should_stop:
        time.sleep(0.01)
cluster = phalanx.MiniCluster(ps=1, workers=1)""",
        "cluster.run(part)",
    ),
    "a supervisor without servers": (
        """
import torch, phalanx.torch as pxt
alone('chief')
supervisor = pxt.Supervisor(phalanx.connect(), torch.nn.Linear(1, 1), phalanx.SGD(0.1))""",
        "supervisor.managed_session().__enter__()",
    ),
    "synchronous steps without the others": (
        """
import torch, phalanx.torch as pxt
model = torch.nn.Linear(1, 1)
def part(server):
    if not server.is_chief:
        server.wait_until_formed()
        while not server.should_stop:
            time.sleep(0.01)
        return
    with pxt.Supervisor(server, model, phalanx.SGD(0.1), consistency="sync").managed_session() as session:
        while session.step(lambda: model(torch.ones(1, 1)).sum()):
            pass
cluster = phalanx.MiniCluster(ps=1, workers=1)""",
        "cluster.run(part)",
    ),
}

# Calls that do not end in order, because the program itself waits: a second Ctrl-C ends them.
STUCK = {
    "a cluster": ("cluster = phalanx.MiniCluster(ps=1, workers=0)", "cluster.run(lambda server: next(stuck()))"),
    "training": ("model = linear()", "model.train(lambda: Dataset.from_generator(stuck, label='x').batch(1))"),
    "fit": ("model = fitted()", "model.fit(Dataset.from_generator(stuck, label='x').batch(1), verbose=0)"),
}


def threads(process: subprocess.Popen[str]) -> set[str]:
    """Return the names of a process's threads."""
    names: set[str] = set()
    for task in Path(f"/proc/{process.pid}/task").glob("*/comm"):
        try:
            names.add(task.read_text().strip())
        except OSError:
            continue  # It has ended.
    return names


def wait_for(process: subprocess.Popen[str], *names: str) -> None:
    """Wait until a process has a thread of one of these names: it is within a call."""
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        if threads(process) & set(names):
            return
        time.sleep(0.02)
    out, err = process.communicate(timeout=60)
    pytest.fail(f"the call is not made:\n{out}\n{err}")


def ended(process: subprocess.Popen[str]) -> str:
    """Return the errors of a process that ends by itself."""
    try:
        return process.communicate(timeout=60)[1]
    finally:
        process.kill()


def calling(run: Run, setup: str, call: str) -> subprocess.Popen[str]:
    """Start a process and return it when it is within a call."""
    if "torch" in setup:
        pytest.importorskip("torch")
    process = run.start(run.script("wait.py", f"{COMMON}\n{setup}\nprint('ready', flush=True)\n{call}\n"))
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        pytest.fail(ended(process))
    wait_for(process, "phalanx-call", "phalanx-session")
    return process


@pytest.mark.parametrize("call", WAITING)
def test_ctrl_c_ends_a_call_that_waits(run: Run, call: str) -> None:
    process = calling(run, *WAITING[call])
    process.send_signal(signal.SIGINT)
    err = ended(process)
    # Launchers read the exit code of a task.
    launched = call == "training without servers"
    assert process.returncode == (130 if launched else -signal.SIGINT), err
    assert launched or err.rstrip().endswith("KeyboardInterrupt"), err


@pytest.mark.parametrize("call", STUCK)
def test_a_second_ctrl_c_ends_a_call_that_does_not_end_in_order(run: Run, call: str) -> None:
    process = calling(run, *STUCK[call])
    assert process.stdout is not None
    assert process.stdout.readline() == "stuck\n"
    pressed = 0
    while process.poll() is None and pressed < 100:
        process.send_signal(signal.SIGINT)
        pressed += 1
        time.sleep(0.2)
    err = ended(process)
    assert err.rstrip().endswith("KeyboardInterrupt"), err
    assert pressed > 1


AGAIN = """
import _thread, threading
class Press(keras.Callback):
    def on_epoch_end(self, epoch, logs):
        if epoch == 3:
            _thread.interrupt_main()
model = fitted()
x = np.ones((8, 1), np.float32)
try:
    model.fit(x, x, epochs=10**9, verbose=0, callbacks=[Press()])
except KeyboardInterrupt:
    print("stopped")
print(len(model.fit(x, x, epochs=2, verbose=0).epoch), sorted(model.evaluate(x, x, verbose=0)))
"""


def test_a_model_can_be_fitted_again_after_ctrl_c(run: Run) -> None:
    out, _ = run(run.script("again.py", COMMON + AGAIN))
    assert out == "stopped\n2 ['loss']\n"


def test_ctrl_c_ends_the_demo_and_its_tasks(run: Run) -> None:
    process = run.start("-m", "phalanx", "demo", "--no-dashboard", "--max-steps", "1000000", "--model-dir", "demo")
    logs = run.directory / "demo/logs"
    until = time.monotonic() + 60
    while time.monotonic() < until and not list(logs.glob("*.log")):
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGINT)
    err = ended(process)
    assert process.returncode == 130, err
    assert children
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


FORKED = {
    "an object of the parent": ("server = phalanx.Server.local()", "server.wait_until_formed()"),
    "a new server": ("server = phalanx.Server.local()", "phalanx.Server.local()"),
    "a cluster": ("cluster = phalanx.MiniCluster(ps=1, workers=0)", "cluster.run(lambda server: None)"),
    "a dataset": ("rows = endless(); pass_over = iter(rows); next(pass_over)", "next(pass_over)"),
    "a new dataset": ("next(iter(endless()))", "next(iter(Dataset.range(3)))"),
    "a model": (
        "model = fitted(); model.evaluate(np.ones((1, 1)), np.ones((1, 1)), verbose=0)",
        "model.predict(np.ones((1, 1)))",
    ),
    "an estimator": ("model = trained()", "model.evaluate(endless, steps=1)"),
    "a job file": ("model = trained()", "phalanx.train('job.toml')"),
}

FORK = """
before = threading.active_count()
{parent}
child = os.fork()
if child == 0:
    try:
        {child}
    except phalanx.Error as error:
        print(error.code, error.help, flush=True)
    # As any program ends: objects are dropped, and what runs at exit does.
    raise SystemExit(0)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0
print("parent goes on", flush=True)
{parent}
"""


@pytest.mark.parametrize("what", FORKED)
def test_a_fork_gets_an_error_and_ends(run: Run, what: str) -> None:
    parent, child = FORKED[what]
    out, _ = run(run.script("fork.py", COMMON + FORK.format(parent=parent, child=child)))
    told, goes_on = out.splitlines()
    assert told.startswith("PX0119 ")
    assert "spawn" in told
    assert goes_on == "parent goes on"


def test_a_fork_of_a_process_that_has_only_imported_phalanx_may_use_it(run: Run) -> None:
    child = "print([row['value'].item() for row in Dataset.range(3)], flush=True)"
    script = FORK.format(parent="", child=child)
    out, _ = run(run.script("fork.py", COMMON + script))
    assert out == "[0, 1, 2]\nparent goes on\n"
