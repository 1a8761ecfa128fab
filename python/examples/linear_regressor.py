"""A linear regression as any task of a job: `tf.estimator`'s program, with the flags of `tf.train.Server`.

    python -m phalanx launch --ps 2 --workers 2 --evaluator -- python linear_regressor.py
    python linear_regressor.py --ps_hosts=h0:2222 --worker_hosts=h1:2222,h2:2222 --job_name=worker --task_index=0

Nothing but the import line differs from a script of TensorFlow.
"""

import argparse
import json
import os

import numpy as np

from phalanx.compat import tf

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", default="")
parser.add_argument("--worker_hosts", default="")
parser.add_argument("--job_name", default="")
parser.add_argument("--task_index", default="0")
parser.add_argument("--model_dir", default=None)
parser.add_argument("--steps", type=int, default=600)
FLAGS = parser.parse_args()

if FLAGS.job_name:
    ps_hosts = FLAGS.ps_hosts.split(",")
    worker_hosts = FLAGS.worker_hosts.split(",")
    job_name = FLAGS.job_name
    task_index = int(FLAGS.task_index)

    # The first worker is the chief.
    cluster = {"chief": [worker_hosts[0]], "ps": ps_hosts, "worker": worker_hosts[1:]}
    if job_name == "worker" and task_index == 0:
        job_name = "chief"
    if job_name == "worker" and task_index > 0:
        task_index = task_index - 1
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": job_name, "index": task_index}})


def points(rows):
    """Return points of y = 3 · feature1 - 2 · feature2 + 1."""
    numbers = np.random.default_rng(7)
    one, two = numbers.random(rows), numbers.random(rows)
    return {"feature1": one, "feature2": two}, 3 * one - 2 * two + 1


def input_train_fn():
    return tf.data.Dataset.from_tensor_slices(points(2000)).shuffle(2000).repeat().batch(50)


def input_test_fn():
    return tf.data.Dataset.from_tensor_slices(points(500)).batch(100)


feature_columns = [
    tf.feature_column.numeric_column(key="feature1"),
    tf.feature_column.numeric_column(key="feature2"),
]
model = tf.estimator.LinearRegressor(feature_columns=feature_columns, model_dir=FLAGS.model_dir)

train_spec = tf.estimator.TrainSpec(input_fn=input_train_fn, max_steps=FLAGS.steps)
eval_spec = tf.estimator.EvalSpec(input_fn=input_test_fn, steps=None, start_delay_secs=0, throttle_secs=1)

print(tf.estimator.train_and_evaluate(model, train_spec, eval_spec))
