"""Holds the canned estimators against TensorFlow's own: the same initial values, columns and batches in both.

Run with the interpreter of an environment that has tensorflow 2.15 and pytest, and
PHALANX_ESTIMATOR_CASE=path/to/phalanx_estimator_case (a binary of the crate phalanx-tests; target/debug unless set).
"""

import json
import os
import subprocess

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="needs tensorflow 2.15")

import numpy as np  # noqa: E402

tf.get_logger().setLevel("ERROR")
fc, est = tf.feature_column, tf.estimator
BINARY = os.path.join(os.path.dirname(__file__), "../../target/debug/phalanx_estimator_case")
ROWS, BATCH = 200, 32


def ours(case, code=0):
    """What our program makes of a case; where it fails, what it says."""
    binary = os.environ.get("PHALANX_ESTIMATOR_CASE", BINARY)
    if not os.path.exists(binary):
        pytest.fail("set PHALANX_ESTIMATOR_CASE to the binary phalanx_estimator_case")
    done = subprocess.run([binary], input=json.dumps(case), capture_output=True, timeout=120, text=True)
    assert done.returncode == code, (done.returncode, done.stderr[-3000:])
    return json.loads(done.stdout) if code == 0 else done.stderr


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
    return lambda: getattr(tf.keras.optimizers.legacy, kind)(given["learning_rate"])


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
    config = est.RunConfig(model_dir=model_dir, save_checkpoints_steps=10_000, log_step_count_steps=None, tf_random_seed=7)
    if "thresholds" in case:
        # Canned classifiers take no thresholds of their own: their head does.
        head = est.BinaryClassHead(thresholds=case["thresholds"], weight_column=case.get("weight_column"))
        return est.LinearEstimator(head, linear, config=config, **more)
    return getattr(est, kind)(config=config, **settings, **more)


def array(given):
    values = np.array(given["values"])
    values = values.astype(np.float32) if values.dtype == np.float64 else values
    return values.reshape(-1, given["width"]) if "width" in given else values


def input_fn(case):
    def read():
        features = {name: array(given) for name, given in case["features"].items()}
        data = tf.data.Dataset.from_tensor_slices((features, array(case["label"]))).repeat(case.get("epochs", 1))
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
    "baseline classifier": {"model": "BaselineClassifier", "label": numbers(CLASSES), "n_classes": 4},
    "baseline regressor": {"model": "BaselineRegressor", "label": numbers(TARGET)},
}


def both(case, tmp_path):
    """One epoch in both, from TensorFlow's initial values, then evaluations and predictions of what came of it."""
    case = {"features": features(), "batch": BATCH, **case}
    theirs = estimator(case, str(tmp_path / "theirs"))
    losses = Losses()
    # A baseline's variables are initialised from a batch that is then lost: it is given one more.
    theirs.train(input_fn({**case, "extra": case["model"].startswith("Baseline")}), hooks=[losses])
    start = str(tmp_path / "theirs/model.ckpt-0")
    done = ours(
        {
            **case,
            "model_dir": str(tmp_path / "ours"),
            "warm_start": start,
            "steps": 0,
            "evaluate": True,
            "predict": True,
        }
    )
    return case, theirs, losses.seen, done


def near(a, b, relative=1e-4):
    return abs(a - b) <= relative * max(1.0, abs(b))


