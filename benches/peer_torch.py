"""PyTorch's side of `phalanx-bench compare`: one model in one process.

usage: peer_torch.py softmax|dnn|embed|click|wide-deep [--threads T] [--steps N] [--batch B]

Tables have sparse gradients, and the optimizers that take them: Adagrad, SparseAdam (which changes the rows of the batch
only), and FTRL by hand, since there is none. Prints one line of JSON: the best of three measurements after a warm-up.
"""
import argparse
import json
import time

import torch
from torch import nn

IDS, NUMBERS = 26, 13
MODELS = {
    "softmax": ([784, 10], None, 128),
    "dnn": ([512, 1024, 512, 256, 2], None, 128),
    "embed": ([400, 400, 2], (100_000, 16), 128),
    "click": ([400, 400, 400, 2], (1_000_001, 10), 1000),
    "wide-deep": ([1024, 512, 256, 1], (IDS * 10_000, 64), 2048),
}


class Ftrl:
    """FTRL without regularization, on the rows of the batch."""

    def __init__(self, weight, rate=0.2):
        self.weight, self.rate = weight, rate
        self.accumulated = torch.full_like(weight, 0.1)
        self.linear = torch.zeros_like(weight)

    @torch.no_grad()
    def step(self):
        gradient = self.weight.grad
        if gradient.is_sparse:
            gradient = gradient.coalesce()
            rows, gradient = gradient.indices()[0], gradient.values()
        else:
            rows = slice(None)
        value, old = self.weight[rows], self.accumulated[rows]
        new = old + gradient * gradient
        linear = self.linear[rows] + gradient - (new.sqrt() - old.sqrt()) / self.rate * value
        self.accumulated[rows], self.linear[rows] = new, linear
        self.weight[rows] = -linear * self.rate / new.sqrt()

    def zero_grad(self):
        self.weight.grad = None


class Model(nn.Module):
    def __init__(self, name):
        super().__init__()
        widths, self.table_size, _ = MODELS[name]
        if self.table_size:
            widths = [IDS * self.table_size[1] + NUMBERS, *widths]
            self.table = nn.Embedding(*self.table_size, sparse=True)
            nn.init.normal_(self.table.weight, std=0.01)
        self.wide = name == "wide-deep"
        if self.wide:
            self.wide_table = nn.Embedding(self.table_size[0], 1, sparse=True)
            nn.init.zeros_(self.wide_table.weight)
            self.wide_bias = nn.Parameter(torch.zeros(1))
        layers = []
        for inputs, outputs in zip(widths, widths[1:]):
            layer = nn.Linear(inputs, outputs)
            nn.init.normal_(layer.weight, std=0.05)
            nn.init.zeros_(layer.bias)
            layers += [layer, nn.ReLU()]
        self.layers, self.widths = nn.Sequential(*layers[:-1]), widths

    def forward(self, numbers, ids, labels):
        hidden = numbers
        if self.table_size:
            hidden = torch.cat([self.table(ids).flatten(1), numbers], 1)
        logits = self.layers(hidden)
        if self.wide:
            logits = logits + self.wide_table(ids).sum(1) + self.wide_bias
            return nn.functional.binary_cross_entropy_with_logits(logits[:, 0], labels.float())
        return nn.functional.cross_entropy(logits, labels)


def optimizers(name, model):
    dense, settings = list(model.layers.parameters()), dict(initial_accumulator_value=0.1, eps=1e-7)
    if name == "click":
        return [torch.optim.Adam(dense, lr=1e-4, eps=1e-7), torch.optim.SparseAdam(model.table.parameters(), lr=1e-4, eps=1e-7)]
    if name == "wide-deep":
        both = dense + list(model.table.parameters())
        return [torch.optim.Adagrad(both, lr=0.01, **settings), Ftrl(model.wide_table.weight), Ftrl(model.wide_bias)]
    return [torch.optim.Adagrad(model.parameters(), lr=0.05, **settings)]


def examples(model, batch):
    made, width = [], NUMBERS if model.table_size else model.widths[0]
    for _ in range(50 if batch < 500 else 10):
        ids = None
        if model.table_size:
            rows = model.table_size[0]
            if rows % IDS == 0:  # every column has its own share of the table
                ids = torch.randint(0, rows // IDS, (batch, IDS)) + torch.arange(IDS) * (rows // IDS)
            else:
                ids = torch.randint(0, rows, (batch, IDS))
        made.append((torch.randn(batch, width), ids, torch.randint(0, max(2, model.widths[-1]), (batch,))))
    return made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int)
    args = parser.parse_args()
    batch = args.batch or MODELS[args.model][2]
    torch.set_num_threads(args.threads)
    model = Model(args.model)
    rules, batches = optimizers(args.model, model), examples(model, batch)

    def run(steps):
        for step in range(steps):
            for rule in rules:
                rule.zero_grad()
            loss = model(*batches[step % len(batches)])
            loss.backward()
            for rule in rules:
                rule.step()
        return loss.item()

    run(len(batches))
    rates = []
    for _ in range(3):
        started = time.time()
        run(args.steps)
        rates.append(args.steps / (time.time() - started))
    print(json.dumps({"system": "torch " + torch.__version__, "model": args.model, "ps": 0, "workers": 1, "batch": batch,
                      "pack": 1, "threads": args.threads, "steps_per_s": round(max(rates), 2),
                      "examples_per_s": round(max(rates) * batch), "rates": [round(rate, 2) for rate in rates]}), flush=True)


if __name__ == "__main__":
    main()
