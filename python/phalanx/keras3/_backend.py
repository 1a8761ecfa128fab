"""Keras, which has no types."""

from __future__ import annotations

import importlib
import os
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

keras: Any = importlib.import_module("keras")
