"""phalanx.data: what it reads is what pandas, pyarrow and Polars read."""

import gzip
import struct
import threading

import numpy as np
import pytest

import phalanx
from phalanx import data
from phalanx.data import Dataset


def whole(dataset, rows=100_000):
    """Return all rows of a dataset as one batch."""
    return next(iter(dataset.batch(rows)))


def test_arrays_come_back_with_their_types_and_shapes():
    given = {
        "f": np.array([0.5, -1.5, 2.0]),
        "i": np.array([1, 2, 3], dtype=np.int16),
        "flag": np.array([True, False, True]),
        "pixels": np.arange(12, dtype=np.uint8).reshape(3, 2, 2),
        "text": ["é", "", "x"],
        "lists": [[1, 2], [], [3]],
        "words": [["a"], ["b", "c"], []],
    }
    batch = whole(Dataset.from_tensor_slices(given))
    assert batch["f"].dtype == np.float32
    assert batch["f"].tolist() == [0.5, -1.5, 2.0]
    assert (batch["i"].dtype, batch["i"].tolist()) == (np.int64, [1, 2, 3])
    assert batch["flag"].tolist() == [1, 0, 1]
    assert batch["pixels"].dtype == np.uint8
    assert (batch["pixels"] == given["pixels"]).all()
    assert batch["text"].tolist() == ["é".encode(), b"", b"x"]
    assert [row.tolist() for row in batch["lists"]] == [[1, 2], [], [3]]
    assert [row.tolist() for row in batch["words"]] == [[b"a"], [b"b", b"c"], []]
    # A batch is the reader's own.
    batch["f"][0] = 9
    assert whole(Dataset.from_tensor_slices(given))["f"][0] == 0.5


def test_rows_of_a_dataset_without_batches_have_no_first_axis():
    rows = list(Dataset.from_tensor_slices(({"x": [[1.0, 2.0], [3.0, 4.0]]}, [0, 1])))
    assert [row["x"].tolist() for row in rows] == [[1.0, 2.0], [3.0, 4.0]]
    assert [row["label"].item() for row in rows] == [0, 1]


def test_stages_do_what_their_names_say():
    numbers = Dataset.range(10)
    values = lambda dataset: [row["value"].item() for row in dataset]  # noqa: E731
    assert values(numbers.skip(2).take(3)) == [2, 3, 4]
    assert values(numbers.shard(3, 1)) == [1, 4, 7]
    assert values(numbers.take(2).concatenate(Dataset.range(20, 22))) == [0, 1, 20, 21]
    assert values(numbers.take(2).repeat(2)) == [0, 1, 0, 1]
    assert values(numbers.filter(lambda c: c["value"] > 7)) == [8, 9]
    assert values(numbers.batch(4).unbatch()) == list(range(10))
    assert [len(b["value"]) for b in numbers.batch(4)] == [4, 4, 2]
    assert [len(b["value"]) for b in numbers.batch(4, drop_remainder=True)] == [4, 4]
    shuffled = numbers.shuffle(10, seed=3)
    first, second = values(shuffled), values(shuffled)
    assert sorted(first) == list(range(10))
    assert first != second, "every pass has its own order"
    fixed = numbers.shuffle(10, seed=3, reshuffle_each_iteration=False)
    assert values(fixed) == values(fixed)
    both = Dataset.zip(numbers, numbers.map(lambda c: {"square": c["value"] ** 2}))
    assert [(r["value"].item(), r["square"].item()) for r in both.take(3)] == [(0, 0), (1, 1), (2, 4)]
    assert numbers.batch(3).element_spec == {"value": ("int64", (None,))}


def test_a_map_runs_on_columns_and_keeps_the_label():
    seen = []

    def double(columns):
        seen.append(len(columns["x"]))
        return {"x": columns["x"] * 2, "y": columns["y"]}

    rows = Dataset.from_tensor_slices({"x": np.arange(3000.0), "y": np.zeros(3000)}).label("y").map(double)
    assert whole(rows)["x"].tolist() == [2.0 * x for x in range(3000)]
    assert max(seen) > 100, "a call gets many rows"
    pairs = Dataset.from_tensor_slices(({"x": [1.0, 2.0]}, [0, 1]))
    mapped = whole(pairs.map(lambda features, label: ({"z": features["x"] + label}, 1 - label)))
    assert (mapped["z"].tolist(), mapped["label"].tolist()) == ([1.0, 3.0], [1, 0])


