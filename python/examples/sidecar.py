"""A coordinated job, and an evaluator beside it that evaluates every checkpoint.

    python -m phalanx launch --ps 2 --workers 2 --evaluator --run-dir runs/sidecar -- python sidecar.py

One script for all tasks: only the evaluator, which has no connection to the others, is told apart.
"""

import argparse
import time

import torch

from phalanx import SGD
from phalanx.compat import tf
from phalanx.torch import PsOptimizer

parser = argparse.ArgumentParser()
parser.add_argument("--model_dir", default=None)
parser.add_argument("--steps", type=int, default=300)
FLAGS = parser.parse_args()

torch.manual_seed(0)
model = torch.nn.Linear(1, 1)


def loss_of(points):
    """Return the mean squared error on random points of y = 3 x + 1."""
    x = torch.rand(points, 1) * 2 - 1
    return torch.nn.functional.mse_loss(model(x), 3 * x + 1)


cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if cluster_resolver.task_type == "evaluator":
    # Run side-car evaluation.
    @torch.no_grad()
    def evaluate(step):
        loss = loss_of(1000).item()
        print(f"step {step}: loss {loss:.6f}", flush=True)
        return {"loss": loss}

    evaluated = tf.keras.utils.SidecarEvaluator(model, evaluate, FLAGS.model_dir).start()
    print(f"evaluated {evaluated} checkpoints", flush=True)
else:
    strategy = tf.distribute.experimental.ParameterServerStrategy(
        cluster_resolver, model_dir=FLAGS.model_dir, save_model_steps=100
    )
    with strategy.scope():
        optimizer = PsOptimizer(model, SGD(0.1))

    def step_fn():
        optimizer.zero_grad()
        loss_of(64).backward()
        optimizer.step()

    coordinator = tf.distribute.experimental.coordinator.ClusterCoordinator(strategy)
    for _ in range(FLAGS.steps):
        coordinator.schedule(step_fn)
    while not coordinator.done():
        # The chief is free meanwhile.
        time.sleep(0.05)
    if coordinator.is_chief:
        print(f"trained to step {coordinator.global_step}", flush=True)
