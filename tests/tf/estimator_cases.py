"""What the suites of estimators share: cases, run by our program and by tf.estimator."""

import os

import cases
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="needs tensorflow 2.15")

import numpy as np  # noqa: E402

tf.get_logger().setLevel("ERROR")
fc, est = tf.feature_column, tf.estimator
ROWS, BATCH = 200, 32


def ours(case, code=0):
    """What our program makes of a case, or its error."""
    return cases.answer("phalanx_estimator_case", case, code)


# The same case in TensorFlow.


def column(given):
    kind, key = given["fn"], given.get("key")
    if kind == "numeric_column":
        return fc.numeric_column(key, shape=(given.get("shape", 1),))
    if kind == "bucketized_column":
        return fc.bucketized_column(column(given["column"]), given["boundaries"])
    if kind == "identity":
        return fc.categorical_column_with_identity(key, given["size"])
    if kind == "vocabulary":
        return fc.categorical_column_with_vocabulary_list(key, given["words"])
    if kind == "hash":
        return fc.categorical_column_with_hash_bucket(key, given["size"])
    if kind == "crossed":
        return fc.crossed_column([k if isinstance(k, str) else column(k) for k in given["keys"]], given["size"])
    if kind == "weighted":
        return fc.weighted_categorical_column(column(given["column"]), given["weights"])
    if kind == "indicator":
        return fc.indicator_column(column(given["column"]))
    settings = {k: given[k] for k in ("combiner", "max_norm") if k in given}
    return fc.embedding_column(column(given["column"]), given["dimension"], **settings)


def columns(given):
    """The columns of a list of descriptions; some share a table."""
    made = []
    for one in given:
        if one["fn"] == "shared":
            with tf.Graph().as_default():  # They are refused where execution is eager.
                made += fc.shared_embeddings([column(c) for c in one["columns"]], one["dimension"])
        else:
            made.append(column(one))
    return made


def optimizer(given):
    kind = {"sgd": "SGD", "adagrad": "Adagrad", "ftrl": "Ftrl", "adam": "Adam", "rmsprop": "RMSprop"}[given["name"]]
    clip = {key: given[key] for key in ("clipnorm", "clipvalue", "global_clipnorm") if key in given}
    return lambda: getattr(tf.keras.optimizers.legacy, kind)(cases.rate(given["learning_rate"]), **clip)


def head(given):
    kind = given["class"]
    settings = {k: v for k, v in given.items() if k not in ("class", "heads", "reduction")}
    if kind == "MultiHead":
        settings["heads"] = [head(one) for one in given["heads"]]
    if given.get("reduction") == "sum":
        settings["loss_reduction"] = tf.losses.Reduction.SUM
    return getattr(est, kind)(**settings)


def estimator(case, model_dir, **more):
    settings = {k: case[k] for k in ("n_classes", "label_vocabulary", "label_dimension", "weight_column") if k in case}
    if case.get("reduction") == "sum":
        settings["loss_reduction"] = tf.losses.Reduction.SUM
    for name in ("optimizer", "linear_optimizer", "dnn_optimizer"):
        if name in case:
            settings[name] = optimizer(case[name])
    kind = case["model"]
    linear, deep = columns(case.get("linear", [])), columns(case.get("deep", []))
    if "batch_norm" in case:
        settings["batch_norm"] = case["batch_norm"]
    if kind.startswith("DNNLinear"):
        settings.update(linear_feature_columns=linear, dnn_feature_columns=deep, dnn_hidden_units=case["hidden_units"])
    elif kind.startswith("DNN"):
        settings.update(feature_columns=deep, hidden_units=case["hidden_units"])
    elif kind.startswith("Linear"):
        settings.update(feature_columns=linear)
    if "head" in case:
        settings["head"] = head(case["head"])
    config = est.RunConfig(model_dir=model_dir, save_checkpoints_steps=10_000, log_step_count_steps=None, tf_random_seed=7)
    if "thresholds" in case:
        # Canned classifiers take no thresholds of their own: their head does.
        binary = est.BinaryClassHead(thresholds=case["thresholds"], weight_column=case.get("weight_column"))
        return est.LinearEstimator(binary, linear, config=config, **more)
    return getattr(est, kind)(config=config, **settings, **more)


def array(given):
    values = np.array(given["values"])
    values = values.astype(np.float32) if values.dtype == np.float64 else values
    return values.reshape(-1, given["width"]) if "width" in given else values


