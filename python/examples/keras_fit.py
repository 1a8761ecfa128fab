"""Keras 3 on parameter servers: `Model.fit` with callbacks and validation.

    python keras_fit.py
    python -m phalanx launch --ps 2 --workers 2 -- python keras_fit.py

Every task runs this script: the chief runs Keras' loop, workers compute its steps, and all have the same history.
"""

import numpy as np

from phalanx import keras3  # before keras: it chooses the backend

import keras  # isort: skip

strategy = keras3.ParameterServerStrategy(variable_partitioner=keras3.FixedShardsPartitioner(2))

with strategy.scope():
    model = keras.Sequential(
        [
            keras.layers.Input((2,)),
            keras.layers.Dense(32, activation="tanh"),
            keras.layers.Dense(32, activation="tanh"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )

model.compile(optimizer=keras.optimizers.Adam(0.01), loss="binary_crossentropy", metrics=["accuracy"])


def circle(rows, seed):
    """Return points, and whether they are in a circle."""
    points = np.random.default_rng(seed).uniform(-1, 1, (rows, 2)).astype("float32")
    return points, (np.hypot(points[:, 0], points[:, 1]) < 0.7).astype("float32")[:, None]


def dataset_fn(input_context):
    points, inside = circle(4000, input_context.input_pipeline_id)
    return [(points[at : at + 50], inside[at : at + 50]) for at in range(0, 4000, 50)]


class GoodEnough(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch}: " + ", ".join(f"{name} {value:.3f}" for name, value in logs.items()), flush=True)
        self.model.stop_training = logs["val_accuracy"] > 0.96


history = model.fit(
    keras3.DatasetCreator(dataset_fn),
    epochs=20,
    steps_per_epoch=100,
    validation_data=circle(1000, 99),
    callbacks=[GoodEnough()],
    verbose=0,
)
loss, accuracy = model.evaluate(*circle(1000, 100), verbose=0)
print(f"{len(history.epoch)} epochs, accuracy {accuracy:.3f}", flush=True)
