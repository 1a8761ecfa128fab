"""TensorFlow's side of `phalanx-bench formats`: does what a line says, answers with the seconds it took.

    peer_formats.py checkpoint | examples
"""

import os
import shutil
import sys
import time

import tensorflow as tf


def fsync(*paths):
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


class Checkpoint:
    """tf.train.Checkpoint and load_checkpoint, with TensorFlow's own number of threads."""

    def take(self, prefix):
        reader = tf.train.load_checkpoint(prefix)
        names = sorted(reader.get_variable_to_shape_map())
        self.variables = {name: tf.Variable(reader.get_tensor(name)) for name in names}
        self.checkpoint = tf.train.Checkpoint(**self.variables)
        self.slices = {}

    def write(self, prefix, servers, sync):
        path = self.checkpoint.write(prefix)
        if int(sync):
            fsync(f"{path}.data-00000-of-00001", f"{path}.index")

    def prepare_slices(self, servers):
        """Each server's part of each variable, as it would hold it: cutting is not what is measured."""
        rows = next(iter(self.variables.values())).shape[0]
        for server in range(servers):
            first, end = rows * server // servers, rows * (server + 1) // servers
            parts = [tf.identity(variable[first:end]) for variable in self.variables.values()]
            places = [f"{v.shape[0]} {v.shape[1]} {first},{end - first}:-" for v in self.variables.values()]
            self.slices[server] = places, parts

    def write_slices(self, prefix, servers, sync):
        shards = [f"{prefix}_temp/part-{server:05}-of-{int(servers):05}" for server in range(int(servers))]
        for server, shard in enumerate(shards):
            places, parts = self.slices[server]
            tf.raw_ops.SaveV2(
                prefix=shard, tensor_names=list(self.variables), shape_and_slices=places, tensors=parts
            )
        tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=shards, destination_prefix=prefix, delete_old_dirs=True)

    def read(self, prefix):
        reader = tf.train.load_checkpoint(prefix)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)


class Examples:
    """tf.data on one thread."""

    def __init__(self):
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        self.features = {f"I{i}": tf.io.FixedLenFeature([], tf.float32) for i in range(1, 14)}
        self.features |= {f"C{i}": tf.io.FixedLenFeature([], tf.int64) for i in range(1, 27)}

    def parse(self, path):
        options = tf.data.Options()
        options.threading.private_threadpool_size = 1
        options.threading.max_intra_op_parallelism = 1
        data = tf.data.TFRecordDataset(path).batch(1024).map(lambda batch: tf.io.parse_example(batch, self.features))
        for _ in data.with_options(options):
            pass


def main():
    mode = {"checkpoint": Checkpoint, "examples": Examples}[sys.argv[1]]()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # What TensorFlow prints is no answer.
    print("ready", file=answers)
    for line in sys.stdin:
        verb, *arguments = line.split()
        if verb == "write_slices" and not mode.slices:
            mode.prepare_slices(int(arguments[1]))
        if verb.startswith("write"):
            shutil.rmtree(arguments[0] + "_temp", ignore_errors=True)
        start = time.perf_counter()
        getattr(mode, verb)(*arguments)
        print(time.perf_counter() - start, file=answers)


if __name__ == "__main__":
    main()
