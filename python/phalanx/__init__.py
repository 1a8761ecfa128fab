"""Phalanx: parameter servers, Estimator and tf.distribute for Python without TensorFlow.

`phalanx.torch` trains PyTorch modules on parameter servers. Importing `phalanx` imports neither torch nor numpy.
"""

from __future__ import annotations

from phalanx._errors import Error
from phalanx._job import connect, job
from phalanx._phalanx import (
    SGD,
    Adagrad,
    Adam,
    AdamW,
    ClusterSpec,
    Dashboard,
    Ftrl,
    MiniCluster,
    Momentum,
    Optimizer,
    RMSprop,
    Server,
    __version__,
)
from phalanx.jobs import train

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "ClusterSpec",
    "Dashboard",
    "Error",
    "Ftrl",
    "MiniCluster",
    "Momentum",
    "Optimizer",
    "RMSprop",
    "Server",
    "__version__",
    "connect",
    "job",
    "train",
]
