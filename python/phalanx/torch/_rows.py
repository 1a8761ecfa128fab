"""The rows that a step looks up, and their gradients."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from phalanx._phalanx import Buffer
from phalanx.torch._embedding import EmbeddingBagCollection, EmbeddingBagConfig, Features, Ids, bags_of, ids_of
from phalanx.torch._parameters import Numbers, numbers_of

Read: TypeAlias = Callable[[int, Ids], tuple[Buffer, Buffer, Buffer]]
"""Reads rows of a table: the unique ids, their rows, and for each id the index of its row."""
LookedUp: TypeAlias = list[tuple[int, Ids, Numbers]]


class StepRows:
    """Where the collections of a model get rows: those that a step begins with, and any others."""

    def __init__(self, collections: list[EmbeddingBagCollection], read: Read) -> None:
        self.read = read
        self._collections = collections
        self._tables: dict[str, tuple[int, EmbeddingBagConfig]] = {}
        for table in (table for one in collections for table in one.embedding_bag_configs()):
            self._tables[table.name] = len(self._tables), table
        self._features: object = None
        self._fetched: dict[str, tuple[Tensor, Tensor]] = {}
        self._looked_up: list[tuple[str, Ids, Tensor]] = []
        # Rows that are looked up outside of a step have no gradients.
        self._stepping = threading.local()

    def bind(self) -> None:
        """Let the model's collections look up rows here."""
        for collection in self._collections:
            collection._source = self  # pyright: ignore[reportPrivateUsage]

    def unbind(self) -> None:
        """Let them go: they can be given to another session."""
        for collection in self._collections:
            collection._source = None  # pyright: ignore[reportPrivateUsage]

    def wanted(self, features: Features) -> list[tuple[int, Ids]]:
        """Return the ids that a step of these features needs, for each table."""
        if features is None:
            return []
        return [(at, ids_of(bags_of(table, features))) for at, table in self._tables.values()]

    def begin(self, fetched: list[tuple[Buffer, Buffer]] | None = None, features: object = None) -> None:
        """Begin a step, with the rows that its features need."""
        self.clear()
        self._stepping.now = True
        if not fetched:
            return
        self._features = features
        for (name, (_, table)), (rows, positions) in zip(self._tables.items(), fetched, strict=True):
            self._fetched[name] = (_rows(rows, table.embedding_dim).requires_grad_(), _positions(positions))

    def rows(self, table: str, ids: Ids, features: object) -> tuple[Tensor, Tensor]:
        """Return the unique rows of these ids, and for each id the index of its row."""
        if features is not None and features is self._features and table in self._fetched:
            return self._fetched[table]
        unique, rows, positions = self.look_up(table, ids)
        if getattr(self._stepping, "now", False):
            self._looked_up.append((table, unique, rows.requires_grad_()))
        return rows, positions

    def look_up(self, table: str, ids: Ids) -> tuple[Ids, Tensor, Tensor]:
        """Read rows of a table: the unique ids, their rows, and for each id the index of its row."""
        at, config = self._tables[table]
        unique, rows, positions = self.read(at, ids)
        return np.frombuffer(memoryview(unique), np.int64), _rows(rows, config.embedding_dim), _positions(positions)

    def gradients(self) -> tuple[list[Numbers | None], LookedUp]:
        """Return the gradients of the rows that the step was begun with, and of those that it has looked up since."""
        fetched = [numbers_of(leaf.grad) for leaf, _ in self._fetched.values()]
        looked_up: dict[str, list[tuple[Ids, Numbers]]] = {}
        for table, unique, leaf in self._looked_up:
            numbers = numbers_of(leaf.grad)
            if numbers is not None:
                looked_up.setdefault(table, []).append((unique, numbers))
        return fetched, [(self._tables[table][0], *_summed(parts)) for table, parts in looked_up.items()]

    def clear(self) -> None:
        """Forget the rows of the step."""
        self._features, self._fetched, self._looked_up = None, {}, []
        self._stepping.now = False


def _summed(parts: list[tuple[Ids, Numbers]]) -> tuple[Ids, Numbers]:
    """Return the gradients of several look-ups in a table, each id once."""
    if len(parts) == 1:
        return parts[0]
    ids, at = np.unique(np.concatenate([ids for ids, _ in parts]), return_inverse=True)
    dims = [numbers.reshape(len(own), -1) for own, numbers in parts]
    sums = np.zeros((len(ids), dims[0].shape[1]), np.float32)
    np.add.at(sums, at, np.concatenate(dims))
    return ids, sums


def _rows(rows: Buffer, dim: int) -> Tensor:
    # An empty buffer cannot be wrapped.
    return torch.frombuffer(memoryview(rows), dtype=torch.float32).view(-1, dim) if len(rows) else torch.zeros(0, dim)


def _positions(positions: Buffer) -> Tensor:
    return torch.frombuffer(memoryview(positions), dtype=torch.int64) if len(positions) else torch.zeros(0, dtype=torch.int64)
