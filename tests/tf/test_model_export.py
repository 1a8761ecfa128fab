"""Has TensorFlow load our models of layers, by both loaders, and holds their answers against ours.

Run with the interpreter of an environment that has tensorflow 2.15 and pytest, and
PHALANX_EXPORT_MODELS=path/to/phalanx_export_models (a binary of the crate phalanx-tests; target/debug unless set).
"""

import json
import os
import subprocess

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="needs tensorflow 2.15")

import numpy as np  # noqa: E402

v1 = tf.compat.v1
BINARY = os.path.join(os.path.dirname(__file__), "../../target/debug/phalanx_export_models")
MODELS = ["images", "words", "pairs", "deep", "raw"]


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    binary = os.environ.get("PHALANX_EXPORT_MODELS", BINARY)
    if not os.path.exists(binary):
        pytest.fail("set PHALANX_EXPORT_MODELS to the binary phalanx_export_models")
    folder = tmp_path_factory.mktemp("models")
    done = subprocess.run([binary, str(folder)], capture_output=True, timeout=60, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder, json.loads(done.stdout)


@pytest.mark.parametrize("name", MODELS)
def test_tensorflow_answers_what_we_do(name, exported):
    folder, report = exported[0] / name, exported[1][name]
    manifest = json.load(open(folder / "assets.extra/phalanx.json"))
    assert manifest["checked_rows"] == report["rows"] and manifest["largest_difference"] <= 1e-6
    given = {}
    for key, value in report["inputs"].items():
        dtype = object if value["dtype"] == "str" else value["dtype"]
        given[key] = np.array(value["values"], dtype).reshape([report["rows"], *value["dims"]])

    def check(answer):
        assert set(answer) == set(report["outputs"])
        for key, value in answer.items():
            expected = np.array(report["outputs"][key])
            assert np.ptp(expected) > 0.01, "an answer that is always the same proves nothing"
            assert np.max(np.abs(np.ravel(value) - expected)) < 1e-5, key

    loaded = tf.saved_model.load(str(folder))
    check({k: v.numpy() for k, v in loaded.signatures["serving_default"](**{k: tf.constant(v) for k, v in given.items()}).items()})
    assert any("moving" in variable.name for variable in loaded.variables) == (name in ("images", "deep"))
    with tf.Graph().as_default(), v1.Session() as session:
        signature = v1.saved_model.load(session, ["serve"], str(folder)).signature_def["serving_default"]
        feed = {signature.inputs[key].name: value for key, value in given.items()}
        check(session.run({key: info.name for key, info in signature.outputs.items()}, feed))