@pytest.mark.parametrize("name", CASES)
def test_an_epoch_from_the_same_start_has_the_same_losses_and_metrics(name, tmp_path):
    case, theirs, losses, done = both(CASES[name], tmp_path)
    assert len(done["losses"]) == len(losses) == -(-ROWS // BATCH)
    assert all(near(a, b) for a, b in zip(done["losses"], losses)), (done["losses"], losses)
    assert len(set(losses)) > 1
    evaluation = {key: float(value) for key, value in theirs.evaluate(input_fn(case)).items()}
    assert set(done["evaluation"]) == set(evaluation)
    wrong = {k: (done["evaluation"][k], v) for k, v in evaluation.items() if not near(done["evaluation"][k], v, 2e-4)}
    assert not wrong
    predictions = list(theirs.predict(input_fn(case)))
    for key in predictions[0]:
        expected = np.concatenate([np.ravel(row[key]) for row in predictions]).tolist()
        found = [value for batch in done["predictions"] for value in batch[key]]
        if isinstance(expected[0], bytes):
            assert found == [value.decode() for value in expected], key
        else:
            assert len(found) == len(expected) and all(near(a, b, 1e-3) for a, b in zip(found, expected)), key
    assert set(done["predictions"][0]) == set(predictions[0])


def test_thresholds_are_reported_under_tensorflows_names(tmp_path):
    case = {"model": "LinearClassifier", "linear": LINEAR, "label": numbers(BINARY_LABEL), "weight_column": "weight"}
    case, theirs, _, done = both({**case, "thresholds": [0.25, 0.6]}, tmp_path)
    evaluation = {key: float(value) for key, value in theirs.evaluate(input_fn(case)).items()}
    assert "accuracy/positive_threshold_0.25" in evaluation
    assert set(done["evaluation"]) == set(evaluation)
    assert not {k: v for k, v in evaluation.items() if not near(done["evaluation"][k], v, 2e-4)}


def test_a_trained_checkpoint_of_tensorflow_predicts_the_same_here(tmp_path):
    case = {"features": features(), "batch": BATCH, **CASES["wide and deep, faster"]}
    theirs = estimator(case, str(tmp_path / "theirs"))
    theirs.train(input_fn({**case, "epochs": 6}), max_steps=40)
    # A single step at a rate of almost nothing: what is evaluated is what was read.
    slow = {"name": "sgd", "learning_rate": 1e-12}
    done = ours(
        {
            **case,
            "linear_optimizer": slow,
            "dnn_optimizer": slow,
            "model_dir": str(tmp_path / "ours"),
            "warm_start": str(tmp_path / "theirs"),
            "steps": 1,
            "predict": True,
        }
    )
    expected = [float(row["logits"][0]) for row in theirs.predict(input_fn(case))]
    found = [value for batch in done["predictions"] for value in batch["logits"]]
    assert max(abs(a - b) for a, b in zip(found, expected)) < 1e-5


# Models that TensorFlow's Estimator has not: the papers' formulas over its ops, from the same values.

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
    "dlrm of four, without numbers": {
        "model": "DLRMClassifier",
        "deep": [embedded(JOB, 4), embedded(TWIN, 4), embedded(WORD, 4)],
        "hidden_units": [8],
        "label": numbers(CLASSES),
        "n_classes": 4,
        "optimizer": {"name": "sgd", "learning_rate": 0.05},
    },
}


