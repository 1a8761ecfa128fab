"""Directories of TensorFlow's Estimator: Phalanx continues from them, and TensorFlow continues from ours.

Every case trains 20 steps in TensorFlow, copies the directory, and trains 100 further steps on the same batches: there in
TensorFlow, here from the copy, in one process or on two servers. `phalanx checkpoint convert` then writes our result under
TensorFlow's names, so that every variable, slot and counter is compared. TensorFlow predicts and trains from that directory.

    PHALANX_BIN=target/debug/phalanx python -m pytest -q tests/tf/test_estimator_directories.py
"""

import json
import os
import shutil
import subprocess

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="needs tensorflow 2.15")

import numpy as np  # noqa: E402

tf.get_logger().setLevel("ERROR")
fc, est, v1 = tf.feature_column, tf.estimator, tf.compat.v1

ROWS, BATCH, BEFORE, FURTHER = 64, 16, 20, 100
RATES = {"sgd": 0.02, "momentum": 0.01, "adagrad": 0.05, "adam": 0.01, "ftrl": 0.05, "rmsprop": 0.005}
DRAW = np.random.default_rng(17)
X = np.round(DRAW.normal(size=ROWS), 4).astype(np.float32)
AGE = DRAW.integers(10, 80, size=ROWS).astype(np.float32)
JOBS = np.array([f"job{n}" for n in DRAW.integers(0, 30, size=ROWS)])
LABELS = ((X + (AGE > 45) + DRAW.normal(scale=0.5, size=ROWS)) > 0.5).astype(np.int64)


