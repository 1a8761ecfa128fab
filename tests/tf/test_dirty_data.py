"""Dirty rows through every reader, beside TensorFlow's own readers and an Estimator's model.

Every case is read by TensorFlow (`make_csv_dataset`, `parse_example`; Parquet by pyarrow) and by Phalanx. They agree on the
rows, or on refusing them, except where `DIFFERENCES` says what Phalanx does instead; docs/explanation/differences.md documents
each of these choices. A difference that is not listed fails, and so does a listed one that is none.
"""

import json
import math
import os
import subprocess

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import tensorflow as tf

BINARY = os.environ.get("PHALANX_BIN")
READER = os.environ.get("PHALANX_READ_ROWS")

NAMES = ["x", "n", "s", "y"]
TYPES = {"x": "float32", "n": "int64", "s": "string", "y": "int64"}
TF_TYPES = {"float32": tf.float32, "int64": tf.int64, "string": tf.string}
HEADER = "x,n,s,y\n"
REFUSED = "refused"

# CSV files by the kind of dirt.
CSV = {
    "clean": HEADER + "1.5,2,a,0\n2.5,3,b,1\n",
    "missing numbers": HEADER + ",2,a,0\n2.5,,b,1\n",
    "missing string": HEADER + "1.5,2,,0\n",
    "missing string in quotes": HEADER + '1.5,2,"",0\n',
    "missing label": HEADER + "1.5,2,a,0\n2.5,3,b,\n",
    "too many fields": HEADER + "1.5,2,a,0\n2.5,3,b,c,1\n",
    "too few fields": HEADER + "1.5,2,a,0\n2.5,3,b\n",
    "quotes": HEADER + '1.5,2,"a,""b""\nc",0\n"2.5","3","d","1"\n',
    "a quote that is never closed": HEADER + '1.5,2,"a,0\n',
    "a quote inside of a field": HEADER + '1.5,2,a"b,0\n',
    "something after a quote": HEADER + '1.5,2,"a"b,0\n',
    "byte order mark": "\ufeff" + HEADER + "1.5,2,a,0\n",
    "carriage returns": HEADER.replace("\n", "\r\n") + "1.5,2,a,0\r\n2.5,3,b,1\r\n",
    "nan": HEADER + "nan,2,a,0\n",
    "infinity": HEADER + "inf,2,a,0\n-inf,3,b,1\n",
    "a float beyond float32": HEADER + "1e39,2,a,0\n",
    "an integer beyond int64": HEADER + "1.5,9223372036854775808,a,0\n",
    "the largest integer": HEADER + "1.5,9223372036854775807,a,0\n",
    "a fraction for an integer": HEADER + "1.5,2.5,a,0\n",
    "a text for a number": HEADER + "old,2,a,0\n",
    "a question mark for a number": HEADER + "?,2,a,0\n",
    "an empty line": HEADER + "1.5,2,a,0\n\n2.5,3,b,1\n",
    "an empty line at the end": HEADER + "1.5,2,a,0\n\n",
    "no newline at the end": HEADER + "1.5,2,a,0",
    "spaces around": HEADER + " 1.5 , 2 , a ,0\n",
    "spaces as a float": HEADER + "  ,2,a,0\n",
    "spaces as an integer": HEADER + "1.5,  ,a,0\n",
    "a plus sign": HEADER + "+1.5,+2,a,0\n",
    "not UTF-8": HEADER.encode() + b"1.5,2,\xe9,0\n",
    "a zero byte": HEADER + "1.5,2,a\0b,0\n",
}

# What Phalanx does where TensorFlow does something else: see the table in docs/explanation/differences.md.
DIFFERENCES = {
    "missing label": REFUSED,
    "byte order mark": [(1.5, 2, "a", 0)],
    "nan": REFUSED,
    "infinity": REFUSED,
    "a float beyond float32": REFUSED,
    "an empty line": [(1.5, 2, "a", 0), (2.5, 3, "b", 1)],
    "an empty line at the end": [(1.5, 2, "a", 0)],
    "spaces as a float": REFUSED,
    "a plus sign": [(1.5, 2, "a", 0)],
}


