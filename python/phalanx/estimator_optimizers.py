"""Optimizers of canned models: by name, as an object, or as a function that returns one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from phalanx._errors import Error
from phalanx._phalanx import SGD, Adagrad, Adam, AdamW, Ftrl, Momentum, Optimizer, RMSprop

OptimizerChoice: TypeAlias = str | Optimizer | Callable[[], Optimizer]
"""`"Adagrad"`, `phalanx.Adagrad(0.05)`, or a function without arguments."""


def optimizer(choice: OptimizerChoice | None, learning_rate: float | None = None) -> Optimizer | None:
    """Return the optimizer of a choice. A name has `learning_rate`, or Keras' default.

    >>> optimizer("Ftrl", 0.2).learning_rate
    0.20000000298023224
    """
    if choice is None or isinstance(choice, Optimizer):
        return choice
    if not isinstance(choice, str):
        return choice()
    rate = 0.001 if learning_rate is None else learning_rate
    made: dict[str, Callable[[], Optimizer]] = {
        "adagrad": lambda: Adagrad(rate),
        "adam": lambda: Adam(rate),
        "adamw": lambda: AdamW(rate),
        "ftrl": lambda: Ftrl(rate),
        "momentum": lambda: Momentum(0.01 if learning_rate is None else learning_rate, 0.9),
        "rmsprop": lambda: RMSprop(rate),
        "sgd": lambda: SGD(0.01 if learning_rate is None else learning_rate),
    }
    if choice.lower() not in made:
        raise Error(f"there is no optimizer {choice!r}", "PX0309", help=f"choose one of {', '.join(made)}")
    return made[choice.lower()]()
