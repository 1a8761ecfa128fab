"""A deep classifier with an embedding of hashed texts, as any task of a job.

    python -m phalanx launch --ps 2 --workers 2 --evaluator -- python dnn_classifier.py

Nothing but the import line differs from a script of TensorFlow.
"""

import argparse

import numpy as np

from phalanx.compat import tf

parser = argparse.ArgumentParser()
parser.add_argument("--model_dir", default=None)
parser.add_argument("--steps", type=int, default=150)
FLAGS = parser.parse_args()

CITIES = ["oslo", "rome", "lima", "bern", "kyiv", "doha", "male", "suva"]
WARM = {"lima", "doha", "male", "suva"}

categorial_feature_a = tf.feature_column.categorical_column_with_hash_bucket("city", hash_bucket_size=100)
categorial_feature_a_emb = tf.feature_column.embedding_column(categorical_column=categorial_feature_a, dimension=8)

estimator = tf.estimator.DNNClassifier(
    config=tf.estimator.RunConfig(model_dir=FLAGS.model_dir, save_summary_steps=50),
    feature_columns=[categorial_feature_a_emb, tf.feature_column.numeric_column("month")],
    hidden_units=[1024, 512, 256],
    optimizer=tf.keras.optimizers.Adagrad(0.05),
)


def people(rows, seed):
    """Return where people are in which month, and whether they wear a coat."""
    numbers = np.random.default_rng(seed)
    city, month = numbers.choice(CITIES, rows), numbers.integers(1, 13, rows)
    winter = (month < 3) | (month > 10)
    return {"city": city, "month": month / 12.0}, (~np.isin(city, list(WARM)) & winter).astype(int)


def train_input_fn():
    return tf.data.Dataset.from_tensor_slices(people(4000, 1)).shuffle(4000).repeat().batch(128)


def eval_input_fn():
    return tf.data.Dataset.from_tensor_slices(people(1000, 2)).batch(500)


train_spec = tf.estimator.TrainSpec(input_fn=train_input_fn, max_steps=FLAGS.steps)
eval_spec = tf.estimator.EvalSpec(input_fn=eval_input_fn, steps=None, start_delay_secs=0, throttle_secs=1)

print(tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec))
