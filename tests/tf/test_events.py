"""Holds our event files against TensorBoard's own readers, and our reader against TensorFlow's writers.

Run like test_records.py; needs tensorboard 2.15 besides.
"""

import json
import os
import struct

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="needs tensorflow 2.15")
pytest.importorskip("tensorboard", reason="needs tensorboard 2.15")

import numpy as np  # noqa: E402
from tensorboard.backend.event_processing import event_accumulator, event_file_loader  # noqa: E402
from tensorboard.backend.event_processing import plugin_event_accumulator, plugin_event_multiplexer  # noqa: E402
from tensorboard.util import tensor_util  # noqa: E402

from test_records import bits, helper  # noqa: E402

NAME = "events.out.tfevents.1700000000.host.1.0.v2"
PNG = tf.io.encode_png(np.arange(4 * 3 * 3, dtype=np.uint8).reshape(4, 3, 3)).numpy()  # 3 wide, 4 high


def float_bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


@pytest.fixture
def ours(tmp_path):
    """A folder with one file of ours that has everything."""
    lines = [["start", 1700000000.75, 5, ""]]
    lines += [["scalar", 1700000001.0 + step, step, "train/loss", float_bits(1 / (1 + step))] for step in range(6, 16)]
    lines += [["scalar", 1700000002.0, 6, "acc", float_bits(0.5)]]
    lines += [["histogram", 1700000003.0, step, "w", bits(VALUES[step])] for step in VALUES]
    lines += [["text", 1700000004.0, 7, "note", "# Über *alles*"], ["text", 1700000005.0, 8, "note", "second"]]
    lines += [["image", 1700000006.0, 7, "digit", PNG.hex(), 3, 4]]
    lines += [["checkpoint", 1700000007.0, 9, "", "/m/model.ckpt-9"], ["stop", 1700000008.0, 15, ""]]
    helper("events", tmp_path / NAME, lines=lines)
    return tmp_path


RNG = np.random.RandomState(0)
VALUES = {
    6: RNG.normal(size=1000).astype(np.float32),
    7: np.array([2.5] * 7, np.float32),
    8: np.array([], np.float32),
    9: np.array([-1e30, 0, 1e30], np.float32),
}


def accumulate(folder):
    size = {kind: 0 for kind in (event_accumulator.TENSORS, event_accumulator.SCALARS, event_accumulator.IMAGES)}
    found = event_accumulator.EventAccumulator(str(folder), size_guidance=size)
    found.Reload()
    return found


def tensors(found, tag):
    return [(e.step, e.wall_time, tensor_util.make_ndarray(e.tensor_proto)) for e in found.Tensors(tag)]


def test_tensorboard_shows_our_scalars(ours):
    found = accumulate(ours)
    shown = tensors(found, "train/loss")
    assert [(step, wall) for step, wall, _ in shown] == [(step, 1700000001.0 + step) for step in range(6, 16)]
    assert [value.item() for _, _, value in shown] == [np.float32(1 / (1 + step)).item() for step in range(6, 16)]
    assert found.PluginTagToContent("scalars").keys() == {"train/loss", "acc"}
    assert found.file_version == 2.0 and found.FirstEventTimestamp() == 1700000000.5


def test_tensorboard_shows_our_histograms(ours):
    found = accumulate(ours)
    shown = {step: value for step, _, value in tensors(found, "w")}
    assert found.PluginTagToContent("histograms").keys() == {"w"} and shown.keys() == VALUES.keys()
    from tensorboard.plugins.histogram import summary_v2

    for step, values in VALUES.items():
        theirs = summary_v2._buckets(tf.constant(values)).numpy()
        assert shown[step].shape == theirs.shape == (30, 3)
        np.testing.assert_allclose(shown[step][:, :2], theirs[:, :2], rtol=1e-12, atol=1e-15 * np.ptp(theirs[:, :2]))
        np.testing.assert_array_equal(shown[step][:, 2], theirs[:, 2])


def test_tensorboard_shows_our_texts_and_images(ours):
    found = accumulate(ours)
    assert [(s, v.item().decode()) for s, _, v in tensors(found, "note")] == [(7, "# Über *alles*"), (8, "second")]
    assert found.PluginTagToContent("text").keys() == {"note"}
    (image,) = found.Images("digit")
    assert (image.step, image.width, image.height, image.encoded_image_string) == (7, 3, 4, PNG)
    assert found.PluginTagToContent("images").keys() == {"digit"}
    assert tf.io.decode_png(image.encoded_image_string).shape == (4, 3, 3)