def input_fn(case):
    def read():
        features = {name: array(given) for name, given in case["features"].items()}
        if "labels" in case:
            labels = {name: array(given) for name, given in case["labels"].items()}
        else:
            labels = array(case["label"])
        data = tf.data.Dataset.from_tensor_slices((features, labels)).repeat(case.get("epochs", 1))
        if case.get("extra"):
            data = data.take(case["batch"]).concatenate(data)
        # Not the dataset itself: for a model without features Estimator reads it before it has initialised it.
        return tf.compat.v1.data.make_one_shot_iterator(data.batch(case["batch"])).get_next()

    return read


class Losses(tf.compat.v1.train.SessionRunHook):
    def __init__(self):
        self.seen = []

    def begin(self):
        self.loss = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1]

    def before_run(self, _):
        return tf.compat.v1.train.SessionRunArgs(self.loss)

    def after_run(self, _, values):
        self.seen.append(float(values.results))


# Data that all cases share.


def numbers(values, width=None):
    given = {"values": np.asarray(values).ravel().tolist()}
    return {**given, "width": width} if width else given


def features():
    draw = np.random.default_rng(11)
    words = np.array(["a", "b", "c", "d", ""])
    lists = draw.integers(-1, 6, size=(ROWS, 3))
    return {
        "x": numbers(draw.normal(size=ROWS)),
        "pair": numbers(draw.normal(size=(ROWS, 2)), 2),
        "age": numbers(draw.uniform(10, 80, size=ROWS)),
        "word": {"values": draw.choice(words, size=ROWS).tolist()},
        "job": {"values": [f"job {n}" for n in draw.integers(0, 40, size=ROWS)]},
        "list": {"values": lists.ravel().tolist(), "width": 3},
        "counts": numbers(np.where(lists >= 0, draw.uniform(0.5, 2, size=(ROWS, 3)), 0), 3),
        "weight": numbers(draw.uniform(0.2, 3, size=ROWS)),
        "twin": {"values": draw.integers(0, 6, size=ROWS).tolist()},
    }


X = {"fn": "numeric_column", "key": "x"}
PAIR = {"fn": "numeric_column", "key": "pair", "shape": 2}
AGE = {"fn": "bucketized_column", "column": {"fn": "numeric_column", "key": "age"}, "boundaries": [20, 35, 50, 65]}
WORD = {"fn": "vocabulary", "key": "word", "words": ["a", "b", "c"]}
JOB = {"fn": "hash", "key": "job", "size": 25}
LIST = {"fn": "identity", "key": "list", "size": 6}
CROSS = {"fn": "crossed", "keys": ["word", "job"], "size": 50}
TWIN = {"fn": "identity", "key": "twin", "size": 6}
# TensorFlow 2.15's Estimator does not train shared tables (no optimizer is given them); ours does unless told not to.
SHARED = {"fn": "shared", "columns": [LIST, TWIN], "dimension": 3, "trainable": False}
LINEAR = [X, PAIR, AGE, WORD, JOB, LIST, CROSS]


def embedded(of, dimension, **more):
    return {"fn": "embedding", "column": of, "dimension": dimension, **more}


DEEP = [
    X,
    PAIR,
    AGE,
    {"fn": "indicator", "column": WORD},
    embedded(JOB, 4),
    embedded(LIST, 3, combiner="sqrtn", max_norm=0.7),
    embedded(CROSS, 2, combiner="sum"),
]
RATES = {"linear_optimizer": {"name": "ftrl", "learning_rate": 0.05}, "dnn_optimizer": {"name": "adagrad", "learning_rate": 0.05}}
BINARY_LABEL, CLASSES = np.random.default_rng(5).integers(0, 2, ROWS), np.random.default_rng(6).integers(0, 4, ROWS)
TARGET = np.random.default_rng(7).normal(size=ROWS)
PAIRS = np.random.default_rng(8).normal(size=(ROWS, 2))

