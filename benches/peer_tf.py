"""TensorFlow's side of `phalanx-bench compare`: one model, on parameter servers or in one process.

usage: peer_tf.py softmax|dnn|embed|click|wide-deep [--ps N --workers M] [--threads T] [--steps N] [--pack K]
                  [--batch B] [--from-file FILE] [--machines LIST]

With --ps, every task is a process with a gRPC server and this one coordinates (ParameterServerStrategy and
ClusterCoordinator); the tasks listen on loopback, or with --machines in network namespaces of their own. With --ps 0 this process computes alone, with T threads. Updates are the fused kernels behind the
legacy optimizers, with constant rates. Adam on rows changes the rows of the batch only, as ours does: TensorFlow's own
would touch the whole table in every step. Prints one line of JSON: the best of three measurements after a warm-up.
"""
import argparse
import json
import multiprocessing
import os
import time

import peer_network

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")

IDS, NUMBERS = 26, 13
# layers behind the input, rows and width of the table, rule of the layers and the table, batch
MODELS = {
    "softmax": ([10], None, ("adagrad", 0.05), 128),
    "dnn": ([1024, 512, 256, 2], None, ("adagrad", 0.05), 128),
    "embed": ([400, 400, 2], (100_000, 16), ("adagrad", 0.05), 128),
    "click": ([400, 400, 400, 2], (1_000_001, 10), ("adam", 1e-4), 1000),
    "wide-deep": ([1024, 512, 256, 1], (IDS * 10_000, 64), ("adagrad", 0.01), 2048),
}
INPUTS = {"softmax": 784, "dnn": 512}
FTRL = ("ftrl", 0.2)
SLOTS = {"adagrad": [0.1], "adam": [0.0, 0.0], "ftrl": [0.1, 0.0]}


def serve(cluster, job, index, machine):
    if machine:
        peer_network.enter(machine)
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=8)
    spec = tf.train.ClusterSpec(cluster)
    tf.distribute.Server(spec, job_name=job, task_index=index, config=config, protocol="grpc").join()


class Slotted:
    """A variable, possibly in shards, with the state of its rule beside it."""

    def __init__(self, tf, initial, rule):
        self.rule, self.rate = rule
        self.whole = tf.Variable(initial)
        self.shards = list(self.whole.variables) if hasattr(self.whole, "variables") else [self.whole]
        self.slots = [self.slots_of(tf, shard) for shard in self.shards]

    def slots_of(self, tf, shard):
        with tf.distribute.get_strategy().extended.colocate_vars_with(shard):
            return [tf.Variable(tf.fill(shard.shape, start)) for start in SLOTS[self.rule]]


