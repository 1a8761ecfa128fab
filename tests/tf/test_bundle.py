"""Holds our checkpoints against real TensorFlow: it reads what we write, we read what it writes, bit by bit.

Run with the interpreter of an environment that has tensorflow 2.15 and pytest, PHALANX_BIN=path/to/phalanx and
PHALANX_WRITE_BUNDLE=path/to/phalanx_write_bundle (of the crate phalanx-tests).
"""

import json
import os
import subprocess

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="needs tensorflow 2.15")

import numpy as np  # noqa: E402
from tensorflow.python.distribute.sharded_variable import ShardedVariable  # noqa: E402

v1 = tf.compat.v1
NAN = float("nan")
EXPECTED = {
    "int64": np.array([[0, -1, 2**63 - 1], [-(2**63), 2**40, 7]], np.int64),
    "float32": np.array([[0.1, -0.0, np.finfo(np.float32).max], [np.float32(2**-129), np.inf, NAN]], np.float32),
    "float64": np.array([[0.1, -0.0, np.finfo(np.float64).max], [5e-324, -np.inf, 1 / 3]], np.float64),
    "int32": np.array([[0, -1, 2**31 - 1], [-(2**31), 5, 6]], np.int32),
    "uint8": np.array([[0, 1, 2], [127, 128, 255]], np.uint8),
    "bool": np.array([[False, True, True], [False, False, True]]),
    "strings": np.array(
        [[b"", b"plain", b"\xff\x00\n"], ["\u00e9\u6f22".encode(), b"x" * 300, b"last"]], dtype=object
    ),
    "no_strings": np.array([], dtype=object),
    "empty": np.zeros([0, 5], np.float32),
    **{f"dense_{i}/kernel": (np.arange(50, dtype=np.float32) + i * 0.5).reshape(5, 10) for i in range(40)},
    "table": (np.arange(1003 * 7, dtype=np.float32) / 4).reshape(1003, 7),
    "grid": (np.arange(48, dtype=np.float32) / 4).reshape(4, 6, 2),
}


def environment(name):
    if not os.environ.get(name):
        pytest.fail(f"set {name} to the binary")
    return os.environ[name]


def ckpt(*arguments, code=0):
    """Runs `phalanx checkpoint ... --json`."""
    done = subprocess.run(
        [environment("PHALANX_BIN"), "ckpt", *map(str, arguments), "--json"], capture_output=True, timeout=60
    )
    assert done.returncode == code, (done.returncode, done.stdout[-500:], done.stderr[-2000:])
    answer = json.loads(done.stdout)
    assert bool(done.stderr) == bool("error" in answer or answer.get("problems")), done.stderr
    return answer


def written(folder, shards, step=1200, layers=40):
    """A checkpoint of ours: the folder's model.ckpt-STEP. Tensors are written in the order of EXPECTED."""
    folder.mkdir(exist_ok=True)
    command = [environment("PHALANX_WRITE_BUNDLE"), *map(str, (folder, shards, step, layers))]
    subprocess.run(command, check=True, timeout=60)
    return str(folder / f"model.ckpt-{step}")