CASES = {
    "linear classifier": {"model": "LinearClassifier", "linear": LINEAR, "label": numbers(BINARY_LABEL)},
    "linear classifier of four": {"model": "LinearClassifier", "linear": LINEAR, "label": numbers(CLASSES), "n_classes": 4},
    "linear regressor": {"model": "LinearRegressor", "linear": LINEAR, "label": numbers(TARGET)},
    "linear regressor of two, summed": {
        "model": "LinearRegressor",
        "linear": LINEAR,
        "label": numbers(PAIRS, 2),
        "label_dimension": 2,
        "reduction": "sum",
        "optimizer": {"name": "sgd", "learning_rate": 0.001},
    },
    "weighted ids": {
        "model": "LinearClassifier",
        "linear": [X, {"fn": "weighted", "column": LIST, "weights": "counts"}],
        "label": numbers(BINARY_LABEL),
        "weight_column": "weight",
    },
    "words as labels": {
        "model": "LinearClassifier",
        "linear": [X, JOB],
        "label": {"values": ["yes" if yes else "no" for yes in BINARY_LABEL]},
        "label_vocabulary": ["no", "yes"],
    },
    "dnn classifier": {"model": "DNNClassifier", "deep": DEEP, "hidden_units": [16, 8], "label": numbers(BINARY_LABEL)},
    "dnn classifier of four, weighted": {
        "model": "DNNClassifier",
        "deep": DEEP,
        "hidden_units": [16, 8],
        "label": numbers(CLASSES),
        "n_classes": 4,
        "weight_column": "weight",
        "optimizer": {"name": "adagrad", "learning_rate": 0.05},
    },
    "dnn regressor, weighted": {
        "model": "DNNRegressor",
        "deep": DEEP,
        "hidden_units": [16],
        "label": numbers(PAIRS, 2),
        "label_dimension": 2,
        "weight_column": "weight",
        "optimizer": {"name": "sgd", "learning_rate": 0.01},
    },
    "wide and deep classifier": {
        "model": "DNNLinearCombinedClassifier",
        "linear": LINEAR,
        "deep": DEEP,
        "hidden_units": [16, 8],
        "label": numbers(BINARY_LABEL),
    },
    "wide and deep, faster": {
        "model": "DNNLinearCombinedClassifier",
        "linear": LINEAR,
        "deep": DEEP,
        "hidden_units": [16, 8],
        "label": numbers(BINARY_LABEL),
        **RATES,
    },
    "wide and deep regressor": {
        "model": "DNNLinearCombinedRegressor",
        "linear": [AGE, CROSS],
        "deep": DEEP,
        "hidden_units": [16, 8],
        "label": numbers(TARGET),
        **RATES,
    },
    "dnn classifier with batch normalization": {
        "model": "DNNClassifier",
        "deep": DEEP,
        "hidden_units": [16, 8],
        "label": numbers(BINARY_LABEL),
        "batch_norm": True,
        "optimizer": {"name": "adagrad", "learning_rate": 0.05},
    },
    "wide and deep regressor with batch normalization": {
        "model": "DNNLinearCombinedRegressor",
        "linear": [AGE, CROSS],
        "deep": DEEP,
        "hidden_units": [16, 8],
        "label": numbers(TARGET),
        "batch_norm": True,
        **RATES,
    },
    "dnn classifier with a shared table": {
        "model": "DNNClassifier",
        "deep": [X, SHARED],
        "hidden_units": [16],
        "label": numbers(BINARY_LABEL),
        "optimizer": {"name": "adagrad", "learning_rate": 0.05},
    },
    "scheduled": {
        "model": "DNNLinearCombinedClassifier",
        "linear": LINEAR,
        "deep": DEEP,
        "hidden_units": [16, 8],
        "label": numbers(BINARY_LABEL),
        "linear_optimizer": {"name": "adagrad", "learning_rate": {"schedule": "exponential", "settings": [0.1, 2, 0.5]}},
        "dnn_optimizer": {"name": "sgd", "learning_rate": {"schedule": "cosine", "settings": [0.3, 6]}},
    },
    # Without repeated ids: Keras clips the gradients of those before it sums them, and we clip the sums.
    "clipped by norm": {
        "model": "DNNLinearCombinedRegressor",
        "linear": [X, AGE],
        "deep": [X, PAIR, AGE],
        "hidden_units": [16, 8],
        "label": numbers(10 * TARGET),
        "linear_optimizer": {"name": "adagrad", "learning_rate": 0.1, "clipnorm": 0.3},
        "dnn_optimizer": {"name": "sgd", "learning_rate": 0.1, "global_clipnorm": 0.5},
    },
    "clipped by value": {
        "model": "DNNRegressor",
        "deep": [X, PAIR, AGE],
        "hidden_units": [16, 8],
        "label": numbers(10 * TARGET),
        "optimizer": {"name": "adam", "learning_rate": 0.01, "clipvalue": 0.05},
    },
    "baseline classifier": {"model": "BaselineClassifier", "label": numbers(CLASSES), "n_classes": 4},
    "baseline regressor": {"model": "BaselineRegressor", "label": numbers(TARGET)},
}