class Model:
    def __init__(self, tf, name):
        layers, self.table_size, rule, _ = MODELS[name]
        self.tf, self.wide = tf, name == "wide-deep"
        widths = [INPUTS.get(name) or IDS * self.table_size[1] + NUMBERS, *layers]
        self.widths = widths
        pairs = list(zip(widths, widths[1:]))
        self.weights = [Slotted(tf, tf.random.normal(pair, stddev=0.05), rule) for pair in pairs]
        self.biases = [Slotted(tf, tf.zeros(pair[1:]), rule) for pair in pairs]
        self.table = self.wide_table = self.wide_bias = None
        if self.table_size:
            self.table = Slotted(tf, tf.random.normal(self.table_size, stddev=0.01), rule)
        if self.wide:
            self.wide_table = Slotted(tf, tf.zeros((self.table_size[0], 1)), FTRL)
            self.wide_bias = Slotted(tf, tf.zeros((1,)), FTRL)
        self.all = [v for v in (*self.weights, *self.biases, self.table, self.wide_table, self.wide_bias) if v]
        self.updates = tf.Variable(0.0) if rule[0] == "adam" else None

    def loss(self, batch):
        tf, hidden = self.tf, batch["x"]
        if self.table:
            rows = tf.nn.embedding_lookup(self.table.whole, batch["ids"])
            hidden = tf.concat([tf.reshape(rows, (-1, IDS * self.table_size[1])), hidden], 1)
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            hidden = tf.matmul(hidden, weight.whole) + bias.whole
            if number + 1 < len(self.weights):
                hidden = tf.nn.relu(hidden)
        if self.wide:
            linear = tf.nn.embedding_lookup(self.wide_table.whole, batch["ids"])
            hidden += tf.reduce_sum(linear, 1) + self.wide_bias.whole
            truth = tf.cast(tf.reshape(batch["label"], (-1, 1)), tf.float32)
            return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(truth, hidden))
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], hidden))

    def step(self, batch):
        tf = self.tf
        shards = [shard for variable in self.all for shard in variable.shards]
        with tf.GradientTape() as tape:
            loss = self.loss(batch)
        gradients = iter(tape.gradient(loss, shards))
        powers = None
        if self.updates is not None:
            update = self.updates.assign_add(1.0)
            powers = tf.pow(0.9, update), tf.pow(0.999, update)
        for variable in self.all:
            for shard, slots in zip(variable.shards, variable.slots):
                self.apply(variable, shard, slots, next(gradients), powers)
        return loss

    def apply(self, variable, shard, slots, gradient, powers):
        tf, raw, rate = self.tf, self.tf.raw_ops, variable.rate
        rows = isinstance(gradient, tf.IndexedSlices)
        if rows and variable.rule == "adam":
            ids, where = tf.unique(gradient.indices)
            summed = tf.math.unsorted_segment_sum(gradient.values, where, tf.size(ids))
        with tf.device(shard.device):
            handles = [slot.handle for slot in slots]
            if variable.rule == "adagrad":
                settings = dict(var=shard.handle, accum=handles[0], lr=rate, epsilon=1e-7)
                if rows:
                    raw.ResourceSparseApplyAdagradV2(grad=gradient.values, indices=gradient.indices, **settings)
                else:
                    raw.ResourceApplyAdagradV2(grad=gradient, **settings)
            elif variable.rule == "ftrl":
                settings = dict(var=shard.handle, accum=handles[0], linear=handles[1], lr=rate, l1=0.0, l2=0.0,
                                l2_shrinkage=0.0, lr_power=-0.5)
                if rows:
                    raw.ResourceSparseApplyFtrlV2(grad=gradient.values, indices=gradient.indices, **settings)
                else:
                    raw.ResourceApplyFtrlV2(grad=gradient, **settings)
            elif rows:
                first = 0.9 * tf.gather(slots[0], ids) + 0.1 * summed
                second = 0.999 * tf.gather(slots[1], ids) + 0.001 * summed * summed
                scale = rate * tf.sqrt(1.0 - powers[1]) / (1.0 - powers[0])
                raw.ResourceScatterUpdate(resource=handles[0], indices=ids, updates=first)
                raw.ResourceScatterUpdate(resource=handles[1], indices=ids, updates=second)
                raw.ResourceScatterSub(resource=shard.handle, indices=ids,
                                       updates=scale * first / (tf.sqrt(second) + 1e-7))
            else:
                raw.ResourceApplyAdam(var=shard.handle, m=handles[0], v=handles[1], beta1_power=powers[0],
                                      beta2_power=powers[1], lr=rate, beta1=0.9, beta2=0.999, epsilon=1e-7, grad=gradient)


