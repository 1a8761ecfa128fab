"""Jobs of `phalanx train`: TensorFlow loads what they export and predicts what `phalanx predict` does."""

import csv
import json
import os
import random
import subprocess

import numpy as np
import pytest
import tensorflow as tf

BINARY = os.environ.get("PHALANX_BIN")

JOB = """
seed = 1
[data]
train = "train.csv"
eval = "test.csv"
label = "y"
[columns]
age = { kind = "numeric", normalizer = { subtract = 40.0, divide = 20.0 } }
age_group = { kind = "bucketized", key = "age", boundaries = [30, 45, 60] }
city = { kind = "vocabulary_file", vocabulary_file = "cities.txt", num_oov_buckets = 2 }
job = { kind = "hash_bucket", hash_bucket_size = 20 }
age_x_city = { kind = "crossed", keys = [{ column = "age_group" }, "city"], hash_bucket_size = 50 }
city_onehot = { kind = "indicator", column = "city" }
job_vector = { kind = "embedding", column = "job", dimension = 4 }
[model]
kind = "dnn_linear_combined_classifier"
linear_columns = ["age_group", "city", "job", "age_x_city"]
dnn_columns = ["age", "city_onehot", "job_vector"]
hidden_units = [8]
label_vocabulary = ["no", "yes"]
dnn_optimizer = { name = "adagrad", learning_rate = 0.1 }
[train]
max_steps = 50
batch_size = 32
[eval]
steps = "all"
start_delay_secs = 0
throttle_secs = 0
[[export]]
name = "examples"
[[export]]
name = "raw"
input = "raw"
"""


SCHEDULED = """
[data]
train = "train.csv"
eval = "train.csv"
label = "y"
[columns]
x = { kind = "numeric" }
[model]
kind = "dnn_linear_combined_regressor"
linear_columns = ["x"]
dnn_columns = ["x"]
hidden_units = [4]
linear_optimizer = { name = "sgd", learning_rate = { schedule = "polynomial", initial = 0.05, decay_steps = 20 } }
dnn_optimizer = { name = "adam", learning_rate = { schedule = "cosine", initial = 0.01, decay_steps = 30 } }
[train]
max_steps = 25
batch_size = 8
save_summary_steps = 1
"""


def test_the_rates_of_schedules_are_in_the_event_file(tmp_path):
    from tensorflow.keras.optimizers import schedules

    (tmp_path / "train.csv").write_text("x,y\n" + "".join(f"{i / 50},{i / 25 + 1}\n" for i in range(50)))
    (tmp_path / "job.toml").write_text(SCHEDULED)
    phalanx("train", "job.toml", "--model-dir", "run", "--max-steps", "10", cwd=tmp_path)
    # The second half continues where the first one was.
    phalanx("train", "job.toml", "--model-dir", "run", cwd=tmp_path)
    seen = {}
    for name in sorted(os.listdir(tmp_path / "run")):
        if "tfevents" in name:
            for event in tf.compat.v1.train.summary_iterator(str(tmp_path / "run" / name)):
                for value in event.summary.value:
                    if value.tag.startswith("learning_rate"):
                        number = tf.make_ndarray(value.tensor) if value.HasField("tensor") else value.simple_value
                        seen.setdefault(value.tag, {})[event.step] = float(number)
    made = {"cosine": schedules.CosineDecay(0.01, 30), "polynomial": schedules.PolynomialDecay(0.05, 20)}
    rates = [{step: float(schedule(step - 1)) for step in range(1, 26)} for schedule in made.values()]
    found = sorted(seen.values(), key=lambda rates: rates[1])
    assert len(found) == 2 and all(set(rates) == set(range(1, 26)) for rates in found)
    for ours, theirs in zip(found, rates):
        np.testing.assert_allclose([ours[step] for step in theirs], list(theirs.values()), rtol=1e-5)


