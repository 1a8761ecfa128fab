"""Who earns more than 50,000 a year: a PyTorch tower over embeddings that are on the parameter servers.

    python adult_income.py --data FOLDER
    python -m phalanx launch --ps 2 --workers 2 -- python adult_income.py --data FOLDER

FOLDER has `adult.data` and `adult.test` of the UCI Adult data set. The model is that of PERSIA's example of the same name, which
reaches an AUC of 0.8929 on the test data.
"""

from __future__ import annotations

import argparse
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import nn

import phalanx
import phalanx.torch as pxt
from phalanx import data

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, required=True)
parser.add_argument("--model_dir", default=None)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batch_size", type=int, default=128)
FLAGS = parser.parse_args()

TEXTS = ["workclass", "education", "marital_status", "occupation", "relationship", "race", "gender", "native_country"]
NUMBERS = ["age", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "gender",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
]


class Rows:
    """The rows of a file as tensors: ids of texts, numbers, and whether the income is high."""

    def __init__(self, file: Path) -> None:
        rows = data.csv(file, names=COLUMNS, header=False, trim=True, label="income", select=[*TEXTS, *NUMBERS])
        batches = list(rows.batch(4096))
        columns = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
        self.ids = {name: torch.tensor([zlib.crc32(text) for text in columns[name]]) for name in TEXTS}
        numbers = np.log1p(np.stack([columns[name] for name in NUMBERS], axis=1).astype(np.float32))
        self.numbers = torch.from_numpy(numbers)
        self.labels = torch.tensor([float(b">50K" in text) for text in columns["income"]])

    def __len__(self) -> int:
        return len(self.labels)

    def features(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the ids of some rows, one per row and feature."""
        return {name: ids[rows] for name, ids in self.ids.items()}


class Tower(nn.Module):
    """A table of 8 numbers per row for each text, and dense layers over all of them and the numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = pxt.EmbeddingBagCollection(
            [pxt.EmbeddingBagConfig(name=name, embedding_dim=8, optimizer=phalanx.Adagrad(0.05)) for name in TEXTS]
        )
        # Its averages are on the servers, too.
        self.norm = nn.BatchNorm1d(len(NUMBERS))
        self.dense = nn.Sequential(
            nn.Linear(self.tables.width + len(NUMBERS), 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, features: dict[str, torch.Tensor], numbers: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        return self.dense(torch.cat([self.tables(features).values(), self.norm(numbers)], dim=1)).squeeze(1)


def auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the share of pairs of a positive and a negative row that the scores order rightly; ties count half."""
    _, at, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[at]
    positive = int(labels.sum())
    return float((ranks[labels > 0].sum() - positive * (positive + 1) / 2) / (positive * (len(labels) - positive)))


def part(server: phalanx.Server) -> None:
    """Train as one of the job's trainers; the chief evaluates."""
    torch.manual_seed(server.index + (0 if server.is_chief else 1))
    torch.set_num_threads(1)
    train, model = Rows(FLAGS.data / "adult.data"), Tower()
    supervisor = pxt.Supervisor(server, model, phalanx.Adam(0.001), model_dir=FLAGS.model_dir)
    with supervisor.managed_session() as session:
        session.stop_at(FLAGS.epochs * len(train) // FLAGS.batch_size)
        while not session.should_stop:
            rows = torch.randint(0, len(train), (FLAGS.batch_size,))
            features, numbers, labels = train.features(rows), train.numbers[rows], train.labels[rows]

            def loss(features=features, numbers=numbers, labels=labels) -> torch.Tensor:
                return nn.functional.binary_cross_entropy_with_logits(model(features, numbers), labels)

            if session.step(loss, features) is None:
                break
        if server.is_chief:
            test = Rows(FLAGS.data / "adult.test")
            session.refresh()
            model.eval()
            with torch.no_grad():
                scores = model(test.features(torch.arange(len(test))), test.numbers)
            print(f"AUC {auc(test.labels.numpy(), scores.numpy()):.4f} after {session.global_step} steps", flush=True)


phalanx.job(part)