def test_a_map_on_threads_keeps_the_order():
    threads = set()

    def note(columns):
        threads.add(threading.get_ident())
        return columns

    rows = Dataset.range(20_000).map(note, num_parallel_calls=2).batch(64).prefetch(2)
    assert np.concatenate([batch["value"] for batch in rows]).tolist() == list(range(20_000))
    assert threading.get_ident() not in threads


def test_an_iterator_that_is_dropped_early_ends_its_threads():
    rows = Dataset.range(1_000_000).map(lambda c: c, num_parallel_calls=2).batch(10).prefetch(4)
    for _ in range(20):
        assert next(iter(rows))["value"][0] == 0


EXIT = """
import time
from phalanx.data import Dataset

def slow(columns):
    time.sleep(0.02)
    return columns

rows = Dataset.range(10_000_000).map(slow, num_parallel_calls=2).batch(10).prefetch(4)
kept = iter(rows)
print(next(kept)["value"][0])
cycle = [kept]
cycle.append(cycle)
"""


def test_a_program_may_end_with_an_open_iterator(run):
    out, _ = run(run.script("exit.py", EXIT))
    assert out == "0\n"


def test_a_wrong_function_is_an_error_with_its_line():
    rows = Dataset.range(10).map(lambda c: {"x": c["vlaue"]})
    with pytest.raises(phalanx.Error) as raised:
        whole(rows)
    assert raised.value.code == "PX0311"
    assert "KeyError" in raised.value.what
    assert "test_data.py, line" in raised.value.place
    with pytest.raises(phalanx.Error, match="made 3 rows of 10"):
        whole(Dataset.range(10).map(lambda c: {"x": c["value"][:3]}))
    with pytest.raises(phalanx.Error) as raised:
        whole(Dataset.range(10).map(lambda c: c["value"]))
    assert raised.value.code == "PX0404"


def test_generators_start_again_in_every_pass():
    def rows():
        for i in range(2500):
            yield {"i": i, "word": f"w{i}"}

    generated = Dataset.from_generator(rows)
    for _ in range(2):
        batch = whole(generated)
        assert batch["i"].tolist() == list(range(2500))
        assert batch["word"][2499] == b"w2499"
    pairs = Dataset.from_generator(lambda: (({"x": float(i)}, i % 2) for i in range(4)), label="odd")
    assert whole(pairs)["odd"].tolist() == [0, 1, 0, 1]
    with pytest.raises(phalanx.Error, match="the label has no name"):
        whole(Dataset.from_generator(lambda: iter([({"x": 1.0}, 1)])))
    batches = Dataset.from_generator(lambda: iter([{"x": np.ones(3)}, {"x": np.zeros(2)}]), batched=True)
    assert whole(batches)["x"].tolist() == [1, 1, 1, 0, 0]

    def failing():
        yield {"i": 1}
        raise ValueError("the source is gone")

    with pytest.raises(phalanx.Error, match="the source is gone"):
        whole(Dataset.from_generator(failing))


