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

from phalanx.torch._embedding import (
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    Features,
    KeyedTensor,
    PoolingType,
)
from phalanx.torch._supervisor import Session, Step, Supervisor

__all__ = [
    "EmbeddingBagCollection",
    "EmbeddingBagConfig",
    "Features",
    "KeyedTensor",
    "PoolingType",
    "Session",
    "Step",
    "Supervisor",
]
