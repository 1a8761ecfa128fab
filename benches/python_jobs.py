"""Python's side of `phalanx-bench python`: one measurement of one entrant, as one line of JSON.

usage: python_jobs.py rows|torch|ddp|tables|estimator [--steps N] [--data FILE] [--warm-up N]

    rows       pull and push of the click model's 26,000 rows through `phalanx.torch`'s session, as a task of a job
    tables     the `embed` model in PyTorch, with parameters and tables on parameter servers, as a task of a job
    torch      the same model in PyTorch alone, with `nn.EmbeddingBag(sparse=True)`, in this process
    ddp        the same under DistributedDataParallel over gloo, in two processes
    estimator  the job file's model as an estimator, on the same data
"""

import argparse
import json
import os
import time

IDS, NUMBERS, ROWS, DIM, BATCH = 26, 13, 100_000, 16, 128
HIDDEN = [IDS * DIM + NUMBERS, 400, 400, 2]


def told(steps, seconds, **more):
    print("best " + json.dumps({"steps_per_s": steps / seconds, "ms": 1e3 * seconds / steps, **more}), flush=True)


def tower(torch):
    layers = []
    for inputs, outputs in zip(HIDDEN, HIDDEN[1:]):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def examples(torch, seed):
    torch.manual_seed(seed)
    ids = [torch.randint(0, ROWS, (BATCH, IDS)) for _ in range(50)]
    return [(one, torch.randn(BATCH, NUMBERS), torch.randint(0, 2, (BATCH,))) for one in ids]


def part_of_rows(args):
    """A step pulls 26,000 rows of 10 numbers and pushes a gradient for each."""

    def part(server):
        import numpy as np
        import torch

        import phalanx
        import phalanx.torch as pxt

        class Table(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.one = torch.nn.Parameter(torch.zeros(1))
                self.rows = pxt.EmbeddingBagCollection([pxt.EmbeddingBagConfig(name="rows", embedding_dim=10)])

        numbers = np.random.default_rng(1)
        batches = [numbers.integers(0, 1_000_001, 26_000) for _ in range(10)]
        with pxt.Supervisor(server, Table(), phalanx.Adagrad(0.05)).managed_session() as session:
            inner = session.inner

            def run(steps):
                for step in range(steps):
                    _, [(rows, _)] = inner.begin([(0, batches[step % 10])])
                    gradient = np.frombuffer(rows, np.float32)
                    inner.end(0.0, [None], [gradient], [])

            run(args.warm_up)
            began = time.perf_counter()
            run(args.steps)
            told(args.steps, time.perf_counter() - began)

    import phalanx

    phalanx.job(part)


def part_of_tables(args):
    """The model of `torch`, whose parameters and table are on the servers."""

    def part(server):
        import torch

        import phalanx
        import phalanx.torch as pxt

        torch.set_num_threads(1)
        names = [f"f{at}" for at in range(IDS)]

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                config = pxt.EmbeddingBagConfig(name="table", embedding_dim=DIM, feature_names=names, num_embeddings=ROWS)
                self.table, self.tower = pxt.EmbeddingBagCollection([config]), tower(torch)

            def forward(self, features, numbers):
                return self.tower(torch.cat([self.table(features).values(), numbers], 1))

        batches = [
            (dict(zip(names, ids.t().contiguous())), numbers, labels) for ids, numbers, labels in examples(torch, server.index + 7)
        ]
        model, loss_of = Model(), torch.nn.functional.cross_entropy
        with pxt.Supervisor(server, model, phalanx.Adagrad(0.05)).managed_session() as session:
            last = args.warm_up + args.steps
            session.stop_at(last)
            began = at = 0
            step = 0
            while True:
                features, numbers, labels = batches[step % len(batches)]
                step += 1
                done = session.step(lambda: loss_of(model(features, numbers), labels), features)
                if done is None:
                    break
                if not began and done.global_step >= args.warm_up:
                    began, at = time.perf_counter(), done.global_step
            if server.is_chief:
                told(session.global_step - at, time.perf_counter() - began)

    import phalanx

    phalanx.job(part)


def torch_alone(args, rank=0, workers=1):
    import torch

    torch.set_num_threads(max(1, args.threads // workers))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.tower = torch.nn.EmbeddingBag(ROWS, DIM, mode="sum", sparse=True), tower(torch)
            self.starts = torch.arange(0, BATCH * IDS)

        def forward(self, ids, numbers):
            return self.tower(torch.cat([self.table(ids.view(-1), self.starts).view(BATCH, IDS * DIM), numbers], 1))

    model = Model()
    batches, loss_of = examples(torch, rank + 7), torch.nn.functional.cross_entropy
    if workers > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    rule = torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1, eps=1e-7)

    def run(steps):
        for step in range(steps):
            ids, numbers, labels = batches[step % len(batches)]
            rule.zero_grad()
            loss_of(model(ids, numbers), labels).backward()
            rule.step()

    # Steps of all workers together, as those of the servers are counted.
    run(args.warm_up // workers)
    began = time.perf_counter()
    run(args.steps // workers)
    if rank == 0:
        told(args.steps // workers * workers, time.perf_counter() - began)


def ddp_worker(rank, args, store):
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=rank, world_size=2, init_method=f"file://{store}")
    torch_alone(args, rank, 2)
    dist.destroy_process_group()


def ddp(args):
    import tempfile

    import torch.multiprocessing as mp

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(ddp_worker, args=(args, f"{folder}/store"), nprocs=2)


def estimator(args):
    """The model of `phalanx-bench python`'s job file."""
    import tempfile

    from phalanx import Adagrad, data
    from phalanx import estimator as est
    from phalanx import feature_column as fc

    numbers = [fc.numeric_column(f"n{at}") for at in range(5)]
    texts = [fc.embedding_column(fc.categorical_column_with_hash_bucket(f"t{at}", 1000), 8) for at in range(3)]

    def rows():
        return data.csv(args.data, label="y")

    with tempfile.TemporaryDirectory() as folder:
        model = est.DNNClassifier(
            feature_columns=numbers + texts, hidden_units=[100, 50], optimizer=Adagrad(0.05), model_dir=folder,
            config=est.RunConfig(tf_random_seed=1),
        )
        train = est.TrainSpec(lambda: rows().shuffle(10_000, seed=1).repeat().batch(128), max_steps=args.steps)
        report = est.train_and_evaluate(model, train, est.EvalSpec(lambda: rows().batch(128), steps=10))
        told(report.steps, report.seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("entrant", choices=["rows", "torch", "ddp", "tables", "estimator"])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--warm-up", type=int, default=150)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data")
    args = parser.parse_args()
    run = {"rows": part_of_rows, "torch": torch_alone, "ddp": ddp, "tables": part_of_tables, "estimator": estimator}
    run[args.entrant](args)


if __name__ == "__main__":
    main()