class Formula:
    """Variables by our names, and the logits that a paper makes of them."""

    def __init__(self, case):
        self.case, self.draw, self.variables = case, np.random.default_rng(3), {}
        self.embeddings = sorted((c for c in case["deep"] if c["fn"] == "embedding"), key=lambda c: c["column"]["key"])
        self.data = {name: array(given) for name, given in case["features"].items()}

    def variable(self, name, shape, zero=False):
        if name not in self.variables:
            start = np.zeros(shape) if zero else self.draw.normal(scale=0.3, size=shape)
            self.variables[name] = tf.Variable(start.astype(np.float32))
        return self.variables[name]

    def ids(self, given, rows):
        values = self.data[given["key"]][rows].reshape(len(rows), -1)
        if given["fn"] == "hash":
            values = tf.strings.to_hash_bucket_fast(values, given["size"]).numpy()
        elif given["fn"] == "vocabulary":
            values = np.vectorize(lambda word: given["words"].index(word) if word in given["words"] else -1)(values)
        at = np.argwhere(values >= 0)
        return tf.SparseTensor(at, values[values >= 0].astype(np.int64), values.shape), given.get("size") or len(given["words"])

    def looked_up(self, name, given, width, rows, combiner, zero=False):
        ids, size = self.ids(given, rows)
        return tf.nn.safe_embedding_lookup_sparse(self.variable(name, (size, width), zero), ids, combiner=combiner)

    def words(self, rows):
        ids, size = self.ids(WORD, rows)
        return tf.sparse.to_dense(tf.SparseTensor(ids.indices, tf.ones(len(ids.values)), ids.dense_shape)) * tf.one_hot(
            tf.sparse.to_dense(ids, default_value=-1)[:, 0], size
        )

    def layers(self, scope, x, units):
        for at, width in enumerate(units):
            x = tf.nn.relu(self.sums(f"{scope}/hiddenlayer_{at}", x, width))
        return x

    def sums(self, scope, x, width):
        return x @ self.variable(f"{scope}/kernel", (x.shape[1], width)) + self.variable(f"{scope}/bias", (width,))

    def fields(self, scope, rows):
        name = scope + "/{}_embedding/embedding_weights"
        return [
            self.looked_up(name.format(c["column"]["key"]), c["column"], c["dimension"], rows, c.get("combiner", "mean"))
            for c in self.embeddings
        ]

    def numbers(self, rows):
        return tf.concat([self.data["pair"][rows], self.words(rows), self.data["x"][rows].reshape(-1, 1)], 1)

    def logits(self, rows):
        return self.deepfm(rows) if self.case["model"] == "DeepFMClassifier" else self.dlrm(rows)

    def deepfm(self, rows):
        scope = "linear/linear_model"
        linear = self.variable(f"{scope}/bias_weights", (1,), zero=True)
        for key, values in (("x", self.data["x"][rows].reshape(-1, 1)), ("pair", self.data["pair"][rows])):
            linear = linear + values @ self.variable(f"{scope}/{key}/weights", (values.shape[1], 1), zero=True)
        for given in (WORD, JOB, LIST, TWIN):
            linear = linear + self.looked_up(f"{scope}/{given['key']}/weights", given, 1, rows, "sum", zero=True)
        fields = self.fields("dnn/input_from_feature_columns/input_layer", rows)
        pairs = sum(
            tf.reduce_sum(a * b, 1, keepdims=True) for at, a in enumerate(fields) for b in fields[:at]
        )
        deep = self.layers("dnn", tf.concat([self.numbers(rows), *fields], 1), self.case["hidden_units"])
        return linear + pairs + self.sums("dnn/logits", deep, 1)

    def dlrm(self, rows):
        fields, first = self.fields("dlrm/input_layer", rows), []
        if "bottom_units" in self.case:
            first = [self.layers("dlrm/bottom", self.numbers(rows), self.case["bottom_units"])]
        fields = first + fields
        products = [tf.reduce_sum(a * b, 1, keepdims=True) for at, a in enumerate(fields) for b in fields[:at]]
        top = self.layers("dlrm/top", tf.concat(first + products, 1), self.case["hidden_units"])
        classes = self.case.get("n_classes", 2)
        return self.sums("dlrm/logits", top, 1 if classes == 2 else classes)

    def loss(self, rows):
        logits, label = self.logits(rows), array(self.case["label"])[rows]
        if self.case.get("n_classes", 2) == 2:
            label = tf.constant(label.reshape(-1, 1), tf.float32)
            return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(label, logits))
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(label, logits))

    def optimizer(self, of):
        """The optimizer of each variable, made once."""
        case = self.case
        linear, deep = case.get("linear_optimizer", case.get("optimizer")), case.get("dnn_optimizer", case.get("optimizer"))
        made = {True: optimizer(linear)(), False: optimizer(deep)()}
        return lambda name: made[name.startswith("linear/")]

    def write(self, prefix):
        names = list(self.variables)
        tensors = [self.variables[name].read_value() for name in names]
        tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors)


@pytest.mark.parametrize("name", OWN)
def test_a_click_model_learns_as_its_formula_does(name, tmp_path):
    case = {"features": features(), "batch": BATCH, **OWN[name]}
    formula = Formula(case)
    formula.logits(np.arange(2))
    formula.write(str(tmp_path / "start"))
    of, losses = formula.optimizer(case), []
    for first in range(0, ROWS, BATCH):
        rows = np.arange(first, min(first + BATCH, ROWS))
        with tf.GradientTape() as tape:
            loss = formula.loss(rows)
        losses.append(float(loss))
        names = list(formula.variables)
        slopes = tape.gradient(loss, [formula.variables[name] for name in names])
        for variable, slope in zip(names, slopes):
            of(variable).apply_gradients([(slope, formula.variables[variable])])
    wanted = formula.logits(np.arange(ROWS)).numpy().ravel().tolist()
    done = ours({**case, "model_dir": str(tmp_path / "ours"), "warm_start": str(tmp_path / "start"), "steps": 0, "predict": True})
    assert len(done["losses"]) == len(losses) == -(-ROWS // BATCH)
    assert all(near(a, b) for a, b in zip(done["losses"], losses)), (done["losses"], losses)
    found = [value for batch in done["predictions"] for value in batch["logits"]]
    assert len(found) == len(wanted) and max(abs(a - b) for a, b in zip(found, wanted)) < 1e-4


# Exported models.


def example(case, row):
    """A row as a serialized Example; numbers that a categorical column takes for nothing are left out."""
    feature = {}
    for name, given in case["features"].items():
        width = given.get("width", 1)
        values = given["values"][row * width : (row + 1) * width]
        if isinstance(values[0], str):
            feature[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[v.encode() for v in values]))
        elif isinstance(values[0], int):
            feature[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=[v for v in values if v != -1]))
        else:
            kept = [v for v in values if v != 0] if name == "counts" else values
            feature[name] = tf.train.Feature(float_list=tf.train.FloatList(value=kept))
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


