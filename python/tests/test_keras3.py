"""Keras 3 on parameter servers: real Keras, real tasks."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from conftest import Run

import phalanx

pytest.importorskip("torch")
pytest.importorskip("keras")
from phalanx import data, keras3

import keras  # isort: skip

X = np.linspace(-1, 1, 128, dtype="float32").reshape(-1, 1)
Y = 3 * X + 1


def compiled(strategy: keras3.ParameterServerStrategy, optimizer: object = None, **settings: object) -> keras.Model:
    with strategy.scope():
        model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1, name="dense")])
    model.compile(optimizer=optimizer or keras.optimizers.SGD(0.1), loss="mse", metrics=["mae"], **settings)
    return model


def test_fit_is_that_of_keras() -> None:
    """One worker that reads the rows in their order computes what Keras alone does."""
    strategy = keras3.ParameterServerStrategy()
    model = compiled(strategy)
    alone = keras.models.clone_model(model)
    alone.set_weights(model.get_weights())
    alone.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse", metrics=["mae"])
    given = {"batch_size": 16, "epochs": 3, "shuffle": False, "verbose": 0, "validation_data": (X, Y)}
    ours, theirs = model.fit(X, Y, **given), alone.fit(X, Y, **given)
    assert set(ours.history) == set(theirs.history) == {"loss", "mae", "val_loss", "val_mae"}
    for name, values in theirs.history.items():
        assert ours.history[name] == pytest.approx(values, rel=1e-4), name
    for own, other in zip(model.get_weights(), alone.get_weights(), strict=True):
        assert np.allclose(own, other, atol=1e-5)
    assert model.evaluate(X, Y, verbose=0) == pytest.approx(alone.evaluate(X, Y, verbose=0), rel=1e-4)
    assert np.allclose(model.predict(X, verbose=0), alone.predict(X, verbose=0), atol=1e-4)
    strategy.close()


OPTIMIZERS = [
    keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
    keras.optimizers.SGD(0.05, clipnorm=0.5),
    keras.optimizers.Adagrad(0.1),
    keras.optimizers.Adam(0.02, amsgrad=True),
    keras.optimizers.AdamW(0.02, weight_decay=0.1),
    keras.optimizers.RMSprop(0.01, centered=True),
    keras.optimizers.Ftrl(0.1, l1_regularization_strength=0.01),
    keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.05, 5, 0.5)),
]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda one: type(one).__name__)
def test_the_servers_apply_keras_optimizers(optimizer: keras.optimizers.Optimizer) -> None:
    strategy = keras3.ParameterServerStrategy()
    model = compiled(strategy, type(optimizer).from_config(optimizer.get_config()))
    alone = keras.models.clone_model(model)
    alone.set_weights(model.get_weights())
    alone.compile(optimizer=type(optimizer).from_config(optimizer.get_config()), loss="mse")
    for one in (model, alone):
        one.fit(X, Y, batch_size=32, epochs=3, shuffle=False, verbose=0)
    for own, other in zip(model.get_weights(), alone.get_weights(), strict=True):
        assert np.allclose(own, other, atol=2e-4)
    strategy.close()


def test_states_of_layers_are_on_the_servers() -> None:
    strategy = keras3.ParameterServerStrategy()
    with strategy.scope():
        inputs = keras.layers.Input((2,))
        hidden = keras.layers.BatchNormalization(momentum=0.5)(inputs)
        model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dropout(0.2)(hidden)))
    model.compile(optimizer="adam", loss="mse")
    x = np.random.default_rng(0).normal(5, 2, (512, 2)).astype("float32")
    model.fit(x, x.sum(1), epochs=4, verbose=0)
    mean, variance = (one.numpy() for one in model.layers[1].non_trainable_variables)
    assert mean == pytest.approx([5, 5], abs=0.5)
    assert variance == pytest.approx([4, 4], abs=1)
    strategy.close()


def test_datasets_of_phalanx_and_callbacks() -> None:
    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
            self.model.stop_training = epoch == 1

    strategy = keras3.ParameterServerStrategy()
    model = compiled(strategy)
    batches = data.Dataset.from_tensor_slices((X, Y[:, 0])).shuffle(128).batch(32)
    rates = keras.callbacks.LearningRateScheduler(lambda epoch: 0.2 / (epoch + 1))
    history = model.fit(batches, epochs=9, steps_per_epoch=20, verbose=0, validation_data=batches, callbacks=[Stop(), rates])
    assert history.epoch == [0, 1]
    assert history.history["val_loss"][-1] < 0.05
    assert history.history["learning_rate"] == pytest.approx([0.2, 0.1])
    strategy.close()


def test_what_cannot_be_is_refused() -> None:
    class Own(keras.optimizers.SGD):
        pass

    for optimizer, told in ((Own(0.1), "optimizer Own"), (keras.optimizers.SGD(0.1, use_ema=True), "use_ema=True of SGD")):
        with pytest.raises(phalanx.Error, match=told):
            compiled(keras3.ParameterServerStrategy(), optimizer).fit(X, Y, verbose=0)
    model = compiled(keras3.ParameterServerStrategy())
    with pytest.raises(phalanx.Error, match="steps_per_epoch"):
        model.fit(iter([(X, Y)]), verbose=0)
    with pytest.raises(phalanx.Error, match="class_weight"):
        model.fit(X, Y, class_weight={0: 1.0})


def test_a_launched_job_has_one_history(run: Run) -> None:
    script = """
import numpy as np
from phalanx import keras3
import keras

strategy = keras3.ParameterServerStrategy()
with strategy.scope():
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
x = np.linspace(-1, 1, 256, dtype="float32").reshape(-1, 1)
history = model.fit(x, 3 * x + 1, epochs=5, verbose=0)
history = model.fit(x, 3 * x + 1, epochs=5, initial_epoch=3, verbose=0)
print("HISTORY", history.epoch, history.history["loss"], model.evaluate(x, 3 * x + 1, verbose=0), flush=True)
"""
    words = ("-m", "phalanx", "launch", "--no-dashboard", "--ps", "2", "--workers", "2", "--run-dir", "job", "--")
    out, err = run(*words, sys.executable, run.script("train.py", script))
    found = re.findall(r"HISTORY (.*)", out + err)
    assert len(found) == 5
    assert len(set(found)) == 1
    assert found[0].startswith("[3, 4] [")
    shown, _ = run("-m", "phalanx", "checkpoint", "show", "job")
    assert "dense/kernel" in shown