def same(found, expected):
    """Bit by bit, NaNs and zeros' signs too."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert found.tolist() == expected.tolist() if found.dtype == object else found.tobytes() == expected.tobytes()


def ours(prefix, name):
    """A tensor as `phalanx checkpoint show --values` gives it."""
    answer = ckpt("show", prefix, "--values", name)
    dtype = np.dtype(object if answer["dtype"] == "string" else answer["dtype"])

    def value(item):
        if dtype == object:
            return bytes.fromhex(item["hex"]) if isinstance(item, dict) else item.encode()
        if dtype.name in ("float16", "int16", "uint16", "int8", "uint32", "uint64", "complex64"):
            return np.frombuffer(bytes.fromhex(item), dtype)[0]
        return float(item) if isinstance(item, str) else item

    values = np.empty(len(answer["values"]), dtype)
    values[:] = [value(item) for item in answer["values"]]
    return values.reshape(answer["shape"])


def agree(prefix, expected=None):
    """Asserts that we read all that TensorFlow reads from a checkpoint, and gives its names."""
    reader = tf.train.load_checkpoint(prefix)
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    listed = {item["name"]: item for item in ckpt("show", prefix)["tensors"]}
    assert {name: (item["shape"], item["dtype"]) for name, item in listed.items()} == {
        name: (shape, dtypes[name].name) for name, shape in shapes.items()
    }
    for name in shapes:
        found = reader.get_tensor(name)
        found = np.array(found, dtype=object) if dtypes[name] == tf.string else found
        same(ours(prefix, name), found)
        if expected is not None and name in expected:
            same(found, expected[name])
    assert ckpt("verify", prefix)["sound"]
    return listed


@pytest.mark.parametrize("shards", [1, 4])
def test_tensorflow_reads_ours(tmp_path, shards):
    prefix = written(tmp_path / "m", shards)
    listed = dict(tf.train.list_variables(prefix))
    assert listed == {"global_step": [], **{name: list(value.shape) for name, value in EXPECTED.items()}}
    same(tf.train.load_variable(prefix, "global_step"), np.array(1200, np.int64))
    reader = tf.train.load_checkpoint(prefix)
    for name, value in EXPECTED.items():
        for found in (reader.get_tensor(name), tf.train.load_variable(prefix, name)):
            same(np.array(found, dtype=object) if value.dtype == object else found, value)
    slices = {item["name"]: len(item["slices"]) for item in agree(prefix, EXPECTED).values()}
    assert slices["grid"] == 4 and slices["table"] == (4 if shards == 4 else 0)


@pytest.mark.parametrize("shards", [1, 3, 4])
def test_tensorflow_restores_any_slice_of_ours(tmp_path, shards):
    prefix = written(tmp_path / "m", shards)
    for start, count in [(0, 1003), (0, 1), (250, 2), (1002, 1), (100, 800)]:
        spec = f"1003 7 {start},{count}:0,7"
        (part,) = tf.raw_ops.RestoreV2(
            prefix=prefix, tensor_names=["table"], shape_and_slices=[spec], dtypes=[tf.float32]
        )
        same(part.numpy(), EXPECTED["table"][start : start + count])
    (part,) = tf.raw_ops.RestoreV2(
        prefix=prefix, tensor_names=["grid"], shape_and_slices=["4 6 2 1,2:2,3:-"], dtypes=[tf.float32]
    )
    same(part.numpy(), EXPECTED["grid"][1:3, 2:5])


def test_tensorflow_restores_ours_into_a_graph(tmp_path):
    prefix = written(tmp_path / "m", 4)
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope("", partitioner=v1.fixed_size_partitioner(3)):
            table = v1.get_variable("table", [1003, 7])
        step = v1.get_variable("global_step", [], tf.int64, initializer=v1.zeros_initializer())
        v1.train.Saver().restore(session, prefix)
        same(session.run(tf.convert_to_tensor(table)), EXPECTED["table"])
        assert session.run(step) == 1200


def test_latest_checkpoint_of_our_state(tmp_path):
    written(tmp_path / "m", 2, 7)
    newest = written(tmp_path / "m", 2, 9)
    assert tf.train.latest_checkpoint(tmp_path / "m") == newest
    state = tf.train.get_checkpoint_state(tmp_path / "m")
    assert list(state.all_model_checkpoint_timestamps) == [1.7e9 + 0.25]
    listed = ckpt("ls", tmp_path / "m")
    assert listed["latest"] == "model.ckpt-9"
    assert [(item["step"], item["latest"], item["problem"]) for item in listed["checkpoints"]] == [
        (9, True, None),
        (7, False, None),
    ]


def test_we_read_states_that_tensorflow_writes(tmp_path):
    names = ["plain", "sp ace", "quo\"te's", "\u00e9\u6f22", "new\nline\ttab\\", "a/b"]
    v1.train.update_checkpoint_state(str(tmp_path), names[-1], names, None, [1.5, 2.0, 1e9, 1.7e9, 0.1, 3.0], 12.25)
    answer = ckpt("ls", tmp_path)
    assert [item["name"] for item in answer["checkpoints"]] == names
    assert answer["latest"] == names[-1]


@pytest.mark.parametrize("layers", [0, 40, 20_000])
def test_our_files_are_tensorflows_byte_for_byte(tmp_path, layers):
    """The same tensors saved by both in the same order; 20,000 make an index of several blocks."""
    prefix, theirs = written(tmp_path / "m", 1, layers=layers), str(tmp_path / "theirs")
    kernel = np.arange(50, dtype=np.float32).reshape(5, 10)
    saved = [("global_step", "", np.array(1200, np.int64))]
    saved += [(name, "", value) for name, value in EXPECTED.items() if "dense" not in name and name != "grid"]
    saved[-1:] = [(f"dense_{i}/kernel", "", kernel + np.float32(i * 0.5)) for i in range(layers)] + saved[-1:]
    quarters = [(row, column) for row in (0, 2) for column in (0, 3)]
    saved += [("grid", f"4 6 2 {r},2:{c},3:-", EXPECTED["grid"][r : r + 2, c : c + 3]) for r, c in quarters]
    names, specs, values = zip(*saved)
    values = [tf.constant(value, tf.string if value.dtype == object else None) for value in values]
    tf.raw_ops.SaveV2(prefix=theirs, tensor_names=names, shape_and_slices=specs, tensors=values)
    for suffix in (".data-00000-of-00001", ".index"):
        assert open(prefix + suffix, "rb").read() == open(theirs + suffix, "rb").read(), suffix
    assert ckpt("diff", prefix, theirs)["same"]
    assert len(tf.train.list_variables(prefix)) == len(EXPECTED) + 1 - 40 + layers
    assert (os.path.getsize(prefix + ".index") > 2**18) == (layers == 20_000)


def test_we_read_a_saver(tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        for name, value in EXPECTED.items():
            if value.size:
                v1.get_variable(name, initializer=tf.constant(value, tf.string if value.dtype == object else None))
        for dtype in ("float16", "int16", "uint16", "int8", "uint32", "uint64", "complex64"):
            v1.get_variable(dtype, initializer=tf.constant(np.arange(3).astype(dtype)))
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver(max_to_keep=2)
        prefixes = [saver.save(session, str(tmp_path / "model.ckpt"), global_step=step) for step in (1, 2, 3)]
    agree(prefixes[-1], EXPECTED)
    listed = ckpt("ls", tmp_path)
    assert [item["name"] for item in listed["checkpoints"]] == ["model.ckpt-2", "model.ckpt-3"]
    assert listed["latest"] == "model.ckpt-3"


def test_we_read_a_sharded_saver_with_partitioned_variables(tmp_path):
    with tf.Graph().as_default():
        with v1.Session(config=v1.ConfigProto(device_count={"CPU": 3})) as session:
            for device in range(3):
                with tf.device(f"/cpu:{device}"):
                    v1.get_variable(f"on_{device}", initializer=tf.constant([float(device)] * 5))
            chooser = iter(f"/cpu:{i % 3}" for i in range(100))
            with v1.device(lambda op: next(chooser) if op.type == "VarHandleOp" else "/cpu:0"):
                with v1.variable_scope("", partitioner=v1.fixed_size_partitioner(5), use_resource=True):
                    v1.get_variable("table", initializer=tf.constant(EXPECTED["table"]))
                with v1.variable_scope("", partitioner=v1.fixed_size_partitioner(4, axis=1), use_resource=True):
                    v1.get_variable("columns", initializer=tf.constant(EXPECTED["table"][:9]))
            session.run(v1.global_variables_initializer())
            prefix = v1.train.Saver(sharded=True).save(session, str(tmp_path / "model.ckpt"), global_step=5)
    listed = agree(prefix, {"table": EXPECTED["table"], "columns": EXPECTED["table"][:9]})
    assert len(listed["table"]["slices"]) == 5 and len(listed["columns"]["slices"]) == 4
    assert len(list(tmp_path.glob("*.data-*-of-00003"))) == 3


def test_we_read_an_object_based_checkpoint(tmp_path):
    model = tf.keras.Sequential([tf.keras.layers.Dense(8, input_shape=(4,)), tf.keras.layers.Dense(2)])
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    words = tf.Variable(["a", "\u00e9", ""])
    shards = ShardedVariable([tf.Variable(EXPECTED["table"][:600]), tf.Variable(EXPECTED["table"][600:])], name="t")
    checkpoint = tf.train.Checkpoint(
        model=model, optimizer=optimizer, words=words, step=tf.Variable(3, dtype=tf.int64), table=shards
    )
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path), max_to_keep=2)
    for _ in range(3):
        prefix = manager.save()
    table = "table/.ATTRIBUTES/VARIABLE_VALUE"
    listed = agree(prefix, {table: EXPECTED["table"]})
    assert [item["slice"] for item in listed[table]["slices"]] == ["0,600:0,7", "600,403:0,7"]
    assert "_CHECKPOINTABLE_OBJECT_GRAPH" in listed
    assert "model/layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE" in listed
    answer = ckpt("ls", tmp_path)
    assert [(item["name"], item["latest"]) for item in answer["checkpoints"]] == [("ckpt-2", False), ("ckpt-3", True)]
    difference = ckpt("diff", tmp_path / "ckpt-2", tmp_path / "ckpt-3", code=1)["differences"]
    assert [item["name"] for item in difference] == ["save_counter/.ATTRIBUTES/VARIABLE_VALUE"]
    assert ckpt("diff", tmp_path, prefix)["same"]


def test_both_refuse_damaged_files(tmp_path):
    prefix = written(tmp_path / "m", 1)
    data, index = prefix + ".data-00000-of-00001", prefix + ".index"
    for path, at in [(data, 5000), (data, 0), (index, 100), (index, -1)]:
        sound = open(path, "rb").read()
        damaged = bytearray(sound)
        damaged[at] ^= 4
        open(path, "wb").write(damaged)
        answer = ckpt("verify", prefix, code=1)
        assert answer.get("error", {}).get("code") == "PX0402" or answer["problems"][0]["code"] == "PX0402"
        with pytest.raises(Exception):
            reader = tf.train.load_checkpoint(prefix)
            for name in reader.get_variable_to_shape_map():
                reader.get_tensor(name)
        open(path, "wb").write(sound[: len(sound) // 2])
        ckpt("verify", prefix, code=1)
        open(path, "wb").write(sound)
    assert ckpt("verify", prefix)["sound"]
    assert ckpt("show", prefix + "0", code=1)["error"]["code"] == "PX0401"
    assert ckpt("show", prefix, "--values", "tabel", code=1)["error"]["help"] == 'did you mean "table"?'
