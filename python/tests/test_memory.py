"""Training does not need more and more memory. `PHALANX_LEAK_STEPS` sets how many steps are watched."""

from __future__ import annotations

import json
import os

import pytest
from conftest import Run

STEPS = int(os.environ.get("PHALANX_LEAK_STEPS", "1000"))

# Python's own allocations, and what the process has in memory, before and after many steps.
WATCH = """
import gc, json, tracemalloc
from pathlib import Path

def resident():
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])

def watch(steps):
    # `steps(n)` makes n steps.
    steps(STEPS // 2)
    gc.collect()
    tracemalloc.start()
    steps(10)
    gc.collect()
    python, process = tracemalloc.get_traced_memory()[0], resident()
    steps(STEPS)
    gc.collect()
    print(json.dumps([tracemalloc.get_traced_memory()[0] - python, resident() - process]))
"""

TRAININGS = {
    "a session of torch": """
import torch, phalanx, phalanx.torch as pxt

class Clicks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = pxt.EmbeddingBagCollection([pxt.EmbeddingBagConfig(name="user", embedding_dim=8)])
        self.tower = torch.nn.Linear(8, 1)

    def forward(self, features):
        return self.tower(self.tables(features).values())

torch.set_num_threads(1)
model = Clicks()
with pxt.Supervisor(phalanx.Server.local(), model, phalanx.Adagrad(0.1)).managed_session() as session:
    def steps(count):
        for step in range(count):
            features = {"user": (torch.randint(0, 100, (64,)), torch.arange(0, 65, 2))}
            session.step(lambda: model(features).square().mean(), features)
    watch(steps)
""",
    "a dataset with functions": """
import numpy as np
from phalanx.data import Dataset

def double(columns):
    return {"x": columns["x"] * 2, "t": columns["t"]}

rows = Dataset.from_tensor_slices({"x": np.ones((100, 4)), "t": ["a", "b"] * 50}).map(double).filter(lambda c: c["x"][:, 0] > 0)
batches = iter(rows.repeat().shuffle(100).batch(32))

def steps(count):
    for _ in range(count):
        assert next(batches)["x"].shape == (32, 4)
watch(steps)
""",
    "many fits and iterations": """
import numpy as np
from phalanx import keras
from phalanx.data import Dataset

x = np.ones((32, 1), np.float32)
model = keras.Sequential([keras.Input(shape=(1,)), keras.layers.Dense(1)])
model.compile("sgd", loss="mse")

def steps(count):
    for _ in range(count // 10):
        model.fit(x, x, epochs=1, verbose=0)
        assert len(list(Dataset.range(100).batch(10))) == 10
watch(steps)
""",
}


@pytest.mark.parametrize("training", TRAININGS)
def test_memory_does_not_grow(run: Run, training: str) -> None:
    if "torch" in training:
        pytest.importorskip("torch")
    script = run.script("watch.py", f"STEPS = {STEPS}\n{WATCH}\n{TRAININGS[training]}")
    out, _ = run(script, seconds=600)
    python, process = json.loads(out)
    # Caches fill, and the allocator rounds; a leak of one gradient or batch a step would be more.
    assert python < 100_000, f"{python} bytes of Python's after {STEPS} steps"
    assert process < 12_000_000, f"{process} bytes resident after {STEPS} steps"
