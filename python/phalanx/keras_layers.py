"""The layers of `phalanx.keras`, with Keras' names and defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

__all__ = [
    "Activation",
    "Add",
    "Average",
    "AveragePooling2D",
    "BatchNormalization",
    "Concatenate",
    "Conv2D",
    "Dense",
    "Dot",
    "Dropout",
    "Embedding",
    "Flatten",
    "GlobalAveragePooling2D",
    "Input",
    "Layer",
    "LayerNormalization",
    "MaxPooling2D",
    "Maximum",
    "Minimum",
    "Multiply",
    "Reshape",
    "Subtract",
    "Symbol",
]

Shape: TypeAlias = Sequence[int] | None
Pair: TypeAlias = int | tuple[int, int]
Padding: TypeAlias = Literal["valid", "same"]


class Symbol:
    """A value of a functional model: an input, or what a layer makes of other values."""

    def __init__(self, layer: Layer | None, inputs: Sequence[Symbol] = ()) -> None:
        self.layer = layer
        """The layer; `None` for an input."""
        self.inputs = tuple(inputs)
        """The values that the layer takes."""


class Input(Symbol):
    """The shape of a row of the model's input. A name is that of its column of the data."""

    def __init__(self, shape: Sequence[int], name: str | None = None) -> None:
        super().__init__(None)
        self.shape = tuple(shape)
        self.name = name


class Layer:
    """A layer. Use one of its subclasses."""

    def __init__(
        self,
        *sizes: int,
        rate: float = 0.0,
        activation: str | None = None,
        padding: Padding = "valid",
        input_shape: Shape = None,
        name: str | None = None,
    ) -> None:
        self.input_shape = None if input_shape is None else tuple(input_shape)
        self._settings: dict[str, Any] = {
            "kind": type(self).__name__,
            "name": name,
            "sizes": list(sizes),
            "rate": rate,
            "activation": activation or "linear",
            "same": padding == "same",
        }

    def __call__(self, inputs: Symbol | Sequence[Symbol]) -> Symbol:
        """Return what the layer makes of values of a functional model. All calls of a layer share its weights."""
        return Symbol(self, [inputs] if isinstance(inputs, Symbol) else inputs)

    def described(self) -> dict[str, Any]:
        """Return the layer as Rust takes it."""
        return self._settings


class Dense(Layer):
    """`activation(x · kernel + bias)`."""

    def __init__(self, units: int, activation: str | None = None, *, input_shape: Shape = None, name: str | None = None) -> None:
        super().__init__(units, activation=activation, input_shape=input_shape, name=name)


class Activation(Layer):
    """An activation by its name."""

    def __init__(self, activation: str, *, name: str | None = None) -> None:
        super().__init__(activation=activation, name=name)


class Dropout(Layer):
    """Sets a share of its input to 0 while training."""

    def __init__(self, rate: float, *, name: str | None = None) -> None:
        super().__init__(rate=rate, name=name)


class Embedding(Layer):
    """Rows of a table by id; with parameter servers, of a table on the servers."""

    def __init__(self, input_dim: int, output_dim: int, *, input_shape: Shape = None, name: str | None = None) -> None:
        super().__init__(input_dim, output_dim, input_shape=input_shape, name=name)


class Flatten(Layer):
    """All values of a row in one axis."""

    def __init__(self, *, input_shape: Shape = None, name: str | None = None) -> None:
        super().__init__(input_shape=input_shape, name=name)


class Reshape(Layer):
    """The values of a row in another shape; one size may be -1."""

    def __init__(self, target_shape: Sequence[int], *, name: str | None = None) -> None:
        super().__init__(*target_shape, name=name)


class BatchNormalization(Layer):
    """Normalizes over the batch."""

    def __init__(self, *, momentum: float = 0.99, name: str | None = None) -> None:
        super().__init__(rate=momentum, name=name)


class LayerNormalization(Layer):
    """Normalizes every row."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)


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
        name: str | None = None,
    ) -> None:
        sizes = (filters, *_pair(kernel_size), *_pair(strides))
        super().__init__(*sizes, activation=activation, padding=padding, input_shape=input_shape, name=name)


class MaxPooling2D(Layer):
    """The largest value of every window."""

    def __init__(
        self, pool_size: Pair = (2, 2), strides: Pair | None = None, padding: Padding = "valid", *, name: str | None = None
    ) -> None:
        sizes = (*_pair(pool_size), *_pair(pool_size if strides is None else strides))
        super().__init__(*sizes, padding=padding, name=name)


class AveragePooling2D(Layer):
    """The mean of every window."""

    def __init__(
        self, pool_size: Pair = (2, 2), strides: Pair | None = None, padding: Padding = "valid", *, name: str | None = None
    ) -> None:
        sizes = (*_pair(pool_size), *_pair(pool_size if strides is None else strides))
        super().__init__(*sizes, padding=padding, name=name)


class GlobalAveragePooling2D(Layer):
    """The mean of every channel."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)


class Add(Layer):
    """The sum of its inputs."""


class Subtract(Layer):
    """The first input less the second."""


class Multiply(Layer):
    """The product of its inputs."""


class Average(Layer):
    """The mean of its inputs."""


class Maximum(Layer):
    """The largest of its inputs."""


class Minimum(Layer):
    """The smallest of its inputs."""


class Concatenate(Layer):
    """Its inputs beside each other."""


class Dot(Layer):
    """The products of its two inputs, summed along an axis of each."""

    def __init__(self, axes: Pair, *, name: str | None = None) -> None:
        super().__init__(*_pair(axes), name=name)


def _pair(size: Pair) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size