def test_csv_is_what_pandas_reads(tmp_path):
    pandas = pytest.importorskip("pandas")
    numbers = np.random.default_rng(1)
    frame = pandas.DataFrame(
        {
            "x": numbers.random(5000).round(6),
            "n": numbers.integers(-(2**40), 2**40, 5000),
            "word": numbers.choice(["a", "b,c", 'd"e', "é"], 5000),
        }
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    with gzip.open(tmp_path / "b.csv.gz", "wt") as file:
        frame.to_csv(file, index=False)
    for name in ("a.csv", "b.csv.gz"):
        batch = whole(data.csv(tmp_path / name))
        np.testing.assert_array_equal(batch["x"], frame["x"].astype(np.float32))
        np.testing.assert_array_equal(batch["n"], frame["n"])
        assert [word.decode() for word in batch["word"]] == frame["word"].tolist()


def test_rows_of_csv_that_do_not_parse(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,x\noops,y\n3,\n")
    with pytest.raises(phalanx.Error) as raised:
        whole(data.csv(path, types={"a": "int64"}))
    assert raised.value.code == "PX0403"
    assert "rows.csv" in raised.value.place
    assert "line 3" in raised.value.place
    batch = whole(data.csv(path, types={"a": "int64"}, defaults={"b": "none"}, bad_rows=1))
    assert (batch["a"].tolist(), batch["b"].tolist()) == ([1, 3], [b"x", b"none"])
    with pytest.raises(phalanx.Error, match=r"did you mean \"string\""):
        data.csv(path, types={"a": "strng"})
    with pytest.raises(phalanx.Error) as raised:
        whole(data.csv(tmp_path / "missing.csv"))
    assert raised.value.code == "PX0401"


def test_parquet_is_what_pyarrow_wrote(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"x": np.arange(5000.0), "ids": [[i, i + 1][: i % 3] for i in range(5000)], "w": ["é"] * 5000})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=700)
    batch = whole(data.parquet(tmp_path / "*.parquet", select=["x", "ids"], label="w"))
    assert batch["x"].tolist() == table["x"].to_pylist()
    assert [row.tolist() for row in batch["ids"]] == table["ids"].to_pylist()
    assert batch["w"][4999] == "é".encode()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def record(data):
    """Return a record of a TFRecord file: length and content, each with its masked checksum."""
    length = struct.pack("<Q", len(data))

    def masked(part):
        crc = crc32c(part)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    return length + masked(length) + data + masked(data)


def message(number, content):
    """Return a field of a protocol buffer that has a length; short ones only."""
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def example(**features):
    """Return a `tf.train.Example`."""
    entries = b""
    for name, values in features.items():
        if isinstance(values[0], bytes):
            feature = message(1, b"".join(message(1, value) for value in values))
        elif isinstance(values[0], float):
            feature = message(2, message(1, struct.pack(f"<{len(values)}f", *values)))
        else:
            feature = message(3, message(1, bytes(values)))
        entries += message(1, message(1, name.encode()) + message(2, feature))
    return message(1, entries)


def test_examples_of_a_tfrecord_file(tmp_path):
    examples = [example(price=[1.5], tags=[3, 4], word=[b"a"]), example(price=[2.5], tags=[5], word=[b"\xff"])]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(map(record, examples)))
    features = {"price": ("float32", 1), "tags": ("int64", None), "word": ("string", 1)}
    batch = whole(data.tfrecord(tmp_path / "*.tfrecord", features, label="price"))
    assert batch["price"].tolist() == [1.5, 2.5]
    assert [row.tolist() for row in batch["tags"]] == [[3, 4], [5]]
    assert batch["word"].tolist() == [b"a", b"\xff"]
    assert whole(data.tfrecord(tmp_path / "a.tfrecord"))["record"].tolist() == examples
    (tmp_path / "b.tfrecord").write_bytes(record(examples[0])[:-1] + b"x")
    with pytest.raises(phalanx.Error) as raised:
        whole(data.tfrecord(tmp_path / "b.tfrecord", features))
    assert raised.value.code == "PX0402"


def columns_of_frames():
    return {
        "x": [0.5, None, 2.0],
        "n": [1, 2, 3],
        "text": ["é", None, "a word of more than twelve bytes"],
        "lists": [[1, 2], [], [3]],
    }


def assert_frame(batch):
    assert batch["x"].tolist() == [0.5, 0.0, 2.0]
    assert batch["n"].tolist() == [1, 2, 3]
    assert batch["text"].tolist() == ["é".encode(), b"", b"a word of more than twelve bytes"]
    assert [row.tolist() for row in batch["lists"]] == [[1, 2], [], [3]]


