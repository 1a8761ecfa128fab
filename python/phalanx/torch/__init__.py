"""PyTorch on parameter servers: any `torch.nn.Module` trains with its parameters, and tables of any size, on the servers.

>>> import torch, phalanx, phalanx.torch as pxt
>>> model = torch.nn.Linear(1, 1)
>>> x = torch.linspace(-1, 1, 32).reshape(-1, 1)
>>> with pxt.Supervisor(phalanx.Server.local(), model, phalanx.SGD(0.5)).managed_session() as session:
...     session.stop_at(100)
...     while session.step(lambda: torch.nn.functional.mse_loss(model(x), 3 * x + 1)):
...         pass
>>> print(f"{model.weight.item():.2f} {model.bias.item():.2f}")
3.00 1.00
"""

from __future__ import annotations

from phalanx.torch._coordinator import ClusterCoordinator
from phalanx.torch._embedding import (
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    Features,
    KeyedTensor,
    PoolingType,
)
from phalanx.torch._mirrored import MirroredDataset, MirroredOptimizer, MirroredStrategy, PerReplica
from phalanx.torch._optimizer import PsOptimizer
from phalanx.torch._outcome import ShardedVariable, VariableShard
from phalanx.torch._remote import PerWorkerDataset, RemoteValue
from phalanx.torch._sidecar import SidecarEvaluator
from phalanx.torch._strategy import ParameterServerStrategy, compute_average_loss
from phalanx.torch._supervisor import Session, Step, Supervisor

__all__ = [
    "ClusterCoordinator",
    "EmbeddingBagCollection",
    "EmbeddingBagConfig",
    "Features",
    "KeyedTensor",
    "MirroredDataset",
    "MirroredOptimizer",
    "MirroredStrategy",
    "ParameterServerStrategy",
    "PerReplica",
    "PerWorkerDataset",
    "PoolingType",
    "PsOptimizer",
    "RemoteValue",
    "Session",
    "ShardedVariable",
    "SidecarEvaluator",
    "Step",
    "Supervisor",
    "VariableShard",
    "compute_average_loss",
]
