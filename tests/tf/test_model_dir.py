"""A run directory that a real job made (2 ps, 2 trainers), as TensorFlow and TensorBoard see it.

    PHALANX_TEST_TASK=target/debug/phalanx_test_task PHALANX_BIN=target/debug/phalanx \
        python -m pytest -q tests/tf/test_model_dir.py
"""

import json
import os
import socket
import subprocess

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="needs tensorflow 2.15")
pytest.importorskip("tensorboard", reason="needs tensorboard 2.15")

import numpy as np  # noqa: E402
from tensorboard.backend.event_processing import event_accumulator  # noqa: E402


def program(name):
    path = os.environ.get(name)
    if not path:
        pytest.fail(f"set {name}")
    return path


def ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    numbers = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return numbers


def train(folder, steps, optimizer="adam", ps=2):
    """Runs a job of `ps` servers and two trainers until `steps`; every process must end with 0."""
    numbers = ports(ps + 2)
    hosts = lambda some: ",".join(f"127.0.0.1:{port}" for port in some)  # noqa: E731
    common = [f"--ps_hosts={hosts(numbers[:ps])}", f"--worker_hosts={hosts(numbers[ps:])}", f"--max-steps={steps}"]
    common += [f"--model-dir={folder}", "--save-steps=20", "--step-ms=4", f"--optimizer={optimizer}", "--shards=2"]
    tasks = [("ps", i) for i in range(ps)] + [("worker", 0), ("worker", 1)]
    environment = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    started = []
    try:
        for job, index in tasks:
            command = [program("PHALANX_TEST_TASK"), *common, f"--job_name={job}", f"--task_index={index}"]
            started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        texts = [task.communicate(timeout=120)[0].decode() for task in started]
    finally:
        for task in started:
            task.kill()
    for (job, index), task, text in zip(tasks, started, texts):
        assert task.returncode == 0, (job, index, text)
    return texts[ps]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train(folder, 200)
    return folder


def test_tensorflow_finds_and_lists_the_checkpoint(run):
    latest = tf.train.latest_checkpoint(str(run))
    step = int(latest.rsplit("-", 1)[1])
    assert step >= 200
    assert tf.train.load_variable(latest, "global_step") == step
    found = dict(tf.train.list_variables(latest))
    assert found["weight"] == [8, 3] and found["bias"] == [3]
    # The slots have the names of tf.compat.v1.train.AdamOptimizer.
    assert found["weight/Adam"] == found["weight/Adam_1"] == [8, 3]
    state = tf.train.get_checkpoint_state(str(run))
    assert state.model_checkpoint_path == latest
    assert len(state.all_model_checkpoint_paths) == 5, "max_to_keep"
    assert all(tf.compat.v1.train.checkpoint_exists(path) for path in state.all_model_checkpoint_paths)


def test_every_value_is_the_same_to_the_bit(run):
    latest = tf.train.latest_checkpoint(str(run))
    reader = tf.train.load_checkpoint(latest)
    for name in ["weight", "weight/Adam", "weight/Adam_1", "bias", "bias/Adam", "ballast"]:
        command = [program("PHALANX_BIN"), "ckpt", "show", latest, "--values", name, "--json"]
        shown = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
        ours = np.array(shown["values"], np.float32).reshape(shown["shape"])
        theirs = reader.get_tensor(name)
        assert ours.tobytes() == theirs.tobytes(), name
        assert np.abs(theirs).max() > 0, name


def test_a_graph_of_tensorflow_restores_it(run):
    """What a user's old program does: the same variables and optimizer, then Saver.restore."""
    v1 = tf.compat.v1
    latest = tf.train.latest_checkpoint(str(run))
    with tf.Graph().as_default(), v1.Session() as session:
        weight = v1.get_variable("weight", [8, 3])
        bias = v1.get_variable("bias", [3])
        v1.train.get_or_create_global_step()
        optimizer = v1.train.AdamOptimizer(0.1)
        optimizer.minimize(tf.reduce_sum(weight) + tf.reduce_sum(bias))
        slots = [optimizer.get_slot(variable, name) for variable in (weight, bias) for name in ("m", "v")]
        v1.train.Saver([weight, bias, *slots, v1.train.get_global_step()]).restore(session, latest)
        assert session.run(weight).tobytes() == tf.train.load_variable(latest, "weight").tobytes()


def test_the_job_goes_on_from_it_in_other_servers(run):
    before = int(tf.train.latest_checkpoint(str(run)).rsplit("-", 1)[1])
    text = train(run, before + 60, ps=3)
    assert f"restored model.ckpt-{before}: continuing at step {before}" in text, text


def test_tensorboard_shows_loss_and_rate_and_the_start(run):
    found = event_accumulator.EventAccumulator(str(run), size_guidance={event_accumulator.TENSORS: 0})
    found.Reload()
    assert {"loss", "global_step/sec"} <= set(found.Tags()["tensors"]), found.Tags()
    losses = found.Tensors("loss")
    assert all(np.isfinite(tf.make_ndarray(event.tensor_proto)) for event in losses)
    events = [
        event
        for name in sorted(os.listdir(run))
        if "tfevents" in name
        for event in tf.compat.v1.train.summary_iterator(str(run / name))
    ]
    logs = [event.session_log for event in events if event.HasField("session_log")]
    assert logs[0].status == tf.compat.v1.SessionLog.START
    saved = [log.checkpoint_path for log in logs if log.status == tf.compat.v1.SessionLog.CHECKPOINT]
    assert "model.ckpt-0" in saved
