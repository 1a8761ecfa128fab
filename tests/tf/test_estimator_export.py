"""Has TensorFlow load exported estimators, by both loaders, and holds their answers against ours.

Run with the interpreter of an environment that has tensorflow 2.15 and pytest, and
PHALANX_ESTIMATOR_CASE=path/to/phalanx_estimator_case (a binary of the crate phalanx-tests; target/debug unless set).
"""

import json
import os

import numpy as np
import pytest

from estimator_cases import CASES, OWN, ROWS, SHARED, X, array, features, ours, tf


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
    "fm classifier",
    "fm regressor",
    "mf regressor",
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
