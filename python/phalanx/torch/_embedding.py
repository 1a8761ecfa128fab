"""Embedding tables whose rows are on the parameter servers, with TorchRec's names."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from phalanx._errors import Error
from phalanx._phalanx import Optimizer

Ids: TypeAlias = npt.NDArray[np.int64]


class PoolingType(Enum):
    """How the rows of an example become one."""

    SUM = "SUM"
    MEAN = "MEAN"


@dataclass(frozen=True)
class EmbeddingBagConfig:
    """A table, as TorchRec describes it.

    Ids are any 64-bit integers: a row exists from its first gradient on. `num_embeddings` only chooses the range of the first
    values, as in TorchRec; without it, `embedding_dim` does.
    """

    embedding_dim: int
    """How many numbers a row has."""
    name: str
    """The name of the table on the servers and in checkpoints."""
    feature_names: list[str] = field(default_factory=list[str])
    """The features that look up rows here; by default, one called like the table."""
    num_embeddings: int | None = None
    """How many rows there are about."""
    pooling: PoolingType = PoolingType.SUM
    """How the rows of an example become one."""
    weight_init_min: float | None = None
    """The lower end of the first values."""
    weight_init_max: float | None = None
    """The upper end of the first values."""
    optimizer: Optimizer | None = None
    """How gradients change rows; by default, as they change the parameters of the model."""

    def features(self) -> list[str]:
        """Return the features that look up rows here."""
        return self.feature_names or [self.name]

    def first_values(self) -> tuple[float, float]:
        """Return the range of the first values."""
        most = (self.num_embeddings or self.embedding_dim) ** -0.5
        low = -most if self.weight_init_min is None else self.weight_init_min
        return low, most if self.weight_init_max is None else self.weight_init_max

    def seed(self) -> int:
        """Return the seed of the first values: tables of different names differ."""
        return zlib.crc32(self.name.encode())


@runtime_checkable
class Bags(Protocol):
    """The ids of a feature, as a `JaggedTensor` of TorchRec has them."""

    def values(self) -> Tensor:
        """Return the ids of all examples, back to back."""
        ...

    def offsets(self) -> Tensor:
        """Return where the ids of each example begin, and where the last ones end."""
        ...


Bag: TypeAlias = "tuple[Tensor, Tensor] | Tensor | Bags"
Features: TypeAlias = "Mapping[str, Bag] | Any"
"""The ids of each feature: `(values, offsets)`, where `offsets` has one more entry than there are examples, or a tensor with one
id or a row of ids for each example. A `KeyedJaggedTensor` of TorchRec is such features, too."""


class RowSource(Protocol):
    """Where a collection gets rows."""

    def rows(self, table: str, ids: Ids, features: object) -> tuple[Tensor, Tensor]:
        """Return the unique rows of these ids, and for each id the index of its row."""
        ...


class KeyedTensor:
    """The pooled rows of each feature, with the methods of TorchRec's `KeyedTensor`."""

    def __init__(self, keys: list[str], pooled: list[Tensor]) -> None:
        self._keys, self._pooled = keys, pooled

    def keys(self) -> list[str]:
        """Return the features, in the order of their columns."""
        return self._keys

    def values(self) -> Tensor:
        """Return the rows of all features beside each other: `[examples, width]`."""
        return torch.cat(self._pooled, dim=1)

    def __getitem__(self, key: str) -> Tensor:
        return self._pooled[self._keys.index(key)]

    def to_dict(self) -> dict[str, Tensor]:
        """Return the rows of each feature."""
        return dict(zip(self._keys, self._pooled, strict=True))


