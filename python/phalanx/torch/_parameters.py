"""The variables of a model, between its tensors and the parameter servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from phalanx._errors import Error
from phalanx._phalanx import Buffer, Optimizer
from phalanx.torch._embedding import EmbeddingBagCollection, EmbeddingBagConfig

Numbers = npt.NDArray[np.float32]
Named = list[tuple[str, Tensor]]


@dataclass(frozen=True)
class Variable:
    """A variable as Rust takes it."""

    name: str
    shape: list[int]
    values: Numbers
    trained: bool


@dataclass(frozen=True)
class _Initializer:
    kind: str
    first: float
    second: float
    seed: int


@dataclass(frozen=True)
class Table:
    """A table as Rust takes it."""

    name: str
    dim: int
    initializer: _Initializer
    optimizer: Optimizer


@dataclass(frozen=True)
class Settings:
    """The settings of a supervisor as Rust takes them."""

    optimizer: Optimizer
    optimizers: dict[str, Optimizer]
    model_dir: str | None
    consistency: str
    overlap: bool
    skip_non_finite: bool
    save_model_secs: int | None
    save_model_steps: int | None


class Parameters:
    """What of a model is on the servers: tensors that gradients change, states that steps change, and tables."""

    def __init__(self, trained: Named, states: Named, collections: Sequence[EmbeddingBagCollection] = ()) -> None:
        self.trained, self.states, self.collections = trained, states, list(collections)
        self._before: list[Numbers] = []

    @classmethod
    def of(cls, model: nn.Module) -> Parameters:
        """Return those of a module: its parameters that need gradients, and its floating-point buffers."""
        trained: Named = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
        floats = [(name, one) for name, one in model.named_buffers() if one.is_floating_point() and one.numel() > 0]
        return cls(trained, floats, [one for one in model.modules() if isinstance(one, EmbeddingBagCollection)])

    def variables(self) -> list[Variable]:
        """Return the variables with their present values."""
        trained = [_variable(name, one, trained=True) for name, one in self.trained]
        return trained + [_variable(name, one, trained=False) for name, one in self.states]

    def configs(self) -> list[EmbeddingBagConfig]:
        """Return the tables in the order of their numbers."""
        return [table for one in self.collections for table in one.embedding_bag_configs()]

    def tables(self, optimizer: Optimizer) -> list[Table]:
        """Return the tables, whose rows are changed by this optimizer unless they have their own."""
        return [_table(config, optimizer) for config in self.configs()]

    def load(self, values: list[Buffer]) -> None:
        """Put values of the servers into the model."""
        self._before = []
        with torch.no_grad():
            for at, ((_, variable), new) in enumerate(zip(self.trained + self.states, values, strict=True)):
                view = memoryview(new)
                variable.copy_(torch.frombuffer(view, dtype=torch.float32).view(variable.shape))
                if at >= len(self.trained):
                    self._before.append(np.frombuffer(view, np.float32))

    def clear_gradients(self) -> None:
        """Forget the gradients of the step before."""
        for _, parameter in self.trained:
            parameter.grad = None

    def gradients(self) -> list[Numbers | None]:
        """Return the gradients of the tensors, and how much the states have changed since `load`."""
        gradients = [numbers_of(one.grad) for _, one in self.trained]
        # The servers apply gradients: those of a state are how much it has to fall.
        changes = [old - copied(one) for old, (_, one) in zip(self._before, self.states, strict=True)]
        return gradients + [change if change.any() else None for change in changes]


def scalar(loss: Tensor) -> float:
    """Return a loss as a number."""
    if loss.numel() != 1:
        raise Error(
            f"a loss has shape {tuple(loss.shape)}",
            "PX0303",
            cause="a step returns one number",
            help="reduce it, for example with .mean()",
        )
    return float(loss.detach())


def copied(tensor: Tensor) -> Numbers:
    """Return the numbers of a tensor."""
    return tensor.detach().cpu().numpy().reshape(-1).copy()


def numbers_of(gradient: Tensor | None) -> Numbers | None:
    """Return the numbers of a gradient, if there is one."""
    if gradient is None:
        return None
    dense = gradient.to_dense() if gradient.is_sparse else gradient
    return np.ascontiguousarray(dense.detach().to("cpu", torch.float32).numpy()).reshape(-1)


def _variable(name: str, tensor: Tensor, *, trained: bool) -> Variable:
    if tensor.dtype != torch.float32:
        raise Error(
            f"{name!r} holds {tensor.dtype}",
            "PX0303",
            cause="variables on the servers are 32-bit floats",
            help="keep parameters as float32, and compute in other types with torch.autocast",
        )
    return Variable(name, list(tensor.shape), copied(tensor), trained)


def _table(config: EmbeddingBagConfig, optimizer: Optimizer) -> Table:
    low, high = config.first_values()
    first = _Initializer("uniform", low, high, config.seed()) if low < high else _Initializer("constant", low, 0.0, 0)
    return Table(config.name, config.embedding_dim, first, config.optimizer or optimizer)