MORE = {"a shared table that learns": {**CASES["dnn classifier with a shared table"], "deep": [X, {**SHARED, "trainable": True}]}}
EXPORTED = [
    "linear classifier of four",
    "linear regressor of two, summed",
    "weighted ids",
    "words as labels",
    "dnn regressor, weighted",
    "wide and deep, faster",
    "baseline regressor",
    "dnn classifier with batch normalization",
    "a shared table that learns",
    "deepfm",
    "dlrm",
    "dlrm of four, without numbers",
]


@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_model_predicts_the_same_in_tensorflow(name, tmp_path):
    case = {"features": features(), "batch": ROWS, **{**CASES, **OWN, **MORE}[name], "model_dir": str(tmp_path / "ours")}
    done = ours({**case, "steps": 3, "predict": True, "export": str(tmp_path / "export")})
    (predicted,) = done["predictions"]
    folder, raw = done["exports"]
    assert os.path.basename(folder).isdigit() and os.listdir(os.path.dirname(folder)) == [os.path.basename(folder)]
    manifest = json.load(open(os.path.join(folder, "assets.extra/phalanx.json")))
    assert manifest["checked_rows"] == ROWS and manifest["largest_difference"] <= 1e-6
    serialized = [example(case, row) for row in range(ROWS)]

    def check(key, value):
        value = np.ravel(np.array(value)).tolist()
        if isinstance(value[0], bytes):
            assert [v.decode() for v in value] == predicted[key], key
        else:
            assert len(value) == len(predicted[key])
            assert max(abs(a - b) for a, b in zip(value, predicted[key])) < 1e-5, key

    loaded = tf.saved_model.load(folder)
    regression = "Regressor" in case["model"]
    binary = not regression and case.get("n_classes", 2) == 2
    expected = {"serving_default", "predict", *(["regression"] if regression else ["classification"])}
    assert set(loaded.signatures) == expected | ({"regression"} if binary else set())
    answer = loaded.signatures["predict"](examples=tf.constant(serialized))
    assert set(answer) == set(predicted)
    for key, value in answer.items():
        check(key, value)
    answer = loaded.signatures["serving_default"](inputs=tf.constant(serialized))
    assert set(answer) == ({"outputs"} if regression else {"classes", "scores"})
    check("predictions" if regression else "probabilities", answer["outputs" if regression else "scores"])

    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        model = tf.compat.v1.saved_model.load(session, ["serve"], folder)
        signature = model.signature_def["predict"]
        key = "predictions" if regression else "logits"
        value = session.run(signature.outputs[key].name, {signature.inputs["examples"].name: serialized})
        check(key, value)

    if case["model"].startswith("Baseline"):
        return
    loaded = tf.saved_model.load(raw).signatures["predict"]
    wanted = loaded.structured_input_signature[1]
    given = {}
    for key in wanted:
        values = array(case["features"][key])
        values = values.reshape(ROWS, -1)
        given[key] = tf.constant(values, dtype=wanted[key].dtype)
    for key, value in loaded(**given).items():
        check(key, value)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"label": numbers(np.full(ROWS, 2))}, "outside of the 2 classes"),
        ({"label": {"values": ["yes"] * ROWS}}, "label vocabulary"),
        ({"label": {"values": ["Yes"] * ROWS}, "label_vocabulary": ["no", "yes"]}, '"yes"'),
        ({"linear": [{"fn": "numeric_column", "key": "xx"}]}, "xx"),
        ({"linear": []}, "no feature columns"),
        ({"linear": [X, X]}, "two feature columns"),
        ({"thresholds": [1.5]}, "threshold"),
        ({"n_classes": 1}, "classes"),
        ({"weight_column": "wieght"}, "weight"),
    ],
)
def test_mistakes_are_said(change, said, tmp_path):
    case = {"model": "LinearClassifier", "linear": [X], "label": numbers(BINARY_LABEL), "features": features(), **change}
    case.update(batch=BATCH, model_dir=str(tmp_path / "ours"), steps=0)
    binary = os.environ.get("PHALANX_ESTIMATOR_CASE", BINARY)
    done = subprocess.run([binary], input=json.dumps(case), capture_output=True, timeout=120, text=True)
    assert done.returncode in (1, 2), done.stderr
    assert said in done.stderr