def examples(tf, model, args):
    """Batches over and over: made beforehand, or read and parsed while training."""
    classes = max(2, model.widths[-1])
    width = NUMBERS if model.table_size else model.widths[0]
    if args.from_file:
        features = {"x": tf.io.FixedLenFeature([width], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}
        if model.table_size:
            features["ids"] = tf.io.FixedLenFeature([IDS], tf.int64)
        records = tf.data.TFRecordDataset(args.from_file).repeat().batch(args.batch, drop_remainder=True)
        return records.map(lambda batch: tf.io.parse_example(batch, features)).prefetch(4)
    count = args.batch * (50 if args.batch < 500 else 10)
    made = {"x": tf.random.normal((count, width)), "label": tf.random.uniform((count,), 0, classes, tf.int32)}
    if model.table_size:
        rows = model.table_size[0]
        if rows % IDS == 0:  # every column has its own share of the table
            ids = tf.random.uniform((count, IDS), 0, rows // IDS, tf.int32) + tf.range(IDS) * (rows // IDS)
        else:
            ids = tf.random.uniform((count, IDS), 0, rows, tf.int32)
        made["ids"] = ids
    data = tf.data.Dataset.from_tensor_slices(made).batch(args.batch, drop_remainder=True)
    return data.cache().repeat().prefetch(4)


def on_servers(args):
    where, machines = peer_network.addresses(args.ps + args.workers, args.machines)
    cluster = {"ps": where[:args.ps], "worker": where[args.ps:]}
    multiprocessing.set_start_method("spawn")
    tasks = [(job, index) for job in cluster for index in range(len(cluster[job]))]
    servers = [(cluster, *task, machine) for task, machine in zip(tasks, machines)]
    processes = [multiprocessing.Process(target=serve, args=server, daemon=True) for server in servers]
    for process in processes:
        process.start()
    import tensorflow as tf

    def partitions(shape, dtype, **_):  # tables are split over the servers, the rest is placed by turns
        return [args.ps if shape[0] >= 10_000 else 1] + [1] * (len(shape) - 1)

    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(cluster), rpc_layer="grpc")
    strategy = tf.distribute.experimental.ParameterServerStrategy(resolver, variable_partitioner=partitions)
    coordinator = tf.distribute.experimental.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = Model(tf, args.model)
    batches = iter(coordinator.create_per_worker_dataset(lambda: examples(tf, model, args)))

    @tf.function
    def steps(batches):
        for _ in range(args.pack):  # unrolled
            loss = strategy.run(model.step, args=(next(batches),))
        return loss

    def run(count):
        for _ in range(max(1, count // args.pack)):
            coordinator.schedule(steps, args=(batches,))
        coordinator.join()

    if args.first_step:
        run(1)
        print("first step", flush=True)
        time.sleep(0.5)  # so that its memory can be looked at
    else:
        measure(tf, args, run)
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(5)


def alone(args):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    model = Model(tf, args.model)
    batches = iter(examples(tf, model, args))

    @tf.function
    def steps():
        for _ in range(args.pack):
            loss = model.step(next(batches))
        return loss

    def run(count):
        for _ in range(max(1, count // args.pack)):
            loss = steps()
        loss.numpy()

    measure(tf, args, run)


def measure(tf, args, run):
    run((50 if args.batch < 500 else 10) * max(1, args.workers))
    rates = []
    for _ in range(3):
        started = time.time()
        run(args.steps)
        rates.append(max(1, args.steps // args.pack) * args.pack / (time.time() - started))
    print(json.dumps({"system": "tensorflow " + tf.__version__, "model": args.model, "ps": args.ps, "workers": args.workers,
                      "batch": args.batch, "pack": args.pack, "threads": args.threads, "steps_per_s": round(max(rates), 2),
                      "examples_per_s": round(max(rates) * args.batch), "rates": [round(rate, 2) for rate in rates]}),
          flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--ps", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="in one process")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--pack", type=int, default=1, help="steps in one call")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--from-file")
    parser.add_argument("--machines", help="NAMESPACE@ADDRESS,… for the servers, then the workers")
    parser.add_argument("--first-step", action="store_true", help="say when the first step of a job is done, and end")
    args = parser.parse_args()
    args.batch = args.batch or MODELS[args.model][3]
    on_servers(args) if args.ps else alone(args)


if __name__ == "__main__":
    main()
