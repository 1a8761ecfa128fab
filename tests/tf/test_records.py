"""Holds our TFRecord files and Examples against real TensorFlow: each reads what the other wrote, with the same values.

Run with the interpreter of an environment that has tensorflow 2.15 and pytest, PHALANX_BIN=path/to/phalanx and
PHALANX_WRITE_RECORDS=path/to/phalanx_write_records (a binary of the crate phalanx-tests).
"""

import itertools
import json
import os
import random
import subprocess

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="needs tensorflow 2.15")
np = pytest.importorskip("numpy")

COMPRESSIONS = ["", "GZIP", "ZLIB"]
DTYPES = {"float": tf.float32, "int64": tf.int64, "bytes": tf.string}
INTS = [0, 1, -1, 127, 128, 2**31, -(2**31), 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.5, -2.25e-38, 3.4e38, 1e-45, float("inf"), float("-inf"), float("nan")]


def program(name):
    path = os.environ.get(name)
    if not path:
        pytest.fail(f"set {name}")
    return path


def helper(*arguments, lines=()):
    """Runs phalanx_write_records; what it prints."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    command = [program("PHALANX_WRITE_RECORDS"), *map(str, arguments)]
    done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def records(*arguments, code=0):
    """Runs `phalanx records … --json`; code None: 1 with an error, 0 without."""
    return answer("records", *arguments, code=code)


def head(*arguments, code=0):
    """Runs `phalanx head … --json`."""
    return answer("head", *arguments, code=code)


def answer(*arguments, code):
    command = [program("PHALANX_BIN"), *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, timeout=60)
    found = json.loads(done.stdout)
    expected = int("error" in found) if code is None else code
    assert done.returncode == expected, (done.returncode, done.stdout, done.stderr)
    return found


def bits(values):
    return np.asarray(values, np.float32).view(np.uint32).tolist()


def travel(kind, values):
    """Values as the helper wants them."""
    if kind == "float":
        return bits(values)
    return [value.hex() for value in values] if kind == "bytes" else list(values)


def feature(kind, values):
    if kind == "float":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    if kind == "int64":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def some_values(rng, kind, count):
    if kind == "float":
        return [np.float32(rng.choice(FLOATS + [rng.gauss(0, 1)])) for _ in range(count)]
    if kind == "int64":
        return [rng.choice(INTS + [rng.randrange(-(2**40), 2**40)]) for _ in range(count)]
    return [rng.choice([b"", b"x", "é".encode(), rng.randbytes(rng.randrange(300))]) for _ in range(count)]


def some_examples(seed, count):
    """Lists of {name: (kind, values)}; a name always has the same kind."""
    rng = random.Random(seed)
    kinds = {f"{kind}/{i}": kind for kind in DTYPES for i in range(4)} | {"": "int64", "ключ": "bytes"}
    examples = []
    for _ in range(count):
        names = rng.sample(list(kinds), rng.randrange(len(kinds) + 1))
        examples.append({name: (kinds[name], some_values(rng, kinds[name], rng.randrange(5))) for name in names})
    return examples


def as_message(example):
    features = {name: feature(*value) for name, value in example.items()}
    return tf.train.Example(features=tf.train.Features(feature=features))


def as_line(example):
    return {"features": {name: [kind, travel(kind, values)] for name, (kind, values) in example.items()}}


def tf_write(path, payloads, compression=""):
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for payload in payloads:
            writer.write(payload)


def tf_read(path, compression):
    return [record.numpy() for record in tf.data.TFRecordDataset(str(path), compression)]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_tensorflow_reads_our_examples(tmp_path, compression):
    examples = some_examples(1, 200)
    path = tmp_path / "ours"
    helper("examples", path, compression or "NONE", lines=map(as_line, examples))
    found = tf_read(path, compression)
    assert len(found) == len(examples)
    for record, example in zip(found, examples):
        theirs = tf.train.Example.FromString(record)
        assert set(theirs.features.feature) == set(example)
        for name, value in example.items():  # As bytes, because of the NaNs.
            assert theirs.features.feature[name].SerializeToString() == feature(*value).SerializeToString()
        if "" not in example:  # Both sort their keys; upb puts the empty one last.
            assert record == as_message(example).SerializeToString(deterministic=True)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_we_show_what_tensorflow_wrote(tmp_path, compression):
    examples = some_examples(2, 60)
    path = tmp_path / "theirs"
    tf_write(path, [as_message(example).SerializeToString() for example in examples], compression)
    options = [[], ["--compression", compression.lower() or "none"]]
    for option in options:
        shown = head(path, "--format", "tfrecord", "-n", 1000, *option)["records"]
        assert [record["index"] for record in shown] == list(range(len(examples)))
        for record, example in zip(shown, examples):
            assert set(record["features"]) == set(example)
            for name, (kind, values) in example.items():
                ours = record["features"][name]
                assert ours["type"] == kind
                if kind == "float":
                    assert bits([float(value) for value in ours["values"]]) == bits(values)
                elif kind == "int64":
                    assert ours["values"] == values
                else:
                    decode = lambda v: bytes.fromhex(v["hex"]) if isinstance(v, dict) else v.encode()  # noqa: E731
                    assert [decode(value) for value in ours["values"]] == values
    count = records("count", path)
    assert count["records"] == len(examples) and count["compression"] == (compression.lower() or "none")
    assert records("verify", path)["ok"] is True


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_both_notice_the_same_damage(tmp_path, compression):
    """Every file that TensorFlow refuses we refuse; what we accept it reads too, with as many records.

    We refuse more: a file cut within the twelve bytes before a payload, or within the end of its compression, passes
    in TensorFlow for one that just has fewer records.
    """
    rng = random.Random(5)
    path, damaged = tmp_path / "good", tmp_path / "bad"
    tf_write(path, [rng.randbytes(rng.randrange(40)) for _ in range(6)], compression)
    good, refused, silent = path.read_bytes(), 0, 0
    for case in range(120):
        bad = bytearray(good)
        if case % 2:
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        else:
            del bad[rng.randrange(1, len(bad)) :]
        damaged.write_bytes(bad)
        read, error = 0, None
        try:
            for _ in tf.data.TFRecordDataset(str(damaged), compression):
                read += 1
        except tf.errors.OpError as refusal:
            error = refusal
        answer = records("verify", damaged, "--compression", compression.lower() or "none", code=None)
        refused += error is not None
        silent += error is None and not answer["ok"]
        if answer["ok"]:
            assert error is None and answer["records"] == read, (answer, read, error)
            continue
        assert answer["error"]["code"] == "PX0402"
        assert f"record {answer['records']}, byte" in answer["error"]["place"]
        # zlib finds a wrong end before it hands out what came before it, or after: the codecs differ.
        assert answer["records"] == read or compression, (answer, read)
    print(f"\nof 120 damaged files TensorFlow refuses {refused}, we {refused + silent}")
    assert refused > 60


def dense_or_error(features, messages):
    try:
        parsed = tf.io.parse_example([message.SerializeToString() for message in messages], features)
    except tf.errors.InvalidArgumentError as error:
        return error
    return parsed


def columns(specs, messages, path):
    tf_write(path, [message.SerializeToString() for message in messages])
    return json.loads(helper("parse", path, lines=[specs]))


def flat(kind, values):
    values = np.asarray(values).reshape(-1).tolist()
    return travel(kind, values)


def test_parses_variable_features_as_tensorflow_does(tmp_path):
    examples = [as_message(example) for example in some_examples(3, 120)]
    names = [(f"{kind}/{i}", kind) for kind in DTYPES for i in range(4)] + [("absent", "float"), ("ключ", "bytes")]
    theirs = dense_or_error({name: tf.io.RaggedFeature(DTYPES[kind]) for name, kind in names}, examples)
    ours = columns([[name, kind, "variable"] for name, kind in names], examples, tmp_path / "f")
    assert ours["error"] is None
    for (name, kind), column in zip(names, ours["columns"]):
        assert column["row_splits"] == theirs[name].row_splits.numpy().tolist(), name
        assert column["values"] == flat(kind, theirs[name].values.numpy()), name


def test_parses_or_refuses_fixed_features_as_tensorflow_does(tmp_path):
    """Presence, type, length and default in every combination."""
    some = {"float": [1.5, -2.5], "int64": [7, -8], "bytes": [b"a", b"\xff"]}
    refused = 0
    givens = [None, "float", "int64", "bytes", "unset"]
    for given, count, wanted, length, default in itertools.product(givens, range(3), DTYPES, (1, 2), (False, True)):
        message = as_message({"x": (given, some[given][:count])} if given in some else {"other": ("int64", [1])})
        if given == "unset":
            message.features.feature["x"].SetInParent()
        value = some[wanted][:length] if default else None
        theirs = dense_or_error({"x": tf.io.FixedLenFeature([length], DTYPES[wanted], value)}, [message])
        sent = travel(wanted, value) if default else None
        ours = columns([["x", wanted, "fixed", length, sent]], [message], tmp_path / "f")
        case = (given, count, wanted, length, default, theirs, ours)
        assert isinstance(theirs, Exception) == (ours["error"] is not None), case
        refused += ours["error"] is not None
        if ours["error"] is None:
            assert ours["columns"][0]["values"] == flat(wanted, theirs["x"].numpy()), case
    assert refused > 50


def test_the_last_of_two_keys_counts_as_in_tensorflow(tmp_path):
    first = as_message({"x": ("int64", [1, 2]), "y": ("int64", [5])}).SerializeToString()
    second = as_message({"x": ("int64", [3])}).SerializeToString()
    path = tmp_path / "f"
    tf_write(path, [first + second])
    theirs = tf.io.parse_example([first + second], {"x": tf.io.RaggedFeature(tf.int64)})["x"].values.numpy().tolist()
    ours = json.loads(helper("parse", path, lines=[[["x", "int64", "variable"]]]))
    assert ours["columns"][0]["values"] == theirs == [3]


def test_ragged_rows_of_uniform_length(tmp_path):
    messages = [as_message({"x": ("int64", list(range(2 * n)))}) for n in (0, 3, 1)]
    uniform = tf.io.RaggedFeature(tf.int64, partitions=[tf.io.RaggedFeature.UniformRowLength(2)])
    theirs = dense_or_error({"x": uniform}, messages)["x"]
    ours = columns([["x", "int64", "ragged", 2]], messages, tmp_path / "f")["columns"][0]
    assert ours["row_splits"] == theirs.row_splits.numpy().tolist()
    assert ours["values"] == flat("int64", theirs.flat_values.numpy())


def test_sequence_examples_both_ways(tmp_path):
    rng = random.Random(9)
    lines = []
    for _ in range(40):
        steps = rng.randrange(4)
        points = [some_values(rng, "int64", 2) for _ in range(steps)]
        words = [some_values(rng, "bytes", rng.randrange(3)) for _ in range(steps)]
        lines.append((some_values(rng, "float", 1), points, words))
    path = tmp_path / "ours"
    helper("examples", path, "GZIP", lines=[
        {
            "features": {"id": ["float", bits(one)]},
            "lists": {"points": ["int64", points], "words": ["bytes", [travel("bytes", step) for step in words]]},
        }
        for one, points, words in lines
    ])  # fmt: skip
    records_read = tf_read(path, "GZIP")
    context, lists, _ = tf.io.parse_sequence_example(
        records_read,
        {"id": tf.io.FixedLenFeature([1], tf.float32)},
        {
            "points": tf.io.RaggedFeature(tf.int64),
            "words": tf.io.RaggedFeature(tf.string),
        },
    )
    specs = [[["id", "float", "fixed", 1]], [["points", "int64", "fixed", 2], ["words", "bytes", "variable"]]]
    ours = json.loads(helper("parse-sequence", path, lines=[specs]))
    assert ours["error"] is None
    assert ours["context"][0]["values"] == flat("float", context["id"].numpy())
    assert ours["lists"][0]["values"] == flat("int64", lists["points"].flat_values.numpy())
    assert ours["lists"][0]["row_splits"] == lists["points"].row_splits.numpy().tolist()
    assert ours["lists"][1]["row_splits"] == lists["words"].row_splits.numpy().tolist()
    assert ours["lists"][1]["step_splits"] == lists["words"].values.row_splits.numpy().tolist()
    assert ours["lists"][1]["values"] == flat("bytes", lists["words"].flat_values.numpy())


def test_reports_what_is_no_example(tmp_path):
    path = tmp_path / "f"
    tf_write(path, [b"\xff\xff", b""])
    shown = head(path)["records"]
    assert shown[0]["error"]["code"] == "PX0402" and shown[1]["features"] == {}
    assert head(tmp_path / "none", code=1)["error"]["code"] == "PX0401"
    usage = subprocess.run([program("PHALANX_BIN"), "head"], capture_output=True, timeout=60)
    assert usage.returncode == 2
