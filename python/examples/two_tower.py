"""Retrieval with two towers in PyTorch: users and items are rows of tables on parameter servers.

    python two_tower.py
    python -m phalanx launch --ps 2 --workers 2 -- python two_tower.py

A user likes the items of a taste. The towers learn to put a user beside what it likes, from pairs and in-batch negatives.
"""

from functools import partial

import torch
from torch import nn

import phalanx
import phalanx.torch as pxt

USERS, ITEMS, TASTES, DIM = 2000, 500, 10, 16


def tower(tables):
    return nn.Sequential(nn.Linear(tables.width, 32), nn.ReLU(), nn.Linear(32, DIM))


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        adagrad = phalanx.Adagrad(0.2)
        self.users = pxt.EmbeddingBagCollection([pxt.EmbeddingBagConfig(DIM, "user", optimizer=adagrad)])
        self.items = pxt.EmbeddingBagCollection([pxt.EmbeddingBagConfig(DIM, "item", optimizer=adagrad)])
        self.user_tower, self.item_tower = tower(self.users), tower(self.items)

    def user(self, ids):
        return nn.functional.normalize(self.user_tower(self.users(ids).values()), dim=1)

    def item(self, ids):
        return nn.functional.normalize(self.item_tower(self.items(ids).values()), dim=1)

    def forward(self, ids):
        """Return the loss: an item's own user is to be nearer than the other users of the batch."""
        scores = self.user(ids) @ self.item(ids).T * 10
        # The same item of another user is no negative.
        same = ids["item"][:, None] == ids["item"][None, :]
        scores = scores.masked_fill(same & ~torch.eye(len(scores), dtype=torch.bool), -1e9)
        return nn.functional.cross_entropy(scores, torch.arange(len(scores)))


def pairs(rows):
    """Return users, and for each an item of its taste."""
    user = torch.randint(0, USERS, (rows,))
    item = torch.randint(0, ITEMS // TASTES, (rows,)) * TASTES + user % TASTES
    return {"user": user, "item": item}


@torch.no_grad()
def recall(model):
    """Return the share of each user's ten nearest items that are of its taste."""
    users = torch.arange(200)
    nearest = (model.user({"user": users}) @ model.item({"item": torch.arange(ITEMS)}).T).topk(10).indices
    return (nearest % TASTES == (users % TASTES)[:, None]).float().mean().item()


def part(server):
    torch.manual_seed(server.index)
    model = TwoTower()
    with pxt.Supervisor(server, model, phalanx.Adam(0.01)).managed_session() as session:
        session.stop_at(2000)
        ids = pairs(256)
        while session.step(partial(model, ids), ids):
            ids = pairs(256)
        if server.is_chief:
            session.refresh()
            print(f"recall at 10: {recall(model):.3f}", flush=True)


phalanx.job(part)
