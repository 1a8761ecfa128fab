"""Holds the models that TensorFlow's Estimator has not against their papers' formulas over its ops, from the same values.

Run with the interpreter of an environment that has tensorflow 2.15 and pytest, and
PHALANX_ESTIMATOR_CASE=path/to/phalanx_estimator_case (a binary of the crate phalanx-tests; target/debug unless set).
"""

import numpy as np
import pytest

from estimator_cases import BATCH, JOB, LIST, OWN, ROWS, TWIN, WORD, array, features, near, optimizer, ours, tf


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
        return self.dlrm(rows) if self.case["model"] == "DLRMClassifier" else self.machine(rows)

    def machine(self, rows):
        scope, fields_only = "linear/linear_model", self.case["model"] == "MFRegressor"
        linear = self.variable(f"{scope}/bias_weights", (1,), zero=True)
        numbers = (("x", self.data["x"][rows].reshape(-1, 1)), ("pair", self.data["pair"][rows]))
        for key, values in () if fields_only else numbers:
            linear = linear + values @ self.variable(f"{scope}/{key}/weights", (values.shape[1], 1), zero=True)
        for given in (JOB, TWIN) if fields_only else (WORD, JOB, LIST, TWIN):
            linear = linear + self.looked_up(f"{scope}/{given['key']}/weights", given, 1, rows, "sum", zero=True)
        fields = self.fields("dnn/input_from_feature_columns/input_layer", rows)
        pairs = sum(
            tf.reduce_sum(a * b, 1, keepdims=True) for at, a in enumerate(fields) for b in fields[:at]
        )
        if "hidden_units" not in self.case:
            return linear + pairs
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
        if self.case["model"].endswith("Regressor"):
            return tf.reduce_mean((tf.constant(label.reshape(-1, 1), tf.float32) - logits) ** 2)
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
    key = "predictions" if case["model"].endswith("Regressor") else "logits"
    found = [value for batch in done["predictions"] for value in batch[key]]
    assert len(found) == len(wanted) and max(abs(a - b) for a, b in zip(found, wanted)) < 1e-4
