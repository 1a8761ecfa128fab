"""The Rust half. `tests/test_stubs.py` compares this file with the module."""

from typing import final

__version__: str

@final
class Buffer:
    """Numbers made by Phalanx; `numpy.frombuffer` and `torch.frombuffer` use their memory without a copy."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
