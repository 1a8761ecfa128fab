"""Tables without bounds: exported as the ids that were seen, TensorFlow loads them and predicts the same.

    PHALANX_BIN=target/debug/phalanx python -m pytest -q tests/tf/test_growing_tables.py
"""

import json
import os
import subprocess

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="needs tensorflow 2.15")

JOB = """
[data]
train = "train.csv"
eval = "test.csv"
label = "y"
[columns]
user = {{ kind = "identity", num_buckets = "unbounded" }}
user_vector = {{ kind = "embedding", column = "user", dimension = 4, combiner = "{combiner}"{more} }}
[model]
kind = "dnn_linear_combined_classifier"
linear_columns = ["user"]
dnn_columns = ["user_vector"]
hidden_units = [8]
linear_optimizer = {{ name = "ftrl", learning_rate = 0.3 }}
dnn_optimizer = {{ name = "adagrad", learning_rate = 0.3 }}
[train]
max_steps = 60
batch_size = 16
[eval]
steps = "all"
start_delay_secs = 0
"""


def phalanx(*arguments, cwd):
    binary = os.environ.get("PHALANX_BIN")
    if not binary:
        pytest.fail("set PHALANX_BIN to the phalanx binary")
    environment = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    command = [os.path.abspath(binary), *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("combiner, more", [("mean", ""), ("sqrtn", ", max_norm = 0.5")])
def test_tensorflow_serves_a_growing_table(combiner, more, tmp_path):
    draw = np.random.default_rng(3)
    users = draw.integers(0, 2**62, size=40)
    rows = [(user, int(user % 2)) for user in draw.choice(users, size=400)]
    # The last ids are not in the training data, some below, between and above those that are.
    served = [*users.tolist(), 0, 5, int(users.max()) + 1, 2**63 - 2]
    write = lambda name, rows: (tmp_path / name).write_text("user,y\n" + "".join(f"{user},{y}\n" for user, y in rows))  # noqa: E731
    write("train.csv", rows)
    write("test.csv", [(user, user % 2) for user in served])
    (tmp_path / "job.toml").write_text(JOB.format(combiner=combiner, more=more))
    assert "the dry run succeeded" in phalanx("train", "job.toml", "--dry-run", cwd=tmp_path)
    phalanx("train", "job.toml", "--model-dir", "run", cwd=tmp_path)
    folder = phalanx("export", "run", "--to", "out", "--raw", cwd=tmp_path).strip()
    lines = phalanx("predict", "run", "--input", "test.csv", "--json", cwd=tmp_path).splitlines()
    ours = np.array([json.loads(line)["logits"] for line in lines])
    assert len({float(logit) for logit in ours[-4:, 0]}) == 1, "ids that were not seen have one row"

    signature = tf.saved_model.load(str(tmp_path / folder)).signatures["predict"]
    theirs = signature(user=tf.reshape(tf.constant(served, tf.int64), [-1, 1]))["logits"].numpy()
    np.testing.assert_allclose(theirs, ours, atol=1e-5)
    assert np.ptp(theirs[:40]) > 0.1, "it learned something"
    # Without an id there is no row.
    bias = signature(user=tf.constant([[-1]], tf.int64))["logits"].numpy()
    assert np.isfinite(bias).all()
