"""Holds the canned estimators against TensorFlow's own: the same initial values, columns and batches in both.

Run with the interpreter of an environment that has tensorflow 2.15 and pytest, and
PHALANX_ESTIMATOR_CASE=path/to/phalanx_estimator_case (a binary of the crate phalanx-tests; target/debug unless set).
"""

import cases
import numpy as np
import pytest

from estimator_cases import (
    BATCH,
    BINARY_LABEL,
    CASES,
    HEADS,
    LINEAR,
    PAIR,
    ROWS,
    TARGET,
    Losses,
    X,
    columns,
    estimator,
    fc,
    features,
    input_fn,
    near,
    numbers,
    ours,
    tf,
)


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


@pytest.mark.parametrize("name", HEADS)
def test_heads_have_the_losses_metrics_and_predictions_of_tensorflow(name, tmp_path):
    case, theirs, losses, done = both(HEADS[name], tmp_path)
    assert len(losses) == -(-ROWS // BATCH) and len(set(losses)) > 1
    assert all(near(a, b) for a, b in zip(done["losses"], losses)), (done["losses"], losses)
    evaluation = {key: float(value) for key, value in theirs.evaluate(input_fn(case)).items()}
    assert set(done["evaluation"]) == set(evaluation)
    wrong = {k: (done["evaluation"][k], v) for k, v in evaluation.items() if not near(done["evaluation"][k], v, 2e-4)}
    assert not wrong
    predictions = list(theirs.predict(input_fn(case)))
    keys = {key: "/".join(key) if isinstance(key, tuple) else key for key in predictions[0]}
    assert set(done["predictions"][0]) == set(keys.values())
    for key, ours_key in keys.items():
        expected = np.concatenate([np.ravel(row[key]) for row in predictions]).tolist()
        found = [value for batch in done["predictions"] for value in batch[ours_key]]
        if isinstance(expected[0], bytes):
            assert found == [value.decode() for value in expected], key
        else:
            assert len(found) == len(expected) and all(near(a, b, 1e-3) for a, b in zip(found, expected)), key


@pytest.mark.parametrize("name", HEADS)
def test_exports_of_heads_have_the_signatures_of_tensorflow(name, tmp_path):
    case = {"features": features(), "batch": BATCH, **HEADS[name]}
    theirs = estimator(case, str(tmp_path / "theirs"))
    theirs.train(input_fn(case), max_steps=2)
    spec = fc.make_parse_example_spec(columns([*case.get("linear", []), *case.get("deep", [])]))
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    exported = theirs.export_saved_model(str(tmp_path / "export"), receiver).decode()
    done = ours({**case, "model_dir": str(tmp_path / "ours"), "steps": 2, "export": str(tmp_path / "own")})

    def signatures(folder):
        found = tf.saved_model.load(folder).signatures
        return {name: sorted(of.structured_outputs) for name, of in found.items()}

    assert signatures(done["exports"][0]) == signatures(exported)


def pairwise_auc(labels, scores, weights):
    """The weighted share of pairs in the right order; a tie counts half."""
    positive, negative = labels == 1, labels == 0
    right = (scores[positive][:, None] > scores[negative][None, :]) + 0.5 * (scores[positive][:, None] == scores[negative][None, :])
    pairs = weights[positive][:, None] * weights[negative][None, :]
    return (right * pairs).sum() / pairs.sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("group", ["word", "twin"])
def test_metrics_on_request_have_their_definitions(group, weighted, tmp_path):
    names = ["gauc", "calibration", "expected_calibration_error", "normalized_entropy"]
    case = {**CASES["wide and deep, faster"], "features": features(), "batch": BATCH, "group_by": group, "eval_metrics": names}
    if weighted:
        case["weight_column"] = "weight"
    done = ours({**case, "model_dir": str(tmp_path), "steps": 0, "evaluate": True, "predict": True})
    p = np.array([row for batch in done["predictions"] for row in batch["logistic"]], np.float64)
    y, groups = np.asarray(BINARY_LABEL, np.float64), np.array(case["features"][group]["values"])
    w = np.array(case["features"]["weight"]["values"]) if weighted else np.ones(ROWS)
    sums = [0.0, 0.0]
    for one in set(groups.tolist()):
        of = groups == one
        if len(set(y[of])) == 2:
            sums[0] += w[of].sum() * pairwise_auc(y[of], p[of], w[of])
            sums[1] += w[of].sum()
    bins = np.minimum((p * 10).astype(int), 9)
    gaps = [abs((w * (p - y))[bins == b].sum()) for b in range(10)]
    rate = (w * y).sum() / w.sum()
    losses = -(w * (y * np.log(p) + (1 - y) * np.log(1 - p))).sum() / w.sum()
    expected = {
        "gauc": sums[0] / sums[1],
        "calibration": (w * p).sum() / (w * y).sum(),
        "expected_calibration_error": sum(gaps) / w.sum(),
        "normalized_entropy": losses / -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate)),
    }
    assert len(set(groups.tolist())) > 3
    wrong = {name: (done["evaluation"][name], expected[name]) for name in names if not near(done["evaluation"][name], expected[name], 1e-5)}
    assert not wrong


def test_errors_of_a_regression_on_request(tmp_path):
    names = ["mean_absolute_error", "root_mean_squared_error", "calibration"]
    case = {**CASES["linear regressor"], "features": features(), "batch": BATCH, "eval_metrics": names}
    done = ours({**case, "model_dir": str(tmp_path), "steps": 0, "evaluate": True, "predict": True})
    p = np.array([row for batch in done["predictions"] for row in batch["predictions"]])
    for name, metric in zip(names, [tf.keras.metrics.MeanAbsoluteError(), tf.keras.metrics.RootMeanSquaredError()]):
        assert near(done["evaluation"][name], float(metric(TARGET, p)), 1e-5)
    assert near(done["evaluation"]["calibration"], p.mean() / TARGET.mean(), 1e-4)


def test_l2_is_that_of_keras(tmp_path):
    """A linear model of numbers from zeros, beside a Keras layer with a regularizer: losses include the penalty."""
    draw = np.random.default_rng(3)
    x, y = draw.normal(size=(ROWS, 2)).astype(np.float32), draw.normal(size=ROWS).astype(np.float32) * 4
    case = {"model": "LinearRegressor", "linear": [PAIR], "features": {"pair": numbers(x, 2)}, "label": numbers(y)}
    case |= {"optimizer": {"name": "sgd", "learning_rate": 0.1}, "l2": 0.3, "batch": BATCH, "steps": 0}
    done = ours({**case, "model_dir": str(tmp_path / "ours")})
    layer = tf.keras.layers.Dense(1, kernel_initializer="zeros", kernel_regularizer=tf.keras.regularizers.l2(0.3))
    model = tf.keras.Sequential([layer])
    model.compile(tf.keras.optimizers.legacy.SGD(0.1), "mse")
    losses = [model.train_on_batch(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, ROWS, BATCH)]
    assert all(near(a, b, 1e-5) for a, b in zip(done["losses"], losses)), (done["losses"], losses)


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


@pytest.mark.parametrize(
    "change, message",
    [
        ({"label": numbers(np.full(ROWS, 2))}, "outside the 2 classes"),
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
def test_mistakes_are_reported(change, message, tmp_path):
    case = {"model": "LinearClassifier", "linear": [X], "label": numbers(BINARY_LABEL), "features": features(), **change}
    case.update(batch=BATCH, model_dir=str(tmp_path / "ours"), steps=0)
    done = cases.run("phalanx_estimator_case", case)
    assert done.returncode in (1, 2), done.stderr
    assert message in done.stderr
