"""A TensorFlow program as users have it: its role comes from TF_CONFIG, and its parameter servers never end."""

import sys

import numpy as np
import tensorflow as tf

MODEL_DIR = sys.argv[1]
STEPS = int(sys.argv[2])


def numbers():
    random = np.random.RandomState(7)
    x = random.rand(4096, 2).astype(np.float32)
    y = (3 * x[:, 0] - 2 * x[:, 1] + 1).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y))


def main():
    config = tf.estimator.RunConfig(model_dir=MODEL_DIR, save_checkpoints_steps=50, save_summary_steps=10, log_step_count_steps=20)
    print(f"this is {config.task_type} {config.task_id}", flush=True)
    estimator = tf.compat.v1.estimator.LinearRegressor(
        [tf.feature_column.numeric_column("x", shape=(2,))], optimizer="Ftrl", config=config)
    train = tf.estimator.TrainSpec(lambda: numbers().shuffle(4096, seed=1).repeat().batch(32), max_steps=STEPS)
    evaluate = tf.estimator.EvalSpec(lambda: numbers().batch(256), start_delay_secs=0, throttle_secs=0)
    tf.estimator.train_and_evaluate(estimator, train, evaluate)
    print(f"{config.task_type} {config.task_id} is done", flush=True)


main()