def phalanx(*arguments, cwd):
    if not BINARY:
        pytest.fail("set PHALANX_BIN to the phalanx binary")
    environment = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    done = subprocess.run(
        [os.path.abspath(BINARY), *arguments], cwd=cwd, env=environment, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def export(folder, name):
    (found,) = (folder / "run" / "export" / name).iterdir()
    return str(found)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    draw = random.Random(5)
    for name, count in [("train.csv", 400), ("test.csv", 50)]:
        with open(folder / name, "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["age", "city", "job", "y"])
            for _ in range(count):
                age = draw.randint(18, 80)
                city = draw.choice(["berlin", "oslo", "rome", "lima"])
                rows.writerow([age, city, draw.choice(["cook", "clerk"]), "yes" if age > 45 else "no"])
    (folder / "cities.txt").write_text("berlin\noslo\nrome\n")
    (folder / "job.toml").write_text(JOB)
    found = json.loads(phalanx("train", "job.toml", "--model-dir", "run", "--json", cwd=folder))
    with open(folder / "test.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = phalanx("predict", "run", "--input", "test.csv", "--json", cwd=folder).splitlines()
    return folder, found, rows, [json.loads(line) for line in lines]


def same(theirs, ours):
    """Holds TensorFlow's answers against the objects that `phalanx predict` printed."""
    for key in ("logits", "logistic", "probabilities"):
        np.testing.assert_allclose(theirs[key].numpy(), [row[key] for row in ours], atol=1e-5, err_msg=key)
    assert theirs["class_ids"].numpy().tolist() == [row["class_ids"] for row in ours]
    assert [[word.decode() for word in row] for row in theirs["classes"].numpy()] == [row["classes"] for row in ours]


def test_tensorflow_predicts_from_examples_what_phalanx_predicts(trained):
    folder, _, rows, ours = trained
    model = tf.saved_model.load(export(folder, "examples"))
    text = lambda value: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
    number = lambda value: tf.train.Feature(float_list=tf.train.FloatList(value=[float(value)]))
    examples = [
        tf.train.Example(
            features=tf.train.Features(
                feature={"age": number(row["age"]), "city": text(row["city"]), "job": text(row["job"])}
            )
        ).SerializeToString()
        for row in rows
    ]
    signature = model.signatures["predict"]
    (name,) = signature.structured_input_signature[1]
    theirs = signature(**{name: tf.constant(examples)})
    same(theirs, ours)


def test_tensorflow_predicts_from_tensors_what_phalanx_predicts(trained):
    folder, _, rows, ours = trained
    signature = tf.saved_model.load(export(folder, "raw")).signatures["predict"]
    wanted = signature.structured_input_signature[1]
    given = {}
    for name, spec in wanted.items():
        values = [float(row[name]) if spec.dtype == tf.float32 else row[name] for row in rows]
        given[name] = tf.reshape(tf.constant(values, spec.dtype), [len(rows), 1])
    same(signature(**given), ours)


def test_phalanx_predicts_the_same_from_both_exports_and_counts_as_reported(trained):
    folder, found, rows, ours = trained
    for name in ("examples", "raw"):
        lines = phalanx("predict", export(folder, name), "--input", "test.csv", "--json", cwd=folder).splitlines()
        assert [json.loads(line) for line in lines] == ours
    correct = [row["classes"][0] == truth["y"] for row, truth in zip(ours, rows)]
    assert found["accuracy"] == pytest.approx(np.mean(correct), abs=1e-6)


def test_a_csv_file_of_predictions_has_the_numbers_of_tensorflow(trained):
    folder, found, rows, _ = trained
    phalanx("predict", "run", "--input", "test.csv", "--id", "city", "--output", "scores.csv", cwd=folder)
    with open(folder / "scores.csv", newline="") as file:
        ours = list(csv.DictReader(file))
    assert [row["city"] for row in ours] == [row["city"] for row in rows]
    signature = tf.saved_model.load(export(folder, "raw")).signatures["predict"]
    given = {
        "age": tf.constant([[float(row["age"])] for row in rows]),
        "city": tf.constant([[row["city"]] for row in rows]),
        "job": tf.constant([[row["job"]] for row in rows]),
    }
    theirs = signature(**{name: given[name] for name in signature.structured_input_signature[1]})
    values = [[float(row["probabilities_0"]), float(row["probabilities_1"])] for row in ours]
    np.testing.assert_allclose(theirs["probabilities"].numpy(), values, atol=1e-5)
    assert [word.decode() for (word,) in theirs["classes"].numpy()] == [row["classes"] for row in ours]
    # Before anything is permuted, the metric is that of the evaluation.
    explained = json.loads(phalanx("explain", "run", "--metric", "average_loss", "--json", cwd=folder))
    assert explained["before"] == pytest.approx(found["average_loss"], abs=1e-6)
    assert explained["columns"][0]["column"] == "age"
