"""Jobs that prepare their data themselves: TensorFlow's graph and its Estimator get the same numbers."""

import csv
import json
import os
import pathlib
import random

import numpy as np
import pytest
import tensorflow as tf

import dirty_data
from test_jobs import export, phalanx

JOBS = pathlib.Path(__file__).parents[2] / "jobs"
SEEDS = range(1, 6)

JOB = """
seed = 1
[data]
train = "train.csv"
eval = "train.csv"
label = "y"
[columns]
log = { kind = "numeric", functions = [{ clip = [0, 1000] }, "log1p", "standardize"] }
root = { kind = "numeric", shape = [1], functions = ["sqrt"], normalizer = { subtract = 1.5, divide = 2.5 } }
group = { kind = "bucketized", key = "wide", quantiles = 10 }
scaled_group = { kind = "bucketized", column = "log", quantiles = 4 }
tags = { kind = "vocabulary_list", vocabulary_list = ["a", "b", "c"], num_oov_buckets = 2, split = "|" }
tags_hot = { kind = "indicator", column = "tags" }
words = { kind = "hash_bucket", hash_bucket_size = 30, split = ", " }
words_vector = { kind = "embedding", column = "words", dimension = 3 }
gap = { kind = "numeric", default_value = 3.5, missing_indicator = true, functions = ["log1p", "standardize"] }
gap_group = { kind = "bucketized", column = "gap", quantiles = 3 }
films = { kind = "identity", num_buckets = 9, split = "|" }
maybe_hour = { kind = "numeric", key = "maybe", part = "hour", default_value = 12, missing_indicator = true, normalizer = { divide = 24 } }
month_number = { kind = "numeric", key = "iso", part = "month", unit = "iso", normalizer = { divide = 12 } }
%s
[model]
kind = "dnn_linear_combined_classifier"
linear_columns = ["group", "scaled_group", "gap_group", "tags", "words", "films"%s]
dnn_columns = ["log", "root", "tags_hot", "words_vector", "gap", "maybe_hour", "month_number"]
hidden_units = [8]
[train]
max_steps = 60
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
PARTS = ["minute", "hour", "weekday", "day", "day_of_year", "month", "quarter"]
UNITS = {"s": "seconds", "ms": "millis", "iso": "iso"}


def rows_of(count):
    draw, missing = random.Random(3), random.Random(4)
    for _ in range(count):
        seconds = draw.randint(-2_000_000_000, 4_000_000_000)
        moment = np.datetime64(seconds, "s")
        tags = draw.choice(["", "a", "a|b", "c|x|a", "|b||", "y"])
        yield {
            "log": f"{draw.lognormvariate(2, 3) - 1:.3f}", "root": f"{draw.random() * 9:.3f}",
            "wide": str(draw.choice([0, 0, 0, draw.randint(-50, 50)])), "tags": tags,
            "words": draw.choice(["one", "one, two", "three, one", ""]), "s": str(seconds),
            "ms": str(seconds * 1000 + draw.randint(0, 999)),
            "iso": draw.choice([f"{moment}Z", f"{moment}", f"{moment}"[:16], f"{moment}"[:10], f"{moment}.25Z"]),
            "gap": missing.choice(["", f"{missing.random() * 50:.3f}"]), "maybe": missing.choice(["", str(seconds)]),
            "films": missing.choice(["", "7", "3|8", "2||5|"]), "y": str(int("a" in tags)),
        }


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    rows = list(rows_of(700))
    with open(folder / "train.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    times = [f"{key}_{part}" for key in UNITS for part in PARTS]
    columns = [
        f'{key}_{part} = {{ kind = "timestamp", key = "{key}", part = "{part}", unit = "{unit}" }}'
        for key, unit in UNITS.items()
        for part in PARTS
    ]
    (folder / "job.toml").write_text(JOB % ("\n".join(columns), "".join(f', "{name}"' for name in times)))
    phalanx("train", "job.toml", "--model-dir", "run", "--json", cwd=folder)
    lines = phalanx("predict", "run", "--input", "train.csv", "--json", cwd=folder).splitlines()
    return folder, rows, np.array([json.loads(line)["logits"] for line in lines])


def feature(name, row):
    if name in ("s", "ms", "maybe"):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(row[name])]))
    if name in ("log", "root", "wide", "gap"):
        return tf.train.Feature(float_list=tf.train.FloatList(value=[float(row[name])]))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[row[name].encode()]))


def test_the_exported_graph_prepares_examples_as_phalanx_does(trained):
    folder, rows, ours = trained
    signature = tf.saved_model.load(export(folder, "examples")).signatures["predict"]
    names = [name for name in rows[0] if name != "y"]
    examples = [
        tf.train.Example(features=tf.train.Features(feature={name: feature(name, row) for name in names if row[name]}))
        for row in rows
    ]
    (name,) = signature.structured_input_signature[1]
    theirs = signature(**{name: tf.constant([example.SerializeToString() for example in examples])})
    np.testing.assert_allclose(theirs["logits"].numpy(), ours, atol=1e-5)


def test_the_exported_graph_prepares_tensors_as_phalanx_does(trained):
    folder, rows, ours = trained
    signature = tf.saved_model.load(export(folder, "raw")).signatures["predict"]
    given = {}
    for name, spec in signature.structured_input_signature[1].items():
        convert, missing = {tf.float32: (float, np.nan), tf.int64: (int, -1), tf.string: (str, "")}[spec.dtype]
        values = [convert(row[name]) if row[name] else missing for row in rows]
        given[name] = tf.reshape(tf.constant(values, spec.dtype), [len(rows), 1])
    np.testing.assert_allclose(signature(**given)["logits"].numpy(), ours, atol=1e-5)


def test_the_export_alone_predicts_what_the_run_does(trained):
    folder, _, ours = trained
    lines = phalanx("predict", export(folder, "examples"), "--input", "train.csv", "--json", cwd=folder).splitlines()
    np.testing.assert_array_equal([json.loads(line)["logits"] for line in lines], ours)


def statistics(folder):
    """The numbers of column_statistics.toml, by name."""
    found, name = {}, None
    for line in (folder / "run" / "column_statistics.toml").read_text().splitlines():
        if line.startswith("[statistics."):
            name = json.loads(line[len("[statistics.") : -1])
        elif name and "=" in line:
            key, value = line.split(" = ")
            found.setdefault(name, {})[key] = json.loads(value)
    return found


def test_statistics_are_those_of_numpy(trained):
    folder, rows, _ = trained
    found = statistics(folder)
    log = np.log1p(np.clip(np.array([row["log"] for row in rows], np.float32), 0, 1000)).astype(np.float64)
    moments = found["log | clip 0.0 1000.0 | log1p | moments"]
    assert moments["mean"] == pytest.approx(log.mean(), rel=1e-6)
    assert moments["deviation"] == pytest.approx(log.std(), rel=1e-6)
    wide = np.array([row["wide"] for row in rows], np.float64)
    shares = np.arange(1, 10) / 10
    wanted = np.unique(np.quantile(wide, shares, method="inverted_cdf"))
    assert found["wide | 10 quantiles"]["quantiles"] == wanted.tolist()


def test_a_missing_indicator_is_one_where_numpy_finds_no_number(trained):
    folder, rows, _ = trained
    gap = np.log1p(np.array([row["gap"] or 3.5 for row in rows], np.float32)).astype(np.float64)
    moments = statistics(folder)["gap | default [3.5] | log1p | moments"]
    assert moments["mean"] == pytest.approx(gap.mean(), rel=1e-6)
    assert moments["deviation"] == pytest.approx(gap.std(), rel=1e-6)
    # The numbers and the indicator, from the input layer of the graph in TensorFlow: two of the kernel's rows.
    model = tf.saved_model.load(export(folder, "raw"))
    (kernel,) = [v.numpy() for v in model.variables if v.name.startswith("dnn/hiddenlayer_0/kernel")]
    prediction = model.signatures["predict"]
    batch = {
        name: tf.zeros([2, 1], spec.dtype) if spec.dtype != tf.string else tf.constant([["2020-01-01" if name == "iso" else ""]] * 2)
        for name, spec in prediction.structured_input_signature[1].items()
    }
    batch["gap"] = tf.constant([[3.5], [np.nan]])
    logits = prediction(**batch)["logits"].numpy()
    # A missing value differs from its default by the indicator alone, so a kernel with weights for it gives another logit.
    assert kernel.shape[0] == 1 + 1 + 5 + 3 + 2 + 2 + 1
    assert logits[0] != logits[1]


def is_eval(values, share):
    """The split of phalanx: Farmhash, SplitMix64's finalizer, and the lowest hashes."""
    prints = tf.fingerprint(tf.constant(values)[:, None]).numpy()
    hashes = np.ascontiguousarray(prints).view(np.uint64).ravel()
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    hashes = hashes ^ (hashes >> np.uint64(31))
    return hashes < np.uint64(int(share * 2**64))