def phalanx(*arguments, cwd, code=0, text="stdout"):
    binary = os.environ.get("PHALANX_BIN")
    if not binary:
        pytest.fail("set PHALANX_BIN to the phalanx binary")
    clean = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    command = [os.path.abspath(binary), *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (done.returncode, done.stdout[-2000:], done.stderr[-4000:])
    return done.stdout if code == 0 and text == "stdout" else done.stderr


# The same model in TensorFlow and as a job.


def numpy_input():
    features = {"x": X, "age": AGE, "job": JOBS}
    return tf.data.Dataset.from_tensor_slices((features, LABELS)).repeat().batch(BATCH)


def optimizer(style, name):
    rate = RATES[name]
    if style == "v2":
        legacy = tf.keras.optimizers.legacy
        make = {
            "sgd": lambda: legacy.SGD(rate),
            "momentum": lambda: legacy.SGD(rate, momentum=0.9),
            "adagrad": lambda: legacy.Adagrad(rate),
            "adam": lambda: legacy.Adam(rate),
            "ftrl": lambda: legacy.Ftrl(rate),
            "rmsprop": lambda: legacy.RMSprop(rate),
        }
    else:
        make = {
            "sgd": lambda: v1.train.GradientDescentOptimizer(rate),
            "momentum": lambda: v1.train.MomentumOptimizer(rate, 0.9),
            "adagrad": lambda: v1.train.AdagradOptimizer(rate),
            "adam": lambda: v1.train.AdamOptimizer(rate),
            "ftrl": lambda: v1.train.FtrlOptimizer(rate),
            "rmsprop": lambda: v1.train.RMSPropOptimizer(rate),
        }
    return make[name]


def estimator(style, kind, name, folder, parts=None, buckets=25):
    job = fc.categorical_column_with_hash_bucket("job", buckets)
    age = fc.bucketized_column(fc.numeric_column("age"), [20, 35, 50])
    cross = fc.crossed_column([age, "job"], 30)
    linear = [fc.numeric_column("x"), age, job, cross]
    deep = [fc.numeric_column("x"), fc.embedding_column(job, 4), fc.indicator_column(cross)]
    config = est.RunConfig(model_dir=str(folder), tf_random_seed=3, save_checkpoints_steps=10_000, log_step_count_steps=None)
    module = v1.estimator if style == "v1" else est
    settings = {"config": config}
    if style == "v1":
        settings["loss_reduction"] = v1.losses.Reduction.SUM_OVER_BATCH_SIZE
    make = optimizer(style, name)
    split = v1.fixed_size_partitioner(parts) if parts else None
    if kind == "dnn":
        partitioner = {"input_layer_partitioner": split} if split else {}
        return module.DNNClassifier(hidden_units=[8, 4], feature_columns=deep, optimizer=make, **partitioner, **settings)
    if kind == "linear":
        partitioner = {"partitioner": split} if split else {}
        return module.LinearClassifier(feature_columns=linear, optimizer=make, **partitioner, **settings)
    return module.DNNLinearCombinedClassifier(
        linear_feature_columns=linear,
        dnn_feature_columns=deep,
        dnn_hidden_units=[8, 4],
        linear_optimizer=make,
        dnn_optimizer=make,
        **settings,
    )


MODELS = {
    "dnn": 'kind = "dnn_classifier"\ncolumns = {deep}\nhidden_units = [8, 4]\noptimizer = {optimizer}',
    "linear": 'kind = "linear_classifier"\ncolumns = {linear}\noptimizer = {optimizer}',
    "wide and deep": 'kind = "dnn_linear_combined_classifier"\nlinear_columns = {linear}\ndnn_columns = {deep}\n'
    "hidden_units = [8, 4]\nlinear_optimizer = {optimizer}\ndnn_optimizer = {optimizer}",
}


def write_job(folder, style, kind, name, buckets=25, top=""):
    """Writes the job and its data."""
    settings = {"name": f'"{name}"', "learning_rate": RATES[name]}
    if name == "adam":
        settings.update(lazy="false", epsilon="1e-8" if style == "v1" else "1e-7")
    if name == "momentum" and style == "v2":
        settings.update(name='"sgd"', momentum=0.9)
    if name == "rmsprop" and style == "v1":
        settings.update(epsilon="1e-10")
    parts = ", ".join(f"{key} = {value}" for key, value in settings.items())
    columns = {
        "linear": '["x", "age_group", "job", "age_x_job"]',
        "deep": '["x", "job_vector", "age_x_job_onehot"]',
        "optimizer": f"{{ {parts} }}",
    }
    (folder / "job.toml").write_text(f"""{top}
[data]
train = "rows.csv"
eval = "rows.csv"
label = "y"
[columns]
x = {{ kind = "numeric" }}
age_group = {{ kind = "bucketized", key = "age", boundaries = [20, 35, 50] }}
job = {{ kind = "hash_bucket", hash_bucket_size = {buckets} }}
age_x_job = {{ kind = "crossed", keys = [{{ column = "age_group" }}, "job"], hash_bucket_size = 30 }}
job_vector = {{ kind = "embedding", column = "job", dimension = 4 }}
age_x_job_onehot = {{ kind = "indicator", column = "age_x_job" }}
[model]
{MODELS[kind].format(**columns)}
[train]
max_steps = {BEFORE + FURTHER}
batch_size = {BATCH}
shuffle = 0
save_checkpoints_steps = 10000
[eval]
batch_size = {ROWS}
steps = "all"
start_delay_secs = 0
""")
    rows = "".join(f"{x},{int(age)},{job},{y}\n" for x, age, job, y in zip(X, AGE, JOBS, LABELS))
    (folder / "rows.csv").write_text("x,age,job,y\n" + rows)


def train_ours(folder, run, steps, servers):
    """Trains `run` until `steps`, in one process or with a chief and two servers, which see the same batches."""
    command = ["train", "job.toml", "--model-dir", run, "--max-steps", steps]
    if servers:
        binary = os.path.abspath(os.environ["PHALANX_BIN"])
        command = ["launch", "--ps", servers, "--workers", 0, "--run-dir", run, "--", binary, *command]
    return phalanx(*command, cwd=folder)


def tensors(folder):
    """Every number of the newest checkpoint; the parts of partitioned slots, which TensorFlow's reader refuses, are left out."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(folder)))
    found = {}
    for name in reader.get_variable_to_shape_map():
        try:
            found[name] = reader.get_tensor(name)
        except ValueError:
            continue
    return found


def close(ours, theirs):
    """Asserts that each of TensorFlow's tensors differs by 1e-5 at most, relative to numbers above 1."""
    far = {}
    for name, expected in theirs.items():
        if name.endswith("/RMSProp_1"):
            continue  # The last change, which an RMSProp without momentum never reads.
        found, expected = np.asarray(ours[name], np.float64), np.asarray(expected, np.float64)
        assert found.shape == expected.shape, (name, found.shape, expected.shape)
        difference = float(np.max(np.abs(found - expected) / np.maximum(1.0, np.abs(expected))))
        if not difference <= 1e-5:
            far[name] = difference
    assert not far


def logits(model):
    rows = lambda: tf.data.Dataset.from_tensor_slices({"x": X, "age": AGE, "job": JOBS}).batch(ROWS)  # noqa: E731
    return np.array([row["logits"][0] for row in model.predict(rows)])


def check(tmp_path, style, kind, name, servers=(0,), parts=None):
    theirs = estimator(style, kind, name, tmp_path / "theirs", parts)
    theirs.train(numpy_input, max_steps=BEFORE)
    for count in servers:
        shutil.copytree(tmp_path / "theirs", tmp_path / f"ours{count}")
    theirs.train(numpy_input, max_steps=BEFORE + FURTHER)
    expected = tensors(tmp_path / "theirs")

    write_job(tmp_path, style, kind, name)
    for count in servers:
        train_ours(tmp_path, f"ours{count}", BEFORE + FURTHER, count)
        phalanx("checkpoint", "convert", f"ours{count}", "--to", f"tf-{style}", "--out", f"back{count}", cwd=tmp_path)
        found = tensors(tmp_path / f"back{count}")
        assert int(found["global_step"]) == BEFORE + FURTHER
        close(found, expected)

    back = estimator(style, kind, name, tmp_path / "back0")
    lines = phalanx("predict", "ours0", "--input", "rows.csv", "--json", cwd=tmp_path).splitlines()
    found = np.array([json.loads(line)["logits"][0] for line in lines])
    assert np.max(np.abs(found - logits(back))) <= 1e-5
    back.train(numpy_input, max_steps=BEFORE + FURTHER + 10)
    theirs.train(numpy_input, max_steps=BEFORE + FURTHER + 10)
    close(tensors(tmp_path / "back0"), tensors(tmp_path / "theirs"))


@pytest.mark.parametrize("name", ["adagrad", "adam", "ftrl", "sgd"])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("style", ["v1", "v2"])
def test_training_continues_in_both_directions_in_one_process_and_on_two_servers(style, kind, name, tmp_path):
    # Two servers read a checkpoint as one does, whatever its names: once for each model and optimizer, and for v1's powers.
    check(tmp_path, style, kind, name, servers=(0, 2) if style == "v2" or name == "adam" else (0,))


@pytest.mark.parametrize("style, name", [("v1", "momentum"), ("v2", "momentum"), ("v1", "rmsprop")])
def test_other_optimizers_continue_too(style, name, tmp_path):
    check(tmp_path, style, "dnn", name)


@pytest.mark.parametrize("kind, name", [("dnn", "adam"), ("linear", "ftrl")])
def test_partitioned_variables_and_their_slots_are_read(kind, name, tmp_path):
    """Each part's slot is a tensor of its own, of the shape of the whole."""
    theirs = estimator("v1", kind, name, tmp_path / "theirs", parts=3)
    theirs.train(numpy_input, max_steps=BEFORE)
    shutil.copytree(tmp_path / "theirs", tmp_path / "ours")
    theirs.train(numpy_input, max_steps=BEFORE + FURTHER)
    write_job(tmp_path, "v1", kind, name)
    train_ours(tmp_path, "ours", BEFORE + FURTHER, 0)
    phalanx("checkpoint", "convert", "ours", "--to", "tf-v1", "--out", "back", cwd=tmp_path)
    expected = {name: value for name, value in tensors(tmp_path / "theirs").items() if "/t_" not in name and "/part_" not in name}
    assert any("embedding_weights" in name or "job/weights" in name for name in expected)
    close(tensors(tmp_path / "back"), expected)


def test_a_fork_takes_the_slots_and_the_step_of_tensorflow(tmp_path):
    estimator("v2", "dnn", "adagrad", tmp_path / "theirs").train(numpy_input, max_steps=BEFORE)
    write_job(tmp_path, "v2", "dnn", "adagrad", top='resume = "./theirs"')
    train_ours(tmp_path, "ours", BEFORE + FURTHER, 0)
    estimator("v2", "dnn", "adagrad", tmp_path / "theirs").train(numpy_input, max_steps=BEFORE + FURTHER)
    phalanx("checkpoint", "convert", "ours", "--to", "tf-v2", "--out", "back", cwd=tmp_path)
    close(tensors(tmp_path / "back"), tensors(tmp_path / "theirs"))


def test_a_directory_of_another_model_is_refused_and_untouched(tmp_path):
    estimator("v2", "dnn", "adagrad", tmp_path / "theirs", buckets=26).train(numpy_input, max_steps=2)
    before = sorted(os.listdir(tmp_path / "theirs"))
    write_job(tmp_path, "v2", "dnn", "adagrad")
    text = phalanx("train", "job.toml", "--model-dir", "theirs", cwd=tmp_path, code=1)
    assert "PX0513" in text and "26 rows, not 25" in text, text
    write_job(tmp_path, "v2", "dnn", "adagrad", top='resume = "./theirs"')
    text = phalanx("train", "job.toml", "--model-dir", "fork", cwd=tmp_path, code=1)
    assert "PX0513" in text and not (tmp_path / "fork").exists(), text
    write_job(tmp_path, "v2", "dnn", "ftrl", buckets=26, top='resume = "./theirs"')
    text = phalanx("train", "job.toml", "--model-dir", "fork", cwd=tmp_path, code=1)
    assert "PX0513" in text and not (tmp_path / "fork").exists(), text
    assert [name for name in before if name.startswith("model.ckpt")] == [
        name for name in sorted(os.listdir(tmp_path / "theirs")) if name.startswith("model.ckpt")
    ]


def test_a_learning_rate_that_differs_from_the_recorded_one_is_logged(tmp_path):
    """TensorFlow itself continues with the rate of the checkpoint, whatever its program says."""
    estimator("v2", "dnn", "adagrad", tmp_path / "ours").train(numpy_input, max_steps=2)
    write_job(tmp_path, "v2", "dnn", "adagrad")
    text = (tmp_path / "job.toml").read_text()
    (tmp_path / "job.toml").write_text(text.replace("learning_rate = 0.05", "learning_rate = 0.1"))
    done = phalanx("train", "job.toml", "--model-dir", "ours", "--max-steps", 3, cwd=tmp_path, text="stderr")
    assert "a learning rate of 0.1" in done and "was trained with 0.05" in done, done
