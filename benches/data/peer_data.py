"""The peers' side of `phalanx-bench-data`: reads a file once for every line on stdin, answers with rows
and the processor's seconds.

    peer_data.py csv_make | csv_lines | tfrecord | parquet_batches | parquet_table FILE
"""

import sys
import time

BATCH = 1024
CENSUS = ["age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship",
          "race", "gender", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income_bracket"]
NUMBERS = {"age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"}


def tensorflow():
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return tf


def csv_make(path):
    """The way the documentation shows."""
    tf = tensorflow()
    return lambda: count(tf.data.experimental.make_csv_dataset(
        path, BATCH, column_names=CENSUS, label_name="income_bracket", header=False, shuffle=False, num_epochs=1))


def csv_lines(path):
    """Whole batches of lines through tf.io.decode_csv: the faster way that people find later."""
    tf = tensorflow()
    defaults = [tf.constant([0], tf.int64) if name in NUMBERS else tf.constant([""]) for name in CENSUS]

    def parse(lines):
        features = dict(zip(CENSUS, tf.io.decode_csv(lines, defaults)))
        return features, features.pop("income_bracket")

    return lambda: count(tf.data.TextLineDataset(path).batch(BATCH).map(parse))


def tfrecord(path):
    tf = tensorflow()
    spec = {f"I{i}": tf.io.FixedLenFeature([], tf.float32) for i in range(1, 14)}
    spec.update({f"C{i}": tf.io.FixedLenFeature([], tf.int64) for i in range(1, 27)})
    spec["label"] = tf.io.FixedLenFeature([], tf.int64)

    def parse(records):
        features = tf.io.parse_example(records, spec)
        return features, features.pop("label")

    return lambda: count(tf.data.TFRecordDataset(path).batch(BATCH).map(parse))


def count(dataset):
    """The sizes of the batches as Python sees them arrive."""
    return sum(int(label.shape[0]) for _, label in dataset)


def parquet_batches(path):
    import pyarrow
    import pyarrow.parquet

    pyarrow.set_cpu_count(1)
    return lambda: sum(
        batch.num_rows for batch in pyarrow.parquet.ParquetFile(path).iter_batches(BATCH, use_threads=False))


def parquet_table(path):
    """The whole file into memory, then cut: more memory, less work per batch."""
    import pyarrow
    import pyarrow.parquet

    pyarrow.set_cpu_count(1)
    return lambda: sum(
        batch.num_rows for batch in pyarrow.parquet.read_table(path, use_threads=False).to_batches(BATCH))


def main():
    read = globals()[sys.argv[1]](sys.argv[2])
    print("ready", flush=True)
    for _ in sys.stdin:
        started = time.process_time()
        rows = read()
        print(rows, time.process_time() - started, flush=True)


main()
