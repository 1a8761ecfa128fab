"""Programs of ours that read a case as JSON and say what they made of it."""

import json
import os
import subprocess

import pytest


def rate(given):
    """A learning rate: a number, or a schedule with the positional settings of Keras' class."""
    if not isinstance(given, dict):
        return given
    from tensorflow.keras.optimizers import schedules

    if given["schedule"] == "piecewise":
        return schedules.PiecewiseConstantDecay(given["boundaries"], given["values"])
    kinds = {"exponential": "ExponentialDecay", "cosine": "CosineDecay", "polynomial": "PolynomialDecay"}
    return getattr(schedules, kinds[given["schedule"]])(*given["settings"])


def run(name, case):
    """The program `name`, ended, with what it printed; its path is in the variable NAME, or it lies in target/debug."""
    variable = name.upper()
    binary = os.environ.get(variable, os.path.join(os.path.dirname(__file__), "../../target/debug", name))
    if not os.path.exists(binary):
        pytest.fail(f"set {variable} to the binary {name}")
    return subprocess.run([binary], input=json.dumps(case), capture_output=True, timeout=120, text=True)


def answer(name, case, code=0):
    """What the program makes of a case, or its error."""
    done = run(name, case)
    assert done.returncode == code, (done.returncode, done.stderr[-3000:])
    return json.loads(done.stdout) if code == 0 else done.stderr
