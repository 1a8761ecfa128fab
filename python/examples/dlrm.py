"""DLRM in PyTorch: dense features through a tower, ids through tables on parameter servers, and the products of all pairs.

    python dlrm.py
    python -m phalanx launch --ps 2 --workers 2 -- python dlrm.py

The clicks are made up: they depend on the products of some features, which a linear model cannot learn.
"""

from functools import partial

import torch
from torch import nn

import phalanx
import phalanx.torch as pxt
from phalanx import metrics

DENSE, SPARSE, ROWS, DIM = 4, 6, 1000, 8
NAMES = [f"c{index}" for index in range(SPARSE)]


class Dlrm(nn.Module):
    def __init__(self):
        super().__init__()
        adagrad = phalanx.Adagrad(0.1)
        tables = [pxt.EmbeddingBagConfig(DIM, name, num_embeddings=ROWS, optimizer=adagrad) for name in NAMES]
        self.tables = pxt.EmbeddingBagCollection(tables)
        self.bottom = nn.Sequential(nn.Linear(DENSE, 32), nn.ReLU(), nn.Linear(32, DIM), nn.ReLU())
        pairs = (SPARSE + 1) * SPARSE // 2
        self.top = nn.Sequential(nn.Linear(DIM + pairs, 32), nn.ReLU(), nn.Linear(32, 1))
        self.register_buffer("below", torch.tril_indices(SPARSE + 1, SPARSE + 1, -1), persistent=False)

    def forward(self, dense, ids):
        bottom = self.bottom(dense)
        rows = self.tables(ids).values().reshape(-1, SPARSE, DIM)
        vectors = torch.cat([bottom[:, None], rows], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.below[0], self.below[1]]
        return self.top(torch.cat([bottom, products], 1)).squeeze(1)


HIDDEN = torch.randn(SPARSE, ROWS, generator=torch.Generator().manual_seed(3))


def clicks(rows):
    """Return dense features, ids, and whether there was a click."""
    dense = torch.randn(rows, DENSE)
    # Few ids are common.
    ids = {name: (torch.rand(rows) ** 4 * ROWS).long() for name in NAMES}
    hidden = torch.stack([HIDDEN[at][ids[name]] for at, name in enumerate(NAMES)])
    logits = 1.5 * (hidden[0] * hidden[1] + hidden[2] * hidden[3]) + dense[:, 0] * 0.5
    return dense, ids, (torch.rand(rows) < torch.sigmoid(logits)).float()


@torch.no_grad()
def auc(model):
    dense, ids, clicked = clicks(20000)
    found = metrics.AUC()
    found.update_state(clicked, torch.sigmoid(model(dense, ids)))
    return found.result()


def loss_of(model, dense, ids, clicked):
    return nn.functional.binary_cross_entropy_with_logits(model(dense, ids), clicked)


def part(server):
    torch.manual_seed(server.index)
    model = Dlrm()
    with pxt.Supervisor(server, model, phalanx.Adam(0.005)).managed_session() as session:
        session.stop_at(3000)
        batch = clicks(512)
        while session.step(partial(loss_of, model, *batch), batch[1]):
            batch = clicks(512)
        if server.is_chief:
            session.refresh()
            print(f"AUC {auc(model):.3f}", flush=True)


phalanx.job(part)
