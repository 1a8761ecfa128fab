"""The peers' side of `phalanx-bench compare --forms mirrored`: the dnn with its gradients averaged over workers.

usage: peer_mirrored.py tf|torch [--workers N] [--steps N] [--batch B] [--machines LIST]

TensorFlow's MultiWorkerMirroredStrategy, and PyTorch's DistributedDataParallel over gloo; one process and one compute
thread a worker, `batch` examples each. With --machines, each worker runs in a network namespace of its own. The first worker
prints one line of JSON: the best of three measurements after a warm-up.
"""
import argparse
import json
import multiprocessing
import os
import time

import peer_network

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
SIZES = [512, 1024, 512, 256, 2]
BATCHES = 50


def tf_step(args, hosts, rank):
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": rank}})
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        layers = [tf.keras.layers.Dense(units, activation="relu") for units in SIZES[1:-1]]
        model = tf.keras.Sequential([tf.keras.layers.InputLayer((SIZES[0],)), *layers, tf.keras.layers.Dense(SIZES[-1])])
        optimizer = tf.keras.optimizers.legacy.Adagrad(0.05)

    def examples(_):
        x = tf.random.normal((BATCHES * args.batch, SIZES[0]))
        y = tf.random.uniform((BATCHES * args.batch,), 0, 2, tf.int32)
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(args.batch, drop_remainder=True)
        return data.cache().repeat().prefetch(4)

    batches = iter(strategy.distribute_datasets_from_function(examples))

    def replica(batch):
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True)))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    step = tf.function(lambda: strategy.run(replica, args=(next(batches),)))
    return step, "tensorflow mwms " + tf.__version__


def torch_step(args, hosts, rank):
    import torch

    host, port = hosts[0].split(":")
    os.environ.update(MASTER_ADDR=host, MASTER_PORT=port)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=args.workers)
    torch.set_num_threads(1)
    layers = []
    for inputs, outputs in zip(SIZES, SIZES[1:]):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    if args.workers > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    x = torch.randn(BATCHES, args.batch, SIZES[0])
    y = torch.randint(0, 2, (BATCHES, args.batch))
    steps = iter(range(10**9))

    def step():
        at = next(steps) % BATCHES
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[at]), y[at]).backward()
        optimizer.step()

    return step, "torch ddp " + torch.__version__


def work(args, hosts, machine, rank):
    if machine:
        peer_network.enter(machine)
    step, system = (tf_step if args.framework == "tf" else torch_step)(args, hosts, rank)
    for _ in range(20):
        step()
    rates = []
    for _ in range(3):
        started = time.time()
        for _ in range(args.steps):
            step()
        rates.append(args.steps / (time.time() - started))
    if rank == 0:
        print(json.dumps({"system": system, "model": "dnn", "workers": args.workers, "batch": args.batch,
                          "steps_per_s": round(max(rates), 1), "rates": [round(rate, 1) for rate in rates],
                          "examples_per_s": round(max(rates) * args.batch * args.workers)}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("framework", choices=["tf", "torch"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--machines")
    args = parser.parse_args()
    multiprocessing.set_start_method("spawn")
    hosts, machines = peer_network.addresses(args.workers, args.machines)
    ranks = range(args.workers)
    workers = [multiprocessing.Process(target=work, args=(args, hosts, machines[rank], rank), daemon=True) for rank in ranks]
    for worker in workers:
        worker.start()
    workers[0].join()
    for worker in workers[1:]:
        worker.terminate()
        worker.join(5)
    raise SystemExit(workers[0].exitcode)


if __name__ == "__main__":
    main()
