"""The layers of `phalanx.keras`, with Keras' names and defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

__all__ = [
    "Activation",
    "AveragePooling2D",
    "BatchNormalization",
    "Conv2D",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GlobalAveragePooling2D",
    "Input",
    "Layer",
    "LayerNormalization",
    "MaxPooling2D",
    "Reshape",
]

Shape: TypeAlias = Sequence[int] | None
Pair: TypeAlias = int | tuple[int, int]
Padding: TypeAlias = Literal["valid", "same"]


class Input:
    """The shape of a row of the model's input."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)


class Layer:
    """A layer. Use one of its subclasses."""

    def __init__(
        self,
        *sizes: int,
        rate: float = 0.0,
        activation: str | None = None,
        padding: Padding = "valid",
        input_shape: Shape = None,
    ) -> None:
        self.input_shape = None if input_shape is None else tuple(input_shape)
        self._settings: dict[str, Any] = {
            "kind": type(self).__name__,
            "sizes": list(sizes),
            "rate": rate,
            "activation": activation or "linear",
            "same": padding == "same",
        }

    def described(self) -> dict[str, Any]:
        """Return the layer as Rust takes it."""
        return self._settings


class Dense(Layer):
    """`activation(x · kernel + bias)`."""

    def __init__(self, units: int, activation: str | None = None, *, input_shape: Shape = None) -> None:
        super().__init__(units, activation=activation, input_shape=input_shape)


class Activation(Layer):
    """An activation by its name."""

    def __init__(self, activation: str) -> None:
        super().__init__(activation=activation)


class Dropout(Layer):
    """Sets a share of its input to 0 while training."""

    def __init__(self, rate: float) -> None:
        super().__init__(rate=rate)


class Embedding(Layer):
    """Rows of a table by id; with parameter servers, of a table on the servers."""

    def __init__(self, input_dim: int, output_dim: int, *, input_shape: Shape = None) -> None:
        super().__init__(input_dim, output_dim, input_shape=input_shape)


class Flatten(Layer):
    """All values of a row in one axis."""

    def __init__(self, *, input_shape: Shape = None) -> None:
        super().__init__(input_shape=input_shape)


class Reshape(Layer):
    """The values of a row in another shape; one size may be -1."""

    def __init__(self, target_shape: Sequence[int]) -> None:
        super().__init__(*target_shape)


class BatchNormalization(Layer):
    """Normalizes over the batch."""

    def __init__(self, *, momentum: float = 0.99) -> None:
        super().__init__(rate=momentum)


class LayerNormalization(Layer):
    """Normalizes every row."""

    def __init__(self) -> None:
        super().__init__()


class Conv2D(Layer):
    """A convolution over images `[height, width, channels]`."""

    def __init__(
        self,
        filters: int,
        kernel_size: Pair,
        strides: Pair = (1, 1),
        padding: Padding = "valid",
        activation: str | None = None,
        *,
        input_shape: Shape = None,
    ) -> None:
        sizes = (filters, *_pair(kernel_size), *_pair(strides))
        super().__init__(*sizes, activation=activation, padding=padding, input_shape=input_shape)


class MaxPooling2D(Layer):
    """The largest value of every window."""

    def __init__(self, pool_size: Pair = (2, 2), strides: Pair | None = None, padding: Padding = "valid") -> None:
        super().__init__(*_pair(pool_size), *_pair(pool_size if strides is None else strides), padding=padding)


class AveragePooling2D(Layer):
    """The mean of every window."""

    def __init__(self, pool_size: Pair = (2, 2), strides: Pair | None = None, padding: Padding = "valid") -> None:
        super().__init__(*_pair(pool_size), *_pair(pool_size if strides is None else strides), padding=padding)


class GlobalAveragePooling2D(Layer):
    """The mean of every channel."""

    def __init__(self) -> None:
        super().__init__()


def _pair(size: Pair) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size
