"""Phalanx: parameter servers, Estimator and tf.distribute for Python without TensorFlow.

`phalanx.torch` trains PyTorch modules on parameter servers. Importing `phalanx` imports neither torch nor numpy.
"""

from __future__ import annotations

from phalanx._errors import Error
from phalanx._phalanx import __version__

__all__ = ["Error", "__version__"]