class EmbeddingBagCollection(nn.Module):
    """Tables on the parameter servers: the rows that a batch needs are fetched with its step, and only their gradients are sent.

    >>> import phalanx, phalanx.torch as pxt
    >>> collection = pxt.EmbeddingBagCollection([pxt.EmbeddingBagConfig(name="user", embedding_dim=4)])
    >>> users = {"user": (torch.tensor([7, 3, 7]), torch.tensor([0, 1, 3]))}
    >>> with pxt.Supervisor(phalanx.Server.local(), collection, phalanx.SGD(0.1)).managed_session() as session:
    ...     _ = session.step(lambda: collection(users).values().square().mean(), users)
    ...     print(collection(users)["user"].shape)
    torch.Size([2, 4])
    """

    def __init__(self, tables: Sequence[EmbeddingBagConfig]) -> None:
        super().__init__()
        names = [table.name for table in tables]
        for name in names:
            if names.count(name) > 1:
                raise Error(f"two tables are called {name!r}", "PX0301", help="give each its own name", exit_code=1)
        self._tables = list(tables)
        self._source: RowSource | None = None
        # A module without parameters has no device; this one follows `to`.
        self.register_buffer("_device", torch.empty(0), persistent=False)

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """Return the tables."""
        return self._tables

    @property
    def width(self) -> int:
        """How many numbers an example has, all features together."""
        return sum(table.embedding_dim * len(table.features()) for table in self._tables)

    def forward(self, features: Features) -> KeyedTensor:
        """Return the pooled rows of each feature."""
        source = self._source
        if source is None:
            raise Error(
                f"the rows of table {self._tables[0].name!r} are on the parameter servers",
                "PX0302",
                cause="this collection belongs to no session",
                help="give the model to a phalanx.torch.Supervisor, and call it while its session lasts",
            )
        keys: list[str] = []
        pooled: list[Tensor] = []
        device = self._buffers["_device"]
        for table in self._tables:
            bags = bags_of(table, features)
            rows, positions = source.rows(table.name, ids_of(bags), features)
            if device is not None:
                rows, positions = rows.to(device.device), positions.to(device.device)
            keys += table.features()
            pooled += _pooled(table.pooling, rows, positions, bags)
        return KeyedTensor(keys, pooled)


class FeatureBags(NamedTuple):
    """The ids of a feature."""

    values: Tensor
    """The ids of all examples, back to back."""
    offsets: Tensor | None
    """Where the ids of each example begin, and where the last ones end; `None` if each example has one."""

    def examples(self) -> int:
        """Return how many examples there are."""
        return len(self.values) if self.offsets is None else len(self.offsets) - 1


def _pooled(pooling: PoolingType, rows: Tensor, positions: Tensor, bags: list[FeatureBags]) -> tuple[Tensor, ...]:
    """Return the pooled rows of each feature of a table, which are computed at once."""
    examples = [one.examples() for one in bags]
    if positions.numel() == 0:
        return torch.split(rows.new_zeros(sum(examples), rows.shape[1]), examples)
    if all(one.offsets is None for one in bags):
        return torch.split(nn.functional.embedding(positions, rows), examples)
    begin, offsets = 0, list[Tensor]()
    for one in bags:
        each = torch.arange(len(one.values)) if one.offsets is None else one.offsets[:-1].to("cpu", torch.int64)
        offsets.append(each + begin)
        begin += len(one.values)
    ends = torch.cat([*offsets, torch.tensor([begin])]).to(positions.device)
    mode = "sum" if pooling is PoolingType.SUM else "mean"
    pooled = nn.functional.embedding_bag(positions, rows, ends, mode=mode, include_last_offset=True)
    return torch.split(pooled, examples)


def bags_of(table: EmbeddingBagConfig, features: Features) -> list[FeatureBags]:
    """Return the ids of each feature of a table."""
    named = cast("Mapping[str, Bag]", features if isinstance(features, Mapping) else features.to_dict())
    return [_bag(table, name, named) for name in table.features()]


def ids_of(bags: list[FeatureBags]) -> Ids:
    """Return the ids of all features of a table."""
    return torch.cat([one.values for one in bags]).detach().to("cpu", torch.int64).numpy()


def _bag(table: EmbeddingBagConfig, name: str, named: Mapping[str, Bag]) -> FeatureBags:
    found = named.get(name)
    if found is None:
        known = ", ".join(named) or "none"
        raise Error(f"the features have no {name!r}", "PX0404", f"table {table.name!r}", help=f"there are: {known}")
    if isinstance(found, Tensor):
        if found.dim() == 1 and not found.is_floating_point():
            return FeatureBags(found, None)
        each = 1 if found.dim() == 1 else found.shape[1]
        values, offsets = found.reshape(-1), None if each == 1 else torch.arange(len(found) + 1) * each
    else:
        values, offsets = found if isinstance(found, tuple) else (found.values(), found.offsets())
    if values.dim() != 1 or values.is_floating_point():
        raise Error(
            f"the ids of feature {name!r} have shape {tuple(values.shape)} and type {values.dtype}",
            "PX0303",
            help="give a tensor of integers with one axis, and offsets",
        )
    if offsets is None:
        return FeatureBags(values, None)
    if len(offsets) == 0 or int(offsets[0]) != 0 or int(offsets[-1]) != len(values) or bool((offsets.diff() < 0).any()):
        raise Error(
            f"the offsets of feature {name!r} do not divide its {len(values)} ids",
            "PX0303",
            help="offsets begin with 0, never fall, and end with the number of ids",
        )
    return FeatureBags(values, offsets)
