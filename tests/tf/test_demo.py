"""What `phalanx demo` leaves behind opens in TensorFlow and in TensorBoard, and nothing of it still runs.

Needs PHALANX_BIN.
"""

import glob
import json
import os
import subprocess

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    model_dir = str(tmp_path_factory.mktemp("demo"))
    command = [os.environ["PHALANX_BIN"], "demo", "--max-steps", "600", "--model-dir", model_dir, "--no-dashboard", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return model_dir, json.loads(done.stdout.strip().splitlines()[-1])


def test_the_last_line_is_the_result(demo):
    model_dir, line = demo
    assert set(line) == {"auc", "best_auc", "steps_per_s", "first_step_s", "model_dir", "export_dir", "exit_codes", "updates_lost"}
    assert line["model_dir"] == model_dir and 0.55 < line["auc"] < line["best_auc"] < 0.9
    assert line["steps_per_s"] > 0 and line["first_step_s"] > 0 and line["updates_lost"] == 0
    tasks = ["chief/0", "evaluator/0", "ps/0", "ps/1", "worker/0", "worker/1"]
    assert line["exit_codes"] == dict.fromkeys(tasks, 0)


def test_nothing_of_it_still_runs(demo):
    model_dir, _ = demo
    left = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            command = open(path, "rb").read()
        except OSError:
            continue
        if b"demo-task" in command and model_dir.encode() in command:
            left.append(command)
    assert not left


def test_the_newest_checkpoint_opens_in_tensorflow(demo):
    model_dir, _ = demo
    newest = tf.train.latest_checkpoint(model_dir)
    reader = tf.train.load_checkpoint(newest)
    assert reader.get_tensor("global_step") >= 600
    kernel = reader.get_tensor("dnn/hiddenlayer_0/kernel")
    assert kernel.shape == (13 + 26 * 8, 64) and np.isfinite(kernel).all()


def test_the_exported_model_predicts_in_tensorflow(demo):
    _, line = demo
    loaded = tf.saved_model.load(line["export_dir"])
    features = {f"I{i + 1}": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5])) for i in range(13)}
    features |= {f"C{i + 1}": tf.train.Feature(int64_list=tf.train.Int64List(value=[1])) for i in range(26)}
    example = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    scores = loaded.signatures["serving_default"](tf.constant([example]))["scores"].numpy()
    assert scores.shape == (1, 2) and abs(scores.sum() - 1) < 1e-5


def test_curves_and_evaluations_open_in_tensorboard(demo):
    model_dir, line = demo
    for folder, tag in [(model_dir, "loss"), (os.path.join(model_dir, "eval"), "auc")]:
        events = event_accumulator.EventAccumulator(folder)
        events.Reload()
        tensors = events.Tensors(tag) if tag in events.Tags()["tensors"] else events.Scalars(tag)
        assert tensors, events.Tags()
    last = tensors[-1]
    value = float(tf.make_ndarray(last.tensor_proto)) if hasattr(last, "tensor_proto") else last.value
    assert abs(value - line["auc"]) < 1e-6 and last.step >= 600