def test_a_table_of_pyarrow():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(columns_of_frames())
    rows = data.from_arrow(table)
    del table
    assert_frame(whole(rows))
    assert_frame(whole(rows.shuffle(1).repeat(2).take(3)))
    reader = pyarrow.RecordBatchReader.from_batches(
        pyarrow.schema([("n", pyarrow.int64())]), (pyarrow.record_batch({"n": [i, i + 1]}) for i in (0, 2))
    )
    rows = data.from_arrow(reader)
    for _ in range(2):
        assert whole(rows)["n"].tolist() == [0, 1, 2, 3]
    fixed = pyarrow.array([[1.0, 2.0], [3.0, 4.0]], pyarrow.list_(pyarrow.float64(), 2))
    assert whole(data.from_arrow(pyarrow.table({"v": fixed})))["v"].tolist() == [[1, 2], [3, 4]]


def test_a_frame_of_polars():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(columns_of_frames())
    assert_frame(whole(data.from_arrow(frame)))
    words = polars.DataFrame({"w": ["red", None, "red"]}, schema={"w": polars.Categorical})
    batch = whole(data.from_arrow(words, defaults={"w": "none"}))
    assert batch["w"].tolist() == [b"red", b"none", b"red"]


def test_a_frame_of_pandas():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(columns_of_frames())
    assert_frame(whole(data.from_arrow(frame)))
    frame["kind"] = pandas.Categorical(["a", "b", "a"])
    assert whole(data.from_arrow(frame, select=["kind"]))["kind"].tolist() == [b"a", b"b", b"a"]
    assert whole(Dataset.from_tensor_slices(frame[["n", "text"]]))["text"].tolist()[0] == "é".encode()


def test_a_relation_of_duckdb():
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("select range as n, range::double / 2 as x, if(range % 2 = 0, 'even', null) as s from range(5000)")
    batch = whole(data.from_arrow(relation, defaults={"s": "odd"}))
    assert batch["n"].tolist() == list(range(5000))
    assert batch["x"].tolist() == [n / 2 for n in range(5000)]
    assert batch["s"].tolist()[:2] == [b"even", b"odd"]
    with pytest.raises(phalanx.Error, match="cannot be read") as raised:
        whole(data.from_arrow(duckdb.sql("select 0.5::decimal(4, 2) as price")))
    assert "Decimal" in raised.value.cause


def test_a_frame_with_many_rows_is_divided_among_workers():
    polars = pytest.importorskip("polars")
    frame = polars.concat([polars.DataFrame({"n": range(i, i + 500)}) for i in range(0, 3000, 500)], rechunk=False)
    rows = data.from_arrow(frame)
    shares = [[row["n"].item() for row in rows.shard(data.InputContext(2, worker, 2))] for worker in (0, 1)]
    assert sorted(shares[0] + shares[1]) == list(range(3000))
    assert abs(len(shares[0]) - len(shares[1])) <= 1


def test_a_stage_that_does_not_exist_names_the_page():
    with pytest.raises(AttributeError, match=r"no window: docs/if-you-know-tensorflow.md"):
        Dataset.range(3).window(2)
    assert not hasattr(Dataset.range(3), "bucket_by_sequence_length")


def test_what_is_no_frame_and_what_is_no_column():
    with pytest.raises(phalanx.Error, match="no __arrow_c_stream__"):
        data.from_arrow({"x": [1]})
    with pytest.raises(phalanx.Error) as raised:
        Dataset.from_tensor_slices({"x": [1, 2], "y": [1]})
    assert raised.value.code == "PX0303"
    for wrong in ([object()], np.array(["2020-01-01"], dtype="datetime64[D]"), [2**64 - 1]):
        with pytest.raises(phalanx.Error) as raised:
            Dataset.from_tensor_slices({"x": wrong})
        assert raised.value.code == "PX0404"
    with pytest.raises(phalanx.Error, match="label's name"):
        Dataset.from_tensor_slices(({"label": [1]}, [1]))


def test_arrays_of_npz_and_lines_of_texts(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(6.0).reshape(3, 2), y=np.array([0, 1, 0]))
    batch = whole(data.npz(tmp_path / "a.npz", label="y"))
    assert batch["x"].tolist() == [[0, 1], [2, 3], [4, 5]]
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert whole(data.text_lines(tmp_path / "a.txt"))["line"].tolist() == [b"one", b"two"]