tagged = np.random.default_rng(11)
TAGS, COUNTS = tagged.integers(0, 2, size=(ROWS, 3)), tagged.poisson(2.0, size=ROWS)
COUNT_PAIRS = tagged.poisson([0.5, 4.0], size=(ROWS, 2))
SLOW = {"name": "sgd", "learning_rate": 0.05}
HEADS = {
    "multi-label": {
        "model": "DNNEstimator",
        "deep": DEEP,
        "hidden_units": [16, 8],
        "head": {"class": "MultiLabelHead", "n_classes": 3, "thresholds": [0.3, 0.6], "weight_column": "weight"},
        "label": numbers(TAGS, 3),
        "optimizer": {"name": "adagrad", "learning_rate": 0.05},
    },
    "multi-label, summed": {
        "model": "LinearEstimator",
        "linear": LINEAR,
        "head": {"class": "MultiLabelHead", "n_classes": 3, "reduction": "sum"},
        "label": numbers(TAGS, 3),
        "optimizer": {"name": "sgd", "learning_rate": 0.001},
    },
    "poisson": {
        "model": "LinearEstimator",
        "linear": LINEAR,
        "head": {"class": "PoissonRegressionHead", "weight_column": "weight"},
        "label": numbers(COUNTS.astype(np.float32)),
        "optimizer": SLOW,
    },
    "poisson of two, summed": {
        "model": "DNNEstimator",
        "deep": [X, PAIR],
        "hidden_units": [8],
        "head": {"class": "PoissonRegressionHead", "label_dimension": 2, "reduction": "sum"},
        "label": numbers(COUNT_PAIRS.astype(np.float32), 2),
        "optimizer": {"name": "sgd", "learning_rate": 0.0005},
    },
    "several heads": {
        "model": "DNNEstimator",
        "deep": DEEP,
        "hidden_units": [16],
        "head": {
            "class": "MultiHead",
            "heads": [
                {"class": "BinaryClassHead", "name": "clicked", "weight_column": "weight"},
                {"class": "RegressionHead", "name": "dwell"},
                {"class": "MultiLabelHead", "name": "tags", "n_classes": 3},
            ],
            "head_weights": [1.0, 0.25, 2.0],
        },
        "labels": {"clicked": numbers(BINARY_LABEL), "dwell": numbers(TARGET), "tags": numbers(TAGS, 3)},
        "optimizer": {"name": "adagrad", "learning_rate": 0.05},
    },
}


def near(a, b, relative=1e-4):
    return abs(a - b) <= relative * max(1.0, abs(b))


FIELDS = [X, PAIR, {"fn": "indicator", "column": WORD}, embedded(JOB, 4), embedded(LIST, 4, combiner="sqrtn"), embedded(TWIN, 4)]
OWN = {
    "deepfm": {"model": "DeepFMClassifier", "deep": FIELDS, "hidden_units": [8, 5], "label": numbers(BINARY_LABEL), **RATES},
    "dlrm": {
        "model": "DLRMClassifier",
        "deep": FIELDS,
        "bottom_units": [6, 4],
        "hidden_units": [8, 5],
        "label": numbers(BINARY_LABEL),
        "optimizer": {"name": "adagrad", "learning_rate": 0.05},
    },
    "fm classifier": {
        "model": "FMClassifier",
        "deep": FIELDS,
        "label": numbers(BINARY_LABEL),
        "optimizer": {"name": "adagrad", "learning_rate": 0.05},
    },
    "fm regressor": {
        "model": "FMRegressor",
        "deep": FIELDS,
        "label": numbers(TARGET),
        "optimizer": {"name": "sgd", "learning_rate": 0.02},
    },
    "mf regressor": {
        "model": "MFRegressor",
        "deep": [embedded(JOB, 4), embedded(TWIN, 4)],
        "label": numbers(TARGET + 3),
        "optimizer": {"name": "adagrad", "learning_rate": 0.1},
    },
    "dlrm of four, without numbers": {
        "model": "DLRMClassifier",
        "deep": [embedded(JOB, 4), embedded(TWIN, 4), embedded(WORD, 4)],
        "hidden_units": [8],
        "label": numbers(CLASSES),
        "n_classes": 4,
        "optimizer": {"name": "sgd", "learning_rate": 0.05},
    },
}
