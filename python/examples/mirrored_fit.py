"""A Keras model fitted by two replicas of this process.

    python mirrored_fit.py
    python -m phalanx launch --ps 0 --workers 0 -- python mirrored_fit.py

Nothing but the import line differs from a script of TensorFlow.
"""

import numpy as np

from phalanx.compat import tf

mirrored_strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])

with mirrored_strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])

model.compile(loss="mse", optimizer="sgd")

# Compute global batch size using number of replicas.
BATCH_SIZE_PER_REPLICA = 5
global_batch_size = BATCH_SIZE_PER_REPLICA * mirrored_strategy.num_replicas_in_sync

dataset = tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat(100).batch(global_batch_size)
model.fit(dataset, epochs=2)
print(model.evaluate(dataset))

inputs, targets = np.ones((100, 1)), np.ones((100, 1))
history = model.fit(inputs, targets, epochs=2, batch_size=10)
print(history.history["loss"])