def test_the_web_pages_multiplexer_finds_the_run(ours):
    found = plugin_event_multiplexer.EventMultiplexer().AddRun(str(ours), "run").Reload()
    classes = {}
    for plugin in ("scalars", "histograms", "text", "images"):
        for tag in found.PluginRunToTagToContent(plugin)["run"]:
            classes[tag] = found.SummaryMetadata("run", tag).data_class
    assert classes == {"train/loss": 1, "acc": 1, "w": 2, "note": 2, "digit": 3}


def test_the_raw_loader_reads_every_event(ours):
    events = list(event_file_loader.EventFileLoader(str(ours / NAME)).Load())
    assert events[0].file_version == "brain.Event:2"
    logs = [(e.step, e.session_log.status, e.session_log.checkpoint_path) for e in events if e.HasField("session_log")]
    assert logs == [(5, 1, ""), (9, 3, "/m/model.ckpt-9"), (15, 2, "")]
    old = list(tf.compat.v1.train.summary_iterator(str(ours / NAME)))
    assert len(old) == len(events)


def test_a_start_discards_what_a_crashed_run_left(tmp_path):
    """The first start of a run only begins it; what the web page reads forgets at every further one."""
    lines = [["start", 1.0, 0, ""]] + [["scalar", 1.0 + step, step, "x", float_bits(step)] for step in range(1, 9)]
    lines += [["start", 20.0, 4, ""]] + [["scalar", 20.0 + step, step, "x", float_bits(-step)] for step in range(4, 6)]
    helper("events", tmp_path / NAME, lines=lines)
    found = plugin_event_accumulator.EventAccumulator(str(tmp_path))
    found.Reload()
    shown = [(step, value.item()) for step, _, value in tensors(found, "x")]
    assert shown == [(1, 1), (2, 2), (3, 3), (4, -4), (5, -5)]


def read(folder):
    (path,) = folder.glob("*tfevents*")
    return [json.loads(line) for line in helper("read-events", path).splitlines()]


def summaries(events):
    lists = [(step, what) for _, step, what in events if isinstance(what, list)]
    return [(step, v["tag"], v["plugin"], v["value"]) for step, values in lists for v in values]


def test_we_read_tensorflow_2(tmp_path):
    data = VALUES[6]
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        for step in range(3):
            tf.summary.scalar("loss", 0.5 + step, step=step)
        tf.summary.histogram("w", data, step=1)
        tf.summary.text("note", ["a", "b"], step=1)
        tf.summary.image("digit", np.ones((2, 4, 3, 3), np.float32), step=2)
    events = read(tmp_path)
    assert events[0][2] == {"version": "brain.Event:2"}
    values = summaries(events)
    assert values[:3] == [(step, "loss", "scalars", 0.5 + step) for step in range(3)]
    step, tag, plugin, buckets = values[3]
    assert (step, tag, plugin, len(buckets)) == (1, "w", "histograms", 30)
    assert sum(count for _, _, count in buckets) == len(data)
    assert values[4] == (1, "note", "text", ["a", "b"])
    step, tag, plugin, (width, height, encoded) = values[5]
    assert (step, tag, plugin, width, height, len(encoded)) == (2, "digit", "images", 3, 4, 2)
    assert tf.io.decode_png(bytes.fromhex(encoded[0])).shape == (4, 3, 3)


def test_we_read_tensorflow_1_as_tensorboard_does(tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        merged = v1.summary.merge([
            v1.summary.scalar("loss", tf.constant(0.25)),
            v1.summary.histogram("w", tf.constant(VALUES[6])),
            v1.summary.image("digit", tf.ones((1, 4, 3, 3))),
        ])  # fmt: skip
        writer = v1.summary.FileWriter(str(tmp_path))
        writer.add_summary(session.run(merged), 7)
        writer.add_session_log(v1.SessionLog(status=v1.SessionLog.START), 3)
        writer.close()
    events = read(tmp_path)
    (path,) = tmp_path.glob("*tfevents*")
    migrated = {}
    for event in event_file_loader.EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            migrated[value.tag] = tensor_util.make_ndarray(value.tensor)
    values = {tag: (step, plugin, value) for step, tag, plugin, value in summaries(events)}
    assert values["loss"] == (7, "scalars", 0.25)
    np.testing.assert_allclose(values["w"][2], migrated["w"], rtol=1e-6)
    (tag,) = [tag for tag in values if tag.startswith("digit")]
    width, height, encoded = values[tag][2]
    assert [str(width).encode(), str(height).encode(), bytes.fromhex(encoded[0])] == migrated[tag].tolist()
    assert events[2][1:] == [3, {"session": "Start"}]
