"""Values that travel between the tasks of a job, as bytes: no code, and nothing that a reader executes.

>>> import numpy as np
>>> decode(encode({"rate": 0.5, "rows": (1, np.arange(3))}))
{'rate': 0.5, 'rows': (1, array([0, 1, 2]))}
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from phalanx._errors import Error

_LENGTH = struct.Struct("<Q")
_KINDS = "biufcSUM"
"""The kinds of arrays that are numbers or texts of a fixed size."""


def encode(value: object, special: Callable[[object], list[Any] | None] = lambda _: None) -> bytes:
    """Return the bytes of a value: `None`, numbers, texts, bytes, lists, tuples, dicts, arrays and tensors.

    `special` may return a description of other objects, which `decode` gives to its own `special`.
    """
    writer = _Writer(special)
    tree = json.dumps(writer.described(value, "value")).encode()
    lengths = [_LENGTH.pack(len(part)) for part in writer.parts]
    return b"".join([_LENGTH.pack(len(tree)), _LENGTH.pack(len(lengths)), *lengths, tree, *writer.parts])


def decode(data: bytes, special: Callable[[list[Any]], object] | None = None) -> Any:
    """Return the value that `encode` was given; arrays and tensors are writable."""
    try:
        tree, parts = _split(data)
        return _Reader(parts, special).value(tree)
    except (ValueError, KeyError, IndexError, TypeError, struct.error) as error:
        raise Error("a value from another task is malformed", "PX0306", cause=str(error)) from error


def _split(data: bytes) -> tuple[Any, list[bytes]]:
    (tree,), (count,) = _LENGTH.unpack_from(data, 0), _LENGTH.unpack_from(data, 8)
    start = 16 + 8 * count
    if start > len(data):
        raise ValueError(f"{count} parts do not fit into {len(data)} bytes")
    lengths = [_LENGTH.unpack_from(data, 16 + 8 * at)[0] for at in range(count)]
    if start + tree + sum(lengths) != len(data):
        raise ValueError(f"the parts take {start + tree + sum(lengths)} bytes, and there are {len(data)}")
    parts: list[bytes] = []
    at = start + tree
    for length in lengths:
        parts.append(data[at : at + length])
        at += length
    return json.loads(data[start : start + tree]), parts


@dataclass
class _Writer:
    special: Callable[[object], list[Any] | None]
    parts: list[bytes] = field(default_factory=list[bytes])

    def described(self, value: object, place: str) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if (described := self.special(value)) is not None:
            return ["special", described]
        if isinstance(value, (list, tuple)):
            items = cast("list[object]", value)
            kind = "list" if isinstance(value, list) else "tuple"
            return [kind, *(self.described(item, f"{place}[{at}]") for at, item in enumerate(items))]
        if isinstance(value, Mapping):
            pairs = cast("Mapping[object, object]", value).items()
            return ["dict", *([self.described(key, place), self.described(of, f"{place}[{key!r}]")] for key, of in pairs)]
        if isinstance(value, (bytes, bytearray, memoryview)):
            return ["bytes", self.part(bytes(cast("bytes", value)))]
        if isinstance(value, np.generic):
            return ["scalar", self.array(np.asarray(cast("Any", value)), place)]
        if isinstance(value, np.ndarray):
            return ["array", self.array(cast("np.ndarray[Any, Any]", value), place)]
        if (torch := sys.modules.get("torch")) is not None and isinstance(value, torch.Tensor):
            return self.tensor(torch, value, place)
        raise Error(
            f"{place} is a {type(value).__name__}",
            "PX0309",
            cause="numbers, texts, bytes, lists, tuples, dicts, arrays and tensors travel between tasks",
            help="send what the other side needs to make it, or make it in every task",
        )

    def part(self, data: bytes) -> int:
        self.parts.append(data)
        return len(self.parts) - 1

    def array(self, array: np.ndarray[Any, Any], place: str) -> list[Any]:
        if array.dtype.kind not in _KINDS:
            raise Error(f"{place} is an array of {array.dtype}", "PX0309", help="send numbers, or a list of texts")
        return [array.dtype.str, list(array.shape), self.part(np.ascontiguousarray(array).tobytes())]

    def tensor(self, torch: Any, tensor: Any, place: str) -> list[Any]:
        dense = tensor.detach().cpu().contiguous()
        name = str(dense.dtype).removeprefix("torch.")
        # NumPy has no bfloat16.
        numbers = dense.view(torch.int16).numpy() if name == "bfloat16" else dense.numpy()
        return ["tensor", name, self.array(numbers, place)]


@dataclass
class _Reader:
    parts: list[bytes]
    special: Callable[[list[Any]], object] | None

    def value(self, tree: Any) -> Any:
        if not isinstance(tree, list):
            return tree
        kind, *rest = cast("list[Any]", tree)
        match kind:
            case "list":
                return [self.value(item) for item in rest]
            case "tuple":
                return tuple(self.value(item) for item in rest)
            case "dict":
                return {self.value(key): self.value(of) for key, of in rest}
            case "bytes":
                return self.parts[int(rest[0])]
            case "scalar":
                return self.array(rest[0])[()]
            case "array":
                return self.array(rest[0])
            case "tensor":
                import torch

                tensor = torch.from_numpy(self.array(rest[1]))  # pyright: ignore[reportUnknownMemberType]
                return tensor.view(torch.bfloat16) if rest[0] == "bfloat16" else tensor
            case "special" if self.special is not None:
                return self.special(rest[0])
            case _:
                raise ValueError(f"there is no kind of value called {kind!r}")

    def array(self, described: list[Any]) -> np.ndarray[Any, Any]:
        name, shape, part = described
        dtype = np.dtype(name)
        if dtype.kind not in _KINDS:
            raise ValueError(f"an array of {dtype} does not travel")
        # Copied: what arrived is not writable.
        return np.frombuffer(self.parts[int(part)], dtype).reshape(shape).copy()
