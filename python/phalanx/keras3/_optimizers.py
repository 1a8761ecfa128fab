"""The optimizers of Keras 3, as the parameter servers apply them."""

from __future__ import annotations

from typing import Any

from phalanx import _phalanx
from phalanx._errors import Error
from phalanx.keras3._backend import keras

_SETTINGS = {
    "SGD": ("momentum", "nesterov"),
    "Adagrad": ("initial_accumulator_value", "epsilon"),
    "Adam": ("beta_1", "beta_2", "epsilon", "amsgrad"),
    "AdamW": ("weight_decay", "beta_1", "beta_2", "epsilon"),
    "RMSprop": ("rho", "momentum", "epsilon", "centered"),
    "Ftrl": ("learning_rate_power", "initial_accumulator_value"),
}
_CLIPS = ("clipvalue", "clipnorm", "global_clipnorm")
_UNUSED = {
    "name",
    "learning_rate",
    "loss_scale_factor",
    "ema_momentum",
    "ema_overwrite_frequency",
    "is_legacy_optimizer",
    "jit_compile",
}


def on_servers(optimizer: Any) -> _phalanx.Optimizer:
    """Return the counterpart of an optimizer, with its settings and its learning rate."""
    kind, config = type(optimizer).__name__, optimizer.get_config()
    if kind not in _SETTINGS:
        raise _cannot(f"Keras' optimizer {kind}", f"use one of {', '.join(_SETTINGS)}")
    given = {name: config.pop(name) for name in _SETTINGS[kind]}
    if kind == "Ftrl":
        given["l1"] = config.pop("l1_regularization_strength")
        given["l2"] = config.pop("l2_regularization_strength")
    clips = {name: config.pop(name, None) for name in _CLIPS}
    for name, value in config.items():
        if name not in _UNUSED and value:
            raise _cannot(f"{name}={value!r} of {kind}", "leave it out")
    rate = float(keras.ops.convert_to_numpy(optimizer.learning_rate))
    return getattr(_phalanx, kind)(rate, **given).clipped(**clips)


def _cannot(what: str, then: str) -> Error:
    return Error(f"parameter servers do not apply {what}", "PX0309", help=then)