def read(path, kind="csv", **settings):
    """Reads a file with Phalanx: its rows or REFUSED, and the whole answer."""
    if not READER:
        pytest.fail("set PHALANX_READ_ROWS to the example read_rows")
    wanted = {"format": kind, "path": str(path), "columns": [[name, TYPES[name]] for name in NAMES], "label": "y"}
    done = subprocess.run([READER, json.dumps({**wanted, **settings})], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    answer = json.loads(done.stdout)
    if answer["error"]:
        assert str(path) in answer["error"]["place"] + answer["error"]["what"], answer
        assert answer["error"]["help"], answer
        return REFUSED, answer
    return [tuple(row[name] for name in NAMES) for row in answer["rows"]], answer


def plain(value):
    """A value of TensorFlow in the form of `read_rows`."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def read_with_tensorflow(path, delimiter=",", na_value=""):
    types = [TF_TYPES[TYPES[name]] for name in NAMES]
    defaults = [tf.constant([0], dtype) if dtype != tf.string else tf.constant([""]) for dtype in types]
    try:
        data = tf.data.experimental.make_csv_dataset(
            str(path), batch_size=100, column_names=None, column_defaults=defaults, field_delim=delimiter,
            na_value=na_value, num_epochs=1, shuffle=False,
        )
        rows = []
        for batch in data.as_numpy_iterator():
            assert len(batch) == 4
            # A byte order mark is part of the first name there.
            rows += zip(*batch.values())
        if any(name not in batch for name in NAMES):
            return REFUSED
        return [tuple(map(plain, row)) for row in rows]
    except (tf.errors.InvalidArgumentError, ValueError, UnicodeDecodeError):
        return REFUSED


def same(ours, theirs):
    if REFUSED in (ours, theirs):
        return ours == theirs
    close = lambda a, b: a == b or isinstance(a, float) and isinstance(b, float) and np.float32(a) == np.float32(b)
    return len(ours) == len(theirs) and all(close(a, b) for us, them in zip(ours, theirs) for a, b in zip(us, them))


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def in_tabs(text):
    swap = {ord(","): "\t", ord("\t"): ","}
    return text.decode("latin-1").translate(swap).encode("latin-1") if isinstance(text, bytes) else text.translate(swap)


@pytest.mark.parametrize("delimiter", [",", "\t"])
@pytest.mark.parametrize("case", CSV)
def test_csv(case, delimiter, tmp_path):
    path = write(tmp_path / "rows.csv", CSV[case] if delimiter == "," else in_tabs(CSV[case]))
    ours, answer = read(path, delimiter=delimiter)
    theirs = read_with_tensorflow(path, delimiter)
    if case in DIFFERENCES:
        wanted = DIFFERENCES[case]
        assert same(ours, wanted), answer
        assert not same(ours, theirs), "no difference any more: remove it from the table here and in the documentation"
    else:
        assert same(ours, theirs), (ours, theirs, answer)


def test_every_difference_is_a_case():
    assert set(DIFFERENCES) <= set(CSV)
    page = os.path.join(os.path.dirname(__file__), "../../docs/explanation/differences.md")
    with open(page, encoding="utf-8") as file:
        text = file.read()
    for said in ["a missing label", "a blank line", "a byte order mark", "NaN or an infinite", "a float field of spaces", "`+1`"]:
        assert said in text


def test_fields_after_the_last_selected_column(tmp_path):
    path = write(tmp_path / "rows.csv", HEADER + "1.5,2,a,0\n2.5,3,b,c,1\n")
    data = tf.data.experimental.make_csv_dataset(
        str(path), batch_size=10, select_columns=["x"], column_defaults=[0.0], num_epochs=1, shuffle=False
    )
    assert next(data.as_numpy_iterator())["x"].tolist() == [1.5, 2.5]
    rows, answer = read(path, columns=[["x", "float32"]], label=None)
    assert rows == REFUSED and answer["error"]["what"] == "a row has 5 fields, not 4"


def test_na_values(tmp_path):
    path = write(tmp_path / "rows.csv", HEADER + "?,2,a,0\n1.5,?,?,1\n")
    ours, answer = read(path, na_values=["?"])
    assert same(ours, read_with_tensorflow(path, na_value="?")), answer
    path = write(tmp_path / "rows.csv", HEADER + "?,NA,a,0\n")
    assert read(path, na_values=["?", "NA"])[0] == [(0.0, 0, "a", 0)]


def test_bad_rows_are_skipped_and_counted(tmp_path):
    for case in ["missing label", "too many fields", "too few fields"]:
        path = write(tmp_path / "rows.csv", CSV[case])
        rows, answer = read(path, skip=1)
        assert (rows, answer["skipped"]) == ([(1.5, 2, "a", 0)], 1), case
    path = write(tmp_path / "rows.csv", HEADER + "1.5,2,a,0\nnan,3,b,1\n")
    assert read(path, non_finite="skip")[0] == [(1.5, 2, "a", 0)]
    assert read(path, non_finite="zero")[0] == [(1.5, 2, "a", 0), (0.0, 3, "b", 1)]
    assert same(read(path, non_finite="keep")[0], read_with_tensorflow(path))


# The same logical rows in every format; None is missing.
ROWS = {
    "clean": [(1.5, 2, "a", 0), (2.5, 3, "b", 1)],
    "missing numbers": [(None, 2, "a", 0), (2.5, None, "b", 1)],
    "missing string": [(1.5, 2, None, 0)],
    "missing label": [(1.5, 2, "a", 0), (2.5, 3, "b", None)],
    "nan": [(1.5, 2, "a", 0), (math.nan, 3, "b", 1)],
    "infinity": [(math.inf, 2, "a", 0)],
    "the largest integer": [(1.5, 2**63 - 1, "a", 0)],
    "odd texts": [(1.5, 2, ' a,"b"\n\tc ', 0)],
}
# What TensorFlow's readers make of them and Phalanx does not, by case and format: documented as above.
DIFFERENT = {
    ("missing label", "csv"): REFUSED,
    ("missing label", "tsv"): REFUSED,
    ("nan", "csv"): REFUSED,
    ("nan", "tsv"): REFUSED,
    ("nan", "tfrecord"): REFUSED,
    ("nan", "parquet"): REFUSED,
    ("infinity", "csv"): REFUSED,
    ("infinity", "tsv"): REFUSED,
    ("infinity", "tfrecord"): REFUSED,
    ("infinity", "parquet"): REFUSED,
    # pyarrow has nulls, columns of a batch do not: the rule of CSV applies.
    ("missing numbers", "parquet"): [(0.0, 2, "a", 0), (2.5, 0, "b", 1)],
    ("missing string", "parquet"): [(1.5, 2, "", 0)],
    ("missing label", "parquet"): REFUSED,
}


def write_separated(path, rows, delimiter):
    quoted = lambda value: '"' + value.replace('"', '""') + '"' if isinstance(value, str) else str(value)
    lines = [delimiter.join("" if value is None else quoted(value) for value in row) for row in rows]
    return write(path, delimiter.join(NAMES) + "\n" + "\n".join(lines) + "\n")


def example(row):
    def feature(name, value):
        if TYPES[name] == "float32":
            return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
        if TYPES[name] == "int64":
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))

    present = {name: feature(name, value) for name, value in zip(NAMES, row) if value is not None}
    return tf.train.Example(features=tf.train.Features(feature=present)).SerializeToString()


def write_records(path, rows):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            writer.write(example(row))
    return path


def write_parquet(path, rows):
    types = {"float32": pyarrow.float32(), "int64": pyarrow.int64(), "string": pyarrow.string()}
    columns = {name: pyarrow.array([row[at] for row in rows], types[TYPES[name]]) for at, name in enumerate(NAMES)}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def parse_with_tensorflow(path, defaults=None):
    features = {
        name: tf.io.FixedLenFeature([], TF_TYPES[TYPES[name]], default_value=(defaults or {}).get(name)) for name in NAMES
    }
    try:
        rows = []
        for record in tf.data.TFRecordDataset(str(path)):
            parsed = tf.io.parse_single_example(record, features)
            rows.append(tuple(plain(parsed[name].numpy()) for name in NAMES))
        return rows
    except tf.errors.InvalidArgumentError:
        return REFUSED


def parquet_with_arrow(path):
    table = pyarrow.parquet.read_table(path).to_pylist()
    values = lambda row: tuple(str(v) if isinstance(v, float) and not math.isfinite(v) else v for v in row)
    return [values(row[name] for name in NAMES) for row in table]


@pytest.mark.parametrize("kind", ["csv", "tsv", "tfrecord", "parquet"])
@pytest.mark.parametrize("case", ROWS)
def test_the_same_rows_in_every_format(case, kind, tmp_path):
    rows = ROWS[case]
    if kind in ("csv", "tsv"):
        delimiter = "," if kind == "csv" else "\t"
        path = write_separated(tmp_path / "rows.csv", rows, delimiter)
        (ours, answer), theirs = read(path, delimiter=delimiter), read_with_tensorflow(path, delimiter)
    elif kind == "tfrecord":
        path = write_records(tmp_path / "rows.tfrecord", rows)
        (ours, answer), theirs = read(path, "tfrecord"), parse_with_tensorflow(path)
    else:
        path = write_parquet(tmp_path / "rows.parquet", rows)
        (ours, answer), theirs = read(path, "parquet"), parquet_with_arrow(path)
    if (case, kind) in DIFFERENT:
        assert same(ours, DIFFERENT[case, kind]), answer
        assert not same(ours, theirs), "no difference any more: remove it from the table here and in the documentation"
    else:
        assert same(ours, theirs), (ours, theirs, answer)


def test_defaults_are_the_same_in_every_format(tmp_path):
    rows = [(1.5, 2, "a", 0), (None, None, None, None)]
    defaults = {"x": 9.5, "n": 7, "s": "none", "y": 1}
    wanted = [(1.5, 2, "a", 0), (9.5, 7, "none", 1)]
    records = write_records(tmp_path / "rows.tfrecord", rows)
    assert parse_with_tensorflow(records, defaults) == wanted
    assert read(records, "tfrecord", defaults=defaults)[0] == wanted
    assert read(write_parquet(tmp_path / "rows.parquet", rows), "parquet", defaults=defaults)[0] == wanted
    for delimiter in [",", "\t"]:
        path = write_separated(tmp_path / "rows.csv", rows, delimiter)
        assert read(path, delimiter=delimiter, defaults=defaults)[0] == wanted


def test_a_place_in_every_format(tmp_path):
    rows = [(1.5, 2, "a", 0), (2.5, 3, "b", 1), (math.nan, 4, "c", 1)]
    for path, kind, place in [
        (write_separated(tmp_path / "rows.csv", rows, ","), "csv", "line 4"),
        (write_records(tmp_path / "rows.tfrecord", rows), "tfrecord", "record 2"),
        (write_parquet(tmp_path / "rows.parquet", rows), "parquet", "row 2"),
    ]:
        assert read(path, kind)[1]["error"]["place"] == f'{path}, {place}, column "x"'


# A job whose model is exported, so that TensorFlow computes what an Estimator's model computes from missing values.
JOB = """
seed = 1
model_dir = "run"
[data]
format = "FORMAT"
train = "train.FORMAT"
eval = "train.FORMAT"
label = "y"
SETTINGS
[columns]
x = { kind = "numeric", default_value = 3.5 }
n = { kind = "identity", num_buckets = 9 }
s = { kind = "vocabulary_list", vocabulary_list = ["a", "b"], num_oov_buckets = 1 }
n_vector = { kind = "embedding", column = "n", dimension = 2 }
s_onehot = { kind = "indicator", column = "s" }
[model]
kind = "dnn_classifier"
columns = ["x", "n_vector", "s_onehot"]
hidden_units = [4]
[train]
max_steps = 30
batch_size = 8
[eval]
start_delay_secs = 0
throttle_secs = 0
[[export]]
name = "examples"
"""

WRITERS = {
    "csv": lambda path, rows: write_separated(path, rows, ","),
    "tsv": lambda path, rows: write_separated(path, rows, "\t"),
    "tfrecord": write_records,
    "parquet": write_parquet,
}


def phalanx(*arguments, cwd, fails=False):
    if not BINARY:
        pytest.fail("set PHALANX_BIN to the phalanx binary")
    environment = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    done = subprocess.run([os.path.abspath(BINARY), *arguments], cwd=cwd, env=environment, capture_output=True, timeout=120)
    assert (done.returncode != 0) == fails, done.stderr.decode()
    return done.stderr.decode() if fails else done.stdout.decode()


def write_job(folder, kind, rows):
    folder.mkdir(exist_ok=True)
    job = JOB.replace("FORMAT", "csv" if kind == "tsv" else kind)
    (folder / "job.toml").write_text(job.replace("SETTINGS", 'delimiter = "\\t"' if kind == "tsv" else ""))
    WRITERS[kind](folder / f"train.{'csv' if kind == 'tsv' else kind}", rows)
    return folder


def test_a_model_predicts_the_same_from_missing_values_of_every_format(tmp_path):
    clean = [(float(i % 7), i % 9, "ab"[i % 2], i % 2) for i in range(64)]
    dirty = [(None, 2, "a", 0), (1.5, None, "b", 1), (2.5, 3, None, 0), (None, None, None, 1), (1.0, 1, "z", 0)]
    first, served = None, None
    for kind in WRITERS:
        folder = write_job(tmp_path / kind, kind, clean)
        phalanx("train", "job.toml", cwd=folder)
        path = WRITERS[kind](folder / "dirty", dirty)
        lines = phalanx("predict", "run", "--input", str(path), "--json", cwd=folder).splitlines()
        logits = np.array([json.loads(line)["logits"] for line in lines], np.float32)
        if first is None:
            first = logits
            export = sorted((folder / "run/export/examples").iterdir())[-1]
            model = tf.saved_model.load(str(export)).signatures["predict"]
            served = model(tf.constant([example(row) for row in dirty]))["logits"].numpy()
        # The same data and seed train the same model, whatever the format.
        np.testing.assert_allclose(logits, first, rtol=0, atol=1e-6, err_msg=kind)
        np.testing.assert_allclose(logits, served, rtol=0, atol=1e-5, err_msg=kind)


@pytest.mark.parametrize("kind", WRITERS)
def test_training_refuses_what_an_estimator_trains_on_in_silence(kind, tmp_path):
    rows = [(float(i % 7), i % 9, "ab"[i % 2], i % 2) for i in range(600)]
    for dirt, said in [((1.5, 2, "a", None), "missing"), ((math.nan, 2, "a", 0), "not a finite number")]:
        rows[500] = dirt
        folder = write_job(tmp_path / "job", kind, rows)
        answer = phalanx("train", "job.toml", cwd=folder, fails=True)
        place = {"csv": "line 502", "tsv": "line 502", "tfrecord": "record 500", "parquet": "row 500"}[kind]
        assert said in answer and place in answer, answer
    # TensorFlow's Estimator takes the missing label for 0 and loses no word about it.
    if kind == "csv":
        rows[500] = (1.5, 2, "a", None)
        path = WRITERS[kind](tmp_path / "rows.csv", rows)
        assert read_with_tensorflow(path)[500] == (1.5, 2, "a", 0)


def test_eval_says_that_a_metric_is_nan(tmp_path):
    rows = [(2.0 if i % 2 else -2.0, i % 9, "ab"[i % 2], i % 2) for i in range(64)]
    folder = write_job(tmp_path / "job", "csv", rows)
    # A weight far above 1, so that a finite number of the data overflows in the model.
    deep = 'kind = "dnn_classifier"\ncolumns = ["x", "n_vector", "s_onehot"]\nhidden_units = [4]'
    linear = 'kind = "linear_classifier"\ncolumns = ["x"]\noptimizer = { name = "sgd", learning_rate = 10 }'
    text = (folder / "job.toml").read_text()
    assert deep in text
    (folder / "job.toml").write_text(text.replace(deep, linear))
    phalanx("train", "job.toml", cwd=folder)
    WRITERS["csv"](folder / "wild.csv", [(3e38, 2, "a", 0), (-3e38, 2, "a", 1)] * 4)
    answer = phalanx("eval", "run", "--input", "wild.csv", cwd=folder, fails=True)
    assert "PX0308" in answer and "loss" in answer, answer
