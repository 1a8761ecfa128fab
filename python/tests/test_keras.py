"""phalanx.keras: fit under a strategy, History and callbacks."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx
from phalanx import distribute, keras
from phalanx.data import Dataset

X = np.linspace(0, 1, 128, dtype=np.float32).reshape(-1, 1)
Y = 3 * X[:, 0] + 1


def line(strategy="default", **settings):
    model = keras.Sequential([keras.Input(shape=(1,)), keras.layers.Dense(1)], seed=1)
    model.compile(phalanx.SGD(0.3), loss="mse", metrics=["mae"], strategy=strategy, **settings)
    return model


@pytest.mark.parametrize("strategy", ["default", "mirrored:2", "central_storage:2"])
def test_a_line_is_fitted_under_a_strategy(strategy):
    model = line(strategy)
    history = model.fit(X, Y, epochs=20, verbose=0, validation_split=0.25, shuffle=False)
    assert history.epoch == list(range(20))
    assert set(history.history) == {"loss", "mae", "val_loss", "val_mae"}
    assert history.history["loss"][-1] < history.history["loss"][0] / 10
    found = model.evaluate(X, Y, verbose=0)
    assert found["mae"] < 0.5
    assert model.predict(X).shape == (128, 1)
    assert "Total params: 2" in model.summary()


def test_classes_from_a_dataset_with_several_layers():
    numbers = np.random.default_rng(0)
    x = numbers.random((600, 2)).astype(np.float32)
    y = (x[:, 0] > x[:, 1]).astype(int)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Dense(16, activation="relu", input_shape=(2,)),
            layers.BatchNormalization(),
            layers.Dropout(0.1),
            layers.Dense(2, activation="softmax"),
        ]
    )
    model.compile("adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    data = Dataset.from_tensor_slices(({"x": x}, y)).shuffle(600).batch(50)
    history = model.fit(data, epochs=8, verbose=0)
    assert history.history["accuracy"][-1] > 0.8


def test_callbacks_stop_watch_and_set_the_learning_rate(tmp_path):
    seen = []

    class Watch(keras.Callback):
        def on_epoch_begin(self, epoch):
            seen.append((epoch, round(self.learning_rate, 4)))

        def on_epoch_end(self, epoch, logs):
            self.model.stop_training = epoch == 3

    callbacks = [
        keras.LearningRateScheduler(lambda epoch, rate: 0.1 / (epoch + 1)),
        Watch(),
        keras.ModelCheckpoint(tmp_path / "weights.safetensors"),
    ]
    model = line()
    history = model.fit(X, Y, epochs=10, verbose=0, callbacks=callbacks)
    assert history.epoch == [0, 1, 2, 3]
    assert seen == [(0, 0.1), (1, 0.05), (2, 0.0333), (3, 0.025)]
    again = line()
    again.load_weights(tmp_path / "weights.safetensors")
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-5)
    stopped = line().fit(X, Y, epochs=50, verbose=0, callbacks=[keras.EarlyStopping("loss", min_delta=1.0, patience=2)])
    assert len(stopped.epoch) < 50


def test_mistakes_are_errors():
    with pytest.raises(phalanx.Error, match="not compiled"):
        keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]).fit(X, Y)
    with pytest.raises(phalanx.Error, match="no input"):
        keras.Sequential([keras.layers.Dense(1)]).compile()
    with pytest.raises(phalanx.Error, match="mirored"):
        line("mirored:2")

    class Reads(keras.Callback):
        def on_epoch_end(self, epoch, logs):
            self.model.predict(X)

    with pytest.raises(phalanx.Error, match="in use"):
        line().fit(X, Y, verbose=0, callbacks=[Reads()])


ROLE = """
import sys
import numpy as np
import phalanx
from phalanx import distribute, keras
from phalanx.data import Dataset
x = np.linspace(0, 1, 512, dtype=np.float32).reshape(-1, 1)
model = keras.Sequential([keras.Input(shape=(1,)), keras.layers.Dense(1)])
model.compile(phalanx.SGD(0.1), loss="mse", metrics=["mae"], strategy=sys.argv[1])
data = Dataset.from_tensor_slices((x, 3 * x[:, 0] + 1)).repeat().batch(64)
history = model.fit(data, epochs=3, steps_per_epoch=50, verbose=0)
print("mae", round(history.history["mae"][-1], 6))
"""


@pytest.mark.parametrize(("ps", "strategy", "tasks"), [("0", "multi_worker_mirrored", 2), ("1", "auto", 3)])
def test_every_task_of_a_job_fits_the_same_model(run, ps, strategy, tasks):
    launch = ["launch", "--ps", ps, "--workers", "1", "--no-dashboard", "--progress", "none", "--run-dir", "logs"]
    run("-m", "phalanx", *launch, "--", "python", run.script("fit.py", ROLE), strategy)
    texts = [path.read_text() for path in (run.directory / "logs/logs").glob("*.log")]
    found = [line.split()[-1] for text in texts for line in text.splitlines() if " mae " in line]
    assert len(found) == tasks
    assert len(set(found)) == 1
    assert float(found[0]) < 0.1


def test_a_functional_model_of_named_inputs_shares_layers():
    rng = np.random.default_rng(0)
    user, item = rng.normal(size=(400, 3)).astype("float32"), rng.normal(size=(400, 3)).astype("float32")
    strategy = distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    assert strategy.num_replicas_in_sync == 2
    with strategy.scope():
        one, other = keras.Input((3,), name="user"), keras.Input((3,), name="item")
        tower = keras.layers.Dense(3, name="tower")
        model = keras.Model([one, other], keras.layers.Dot(1)([tower(one), tower(other)]))
    model.compile(phalanx.Adam(0.05), "mse")
    assert "Total params: 12" in model.summary()
    columns = {"user": user, "item": item}
    history = model.fit(columns, (user * item).sum(1), epochs=30, batch_size=40, verbose=0)
    assert history.history["loss"][-1] < 0.1
    assert model.predict(columns).shape == (400, 1)


def test_a_functional_model_that_does_not_fit_together_names_the_layer():
    one, other = keras.Input((3,)), keras.Input((2,))
    model = keras.Model([one, other], keras.layers.Add(name="sum")([one, other]))
    with pytest.raises(phalanx.Error, match="sum"):
        model.compile("sgd", "mse")
    hidden = keras.layers.Dense(1)(keras.Input((2,)))
    with pytest.raises(phalanx.Error):
        keras.Model(keras.Input((2,)), hidden).compile("sgd", "mse")