@pytest.fixture(scope="module")
def dirty(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dirty")
    dirty_data.write(folder, rows=12000, seed=4)
    return folder


def auc_of_phalanx(job, dirty, folder, seed, *command):
    run = folder / f"run{seed}"
    arguments = ["train", str(JOBS / job), "--data-dir", str(dirty), "--model-dir", str(run)]
    found = json.loads(phalanx(*arguments, "--seed", str(seed), "--json", cwd=folder))
    return found["auc"]


def auc_of_tensorflow(features, labels, evaluated, linear, deep, seed, folder):
    """The same model as the job's, trained by tf.estimator on features that were prepared here."""

    def rows(keep, training):
        def input_fn():
            chosen = {
                name: tf.ragged.constant([value for value, use in zip(values, keep) if use]).to_sparse()
                if isinstance(values, list)
                else values[keep]
                for name, values in features.items()
            }
            data = tf.data.Dataset.from_tensor_slices((chosen, labels[keep]))
            data = data.shuffle(10000, seed=seed).repeat() if training else data
            return data.batch(128 if training else 500)

        return input_fn

    estimator = tf.estimator.DNNLinearCombinedClassifier(
        model_dir=str(folder / f"tensorflow{seed}"),
        linear_feature_columns=linear, dnn_feature_columns=deep, dnn_hidden_units=[32, 16],
        dnn_optimizer=tf.keras.optimizers.legacy.Adagrad(0.05, initial_accumulator_value=0.1),
        config=tf.estimator.RunConfig(tf_random_seed=seed, save_summary_steps=10**9, log_step_count_steps=10**9),
    )
    estimator.train(rows(~evaluated, True), steps=600)
    return estimator.evaluate(rows(evaluated, False))["auc"]


def same_within_noise(ours, theirs):
    """The difference of the means is below three of its standard errors, or below half a percent."""
    error = np.sqrt(np.var(ours, ddof=1) / len(ours) + np.var(theirs, ddof=1) / len(theirs))
    difference = abs(np.mean(ours) - np.mean(theirs))
    print(f"phalanx {np.mean(ours):.4f} ± {np.std(ours):.4f}, tensorflow {np.mean(theirs):.4f} ± {np.std(theirs):.4f}")
    assert difference < max(3 * error, 0.005), (ours, theirs)


def movies_for_tensorflow(dirty):
    with open(dirty / "movies.csv", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["genres"] != "(no genres listed)"]
    year = np.array([1980.0 if row["year"] in ("", "NA") else float(row["year"]) for row in rows], np.float32)
    times = np.array([int(row["timestamp"] or -1) for row in rows])
    evaluated = is_eval([row["user"] for row in rows], 0.1)
    train_year = year[~evaluated].astype(np.float64)
    features = {
        "movie": np.array([row["movie"] for row in rows]),
        "genres": [row["genres"].split("|") for row in rows],
        "year": ((year - train_year.mean()) / train_year.std()).astype(np.float32),
        "hour": np.where(times < 0, -1, times // 3600 % 24),
        "weekday": np.where(times < 0, -1, (times // 86400 + 3) % 7),
    }
    column = tf.feature_column
    movie = column.categorical_column_with_hash_bucket("movie", 5000)
    genres = column.categorical_column_with_vocabulary_list("genres", dirty_data.GENRES)
    linear = [movie, genres, column.categorical_column_with_identity("weekday", 7)]
    deep = [
        column.embedding_column(movie, 8), column.indicator_column(genres), column.numeric_column("year"),
        column.indicator_column(column.categorical_column_with_identity("hour", 24)),
    ]
    labels = np.array([float(row["liked"]) for row in rows], np.int64)
    return features, labels, evaluated, linear, deep


def criteo_for_tensorflow(dirty):
    with open(dirty / "criteo.tsv") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    names = ["label", *dirty_data.INTEGERS, *dirty_data.IDS]
    table = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    evaluated = is_eval(table["C10"], 0.1)
    features = {name: np.array(table[name]) for name in dirty_data.IDS[:8]}
    for name in dirty_data.INTEGERS:
        values = np.log1p(np.clip(np.array([float(value or 0) for value in table[name]], np.float32), 0, 1e6))
        known = values[~evaluated].astype(np.float64)
        features[name] = ((values - known.mean()) / known.std()).astype(np.float32)
    column = tf.feature_column
    ids = [column.categorical_column_with_hash_bucket(name, 2000) for name in dirty_data.IDS[:8]]
    known = features["I5"][~evaluated]
    boundaries = np.unique(np.quantile(known, np.arange(1, 10) / 10, method="inverted_cdf")).tolist()
    numbers = [column.numeric_column(name) for name in dirty_data.INTEGERS]
    linear = [*ids, column.bucketized_column(column.numeric_column("I5"), boundaries)]
    deep = [*numbers, *(column.embedding_column(one, 4) for one in ids)]
    return features, np.array(table["label"], np.int64), evaluated, linear, deep


CASES = {"movies.toml": movies_for_tensorflow, "criteo.toml": criteo_for_tensorflow}


@pytest.fixture(scope="module")
def tensorflow_auc(dirty, tmp_path_factory):
    """The AUC of tf.estimator for every job and seed."""
    folder = tmp_path_factory.mktemp("estimators")
    found = {}
    for job, prepare in CASES.items():
        case = prepare(dirty)
        inner = folder / job
        found[job] = [auc_of_tensorflow(*case, seed, inner) for seed in SEEDS]
    return found


@pytest.mark.parametrize("job", CASES)
def test_dirty_data_in_one_job_file_is_worth_as_much_as_with_estimator(job, dirty, tensorflow_auc, tmp_path):
    ours = [auc_of_phalanx(job, dirty, tmp_path, seed) for seed in SEEDS]
    same_within_noise(ours, tensorflow_auc[job])


@pytest.mark.parametrize("job", CASES)
def test_a_launched_job_is_worth_as_much(job, dirty, tensorflow_auc, tmp_path):
    # The trainer that gets most of the processor makes most of the steps: shares rotate, so it does not overfit to its own.
    binary, ours = os.path.abspath(os.environ["PHALANX_BIN"]), []
    for seed in SEEDS:
        run = str(tmp_path / f"run{seed}")
        train = [binary, "train", str(JOBS / job), "--data-dir", str(dirty), "--model-dir", run, "--seed", str(seed)]
        launch = ["launch", "--ps", "2", "--workers", "2", "--run-dir", run, "--progress", "plain"]
        phalanx(*launch, "--", *train, cwd=tmp_path)
        ours.append(json.loads(phalanx("eval", run, "--json", cwd=tmp_path))["auc"])
    same_within_noise(ours, tensorflow_auc[job])


def test_float_labels_and_absent_features_of_records_give_the_same_model_as_the_text(dirty, tmp_path):
    text = (JOBS / "criteo.toml").read_text()
    head, tail = text.split("[data]")[0], text[text.index("[columns]") :]
    data = '[data]\nformat = "tfrecord"\ntrain = "criteo.tfrecord"\nsplit = { by = "C10", eval = 0.1 }\nlabel = "label"\n'
    (tmp_path / "records.toml").write_text(head + data + tail)
    arguments = ["--data-dir", str(dirty), "--json", "--max-steps", "200"]
    found = [
        json.loads(phalanx("train", job, "--model-dir", name, *arguments, cwd=tmp_path))
        for job, name in [("records.toml", "records"), (str(JOBS / "criteo.toml"), "text")]
    ]
    assert found[0]["average_loss"] == pytest.approx(found[1]["average_loss"], abs=1e-6)
    assert found[0]["auc"] == pytest.approx(found[1]["auc"], abs=1e-6)
