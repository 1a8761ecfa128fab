"""The curves that a training writes without being asked, as TensorFlow and TensorBoard read them.

Run like test_jobs.py and test_fit.py; needs tensorboard 2.15 besides.
"""

import os
import subprocess

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="needs tensorflow 2.15")
pytest.importorskip("tensorboard", reason="needs tensorboard 2.15")

import numpy as np  # noqa: E402
from fit_cases import ours, regression  # noqa: E402
from tensorboard.backend.event_processing import plugin_event_accumulator  # noqa: E402
from tensorboard.util import tensor_util  # noqa: E402
from test_records import helper  # noqa: E402

NAME = "events.out.tfevents.1700000000.host.1.0.v2"
BINARY = os.environ.get("PHALANX_BIN")
JOB = """
[data]
train = "train.csv"
eval = "train.csv"
label = "y"

[columns]
x = { kind = "numeric" }

[model]
kind = "linear_regressor"
columns = ["x"]
optimizer = { name = "sgd", learning_rate = 0.1 }

[train]
batch_size = 50
max_steps = 12
shuffle = 0
save_summary_steps = 5
save_histograms = true
"""


def written(folder):
    """{(tag, step): value} of every summary, and the plugin of every tag, as TensorBoard's web page reads them."""
    found = plugin_event_accumulator.EventAccumulator(str(folder), size_guidance={"tensors": 0})
    found.Reload()
    values, plugins = {}, {}
    for tag in found.Tags()["tensors"]:
        plugins[tag] = found.SummaryMetadata(tag).plugin_data.plugin_name
        values |= {(tag, e.step): tensor_util.make_ndarray(e.tensor_proto) for e in found.Tensors(tag)}
    return values, plugins


def test_a_job_writes_its_curves(tmp_path):
    if not BINARY:
        pytest.fail("set PHALANX_BIN to the phalanx binary")
    x = np.arange(50, dtype=np.float32) / 50
    y = 2 * x + 1
    (tmp_path / "train.csv").write_text("x,y\n" + "".join(f"{a},{b}\n" for a, b in zip(x, y)))
    (tmp_path / "job.toml").write_text(JOB)
    environment = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    done = subprocess.run(
        [os.path.abspath(BINARY), "train", "job.toml", "--model-dir", "run"],
        cwd=tmp_path, env=environment, capture_output=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    values, plugins = written(tmp_path / "run")
    steps = {tag: sorted(step for known, step in values if known == tag) for tag in plugins}
    scalars = {"loss", "learning_rate", "gradient_norm", "global_step/sec"}
    assert {tag for tag, plugin in plugins.items() if plugin == "scalars"} == scalars
    for tag in scalars - {"global_step/sec"}:
        assert steps[tag] == [1, 6, 11], tag
    assert steps["global_step/sec"] == [6, 11] and values["global_step/sec", 6] > 0
    # The first step, as TensorFlow computes it: everything begins with 0.
    weights = [tf.Variable(0.0), tf.Variable(0.0)]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((weights[0] * x + weights[1] - y) ** 2)
    norm = tf.linalg.global_norm(tape.gradient(loss, weights))
    np.testing.assert_allclose(values["loss", 1], loss.numpy(), rtol=1e-5)
    np.testing.assert_allclose(values["gradient_norm", 1], norm.numpy(), rtol=1e-5)
    assert {values["learning_rate", step].item() for step in (1, 6, 11)} == {np.float32(0.1)}
    histograms = {tag for tag, plugin in plugins.items() if plugin == "histograms"}
    variables = {name for name, _ in tf.train.list_variables(str(tmp_path / "run")) if name.startswith("linear/")}
    assert histograms - {"staleness"} == {name for name in variables if "Momentum" not in name} and variables
    for tag in histograms - {"staleness"}:
        assert steps[tag] == [1, 6, 11] and values[tag, 11][:, 2].sum() == 1, "each has one number"
    # Every update was computed on the newest values.
    assert values["staleness", 11].tolist() == [[0, 1, 10]]


def test_a_fit_writes_its_curves_into_the_directory_that_a_launcher_offers(tmp_path, monkeypatch):
    monkeypatch.setenv("PHALANX_OUTPUT_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("TF_CONFIG", raising=False)
    ours(regression(validation_split=0.3))
    values, plugins = written(tmp_path / "run")
    assert set(plugins) - {"global_step/sec"} == {"loss", "mae", "val_loss", "val_mae", "learning_rate", "gradient_norm"}
    assert set(plugins.values()) == {"scalars"}
    validations = sorted(step for tag, step in values if tag == "val_loss")
    assert len(validations) == 5, "one for each epoch"
    norms = [value for (tag, _), value in values.items() if tag == "gradient_norm"]
    assert norms and min(norms) > 0


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_tensorflow_decodes_our_pictures(tmp_path, channels):
    pixels = np.random.RandomState(1).randint(0, 256, (5, 7, channels), dtype=np.uint8)
    helper("events", tmp_path / NAME, lines=[["pixels", 1.0, 3, "picture", pixels.tobytes().hex(), 7, 5, channels]])
    (image,) = [
        value.image
        for event in tf.compat.v1.train.summary_iterator(str(tmp_path / NAME))
        for value in event.summary.value
        if value.tag == "picture"
    ]
    assert (image.width, image.height, image.colorspace) == (7, 5, channels)
    np.testing.assert_array_equal(tf.io.decode_png(image.encoded_image_string).numpy(), pixels)
    values, plugins = written(tmp_path)
    assert plugins == {"picture": "images"}
    assert values["picture", 3].tolist() == [b"7", b"5", image.encoded_image_string]
