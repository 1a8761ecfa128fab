"""Holds fit, evaluate and predict against Keras itself: the same model, weights and data in both.

Run with the interpreter of an environment that has tensorflow 2.15 and pytest, and
PHALANX_FIT_CASE=path/to/phalanx_fit_case (a binary of the crate phalanx-tests; target/debug unless set).
"""

import json

import numpy as np
import pytest

from fit_cases import (
    arrays,
    check,
    column,
    drawn,
    fitted,
    ours,
    perceptron,
    regression,
    rows,
    same_logs,
    same_weights,
    two_by_two,
)


@pytest.mark.parametrize("momentum", [None, 0.9])
def test_regression_with_an_uneven_last_batch(momentum):
    case = regression()
    if momentum:
        case["optimizer"]["momentum"] = momentum
    check(case)


SCHEDULES = [
    {"schedule": "exponential", "settings": [0.1, 5, 0.8]},
    {"schedule": "cosine", "settings": [0.1, 20]},
    {"schedule": "polynomial", "settings": [0.1, 30]},
    {"schedule": "piecewise", "boundaries": [3, 10, 25], "values": [0.02, 0.1, 0.05, 0.01]},
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule["schedule"])
@pytest.mark.parametrize("workers", [0, 1])
def test_learning_rate_schedules(schedule, workers):
    case = regression()
    case["optimizer"]["learning_rate"] = schedule
    if workers:
        case["workers"] = workers
    check(case)


@pytest.mark.parametrize("clip", [{"clipnorm": 0.3}, {"clipvalue": 0.1}, {"global_clipnorm": 0.4}], ids=str)
@pytest.mark.parametrize("workers", [0, 1])
def test_clipped_gradients(clip, workers):
    case = regression()
    case["optimizer"].update(clip, learning_rate=0.2)
    if workers:
        case["workers"] = workers
    check(case)


def test_validation_split():
    found, history = check(regression(validation_split=0.33))
    assert list(history.history) == ["loss", "mae", "val_loss", "val_mae"]


@pytest.mark.parametrize("weights", [False, True])
def test_validation_data_every_second_epoch(weights):
    case = regression(validation_freq=2)
    case["validation"] = rows([4], count=21, seed=9, weights=weights)
    found, history = check(case)
    assert len(history.history["val_loss"]) == 2


def test_an_initial_epoch():
    found, _ = check(regression(initial_epoch=3))
    assert found["epochs"] == [3, 4]


@pytest.mark.parametrize("weights", [False, True])
def test_binary_with_class_weights(weights):
    metrics = ["accuracy", "AUC", "Precision", "Recall"]
    case = {"model": perceptron(1, "sigmoid"), "data": rows([4], 2, 90, weights=weights), "metrics": metrics}
    case |= {"optimizer": {"kind": "adam", "learning_rate": 0.02}, "loss": "binary_crossentropy"}
    case["validation"] = rows([4], 2, 30, seed=9)
    case["fit"] = {"epochs": 5, "batch_size": 16, "class_weight": {"0": 0.5, "1": 2.5}}
    found, history = check(drawn(case))
    # Weights of classes are for learning only.
    assert history.history["loss"][-1] > 1.2 * history.history["val_loss"][-1]


def test_weighted_metrics():
    case = {"model": perceptron(1, "sigmoid"), "data": rows([4], 2, 90, weights=True), "metrics": ["mse", "AUC"]}
    case |= {"optimizer": {"kind": "adam", "learning_rate": 0.02}, "loss": "binary_crossentropy"}
    case |= {"weighted_metrics": ["accuracy", "MeanSquaredError", "Precision"], "fit": {"epochs": 3, "batch_size": 16}}
    case["fit"]["validation_split"] = 0.3
    found, history = check(drawn(case))
    assert history.history["mse"] != history.history["mean_squared_error"]


def test_class_weights_of_one_hot_labels():
    data = rows([4], 3, 60)
    ids = np.array(data["columns"][1]["values"])
    data["columns"][1] = column("y", np.eye(3, dtype=np.float32)[ids])
    case = {"model": perceptron(3, "softmax"), "data": data, "metrics": ["accuracy"]}
    case |= {"optimizer": {"kind": "sgd", "learning_rate": 0.1}, "loss": "categorical_crossentropy"}
    fit = {"epochs": 3, "batch_size": 16, "class_weight": {"0": 0.5, "1": 2.5, "2": 1.0}}
    check(drawn({**case, "fit": fit}))


@pytest.mark.parametrize("kind, rate", [("adagrad", 0.1), ("rmsprop", 0.005), ("adam", 0.01), ("sgd", 0.1)])
def test_a_convolutional_network_from_logits_with_sample_weights(kind, rate):
    model = {
        "input": [8, 8, 2],
        "layers": [
            {"kind": "Conv2D", "filters": 3, "activation": "relu"},
            {"kind": "MaxPooling2D"},
            {"kind": "Flatten"},
            {"kind": "Dense", "units": 4},
        ],
    }
    case = {"model": model, "data": rows([8, 8, 2], 4, weights=True), "loss": {"from_logits": True}}
    case |= {"optimizer": {"kind": kind, "learning_rate": rate}, "metrics": ["accuracy"]}
    check(drawn({**case, "fit": {"epochs": 5, "batch_size": 16}}))


def test_batch_normalization():
    model = perceptron()
    model["layers"].insert(1, {"kind": "BatchNormalization"})
    case = regression(validation_split=0.3)
    case["model"] = model
    check(drawn(case))


@pytest.mark.parametrize("weights", [False, True])
def test_two_inputs_and_two_outputs(weights):
    model, data, loss = two_by_two(weights)
    case = {"model": model, "data": data, "loss": loss, "metrics": ["accuracy"]}
    case |= {"optimizer": {"kind": "adam", "learning_rate": 0.02}, "fit": {"epochs": 5, "batch_size": 16}}
    case["fit"]["validation_split"] = 0.25
    found, history = check(drawn(case))
    names = ["loss", "price_loss", "kind_loss", "price_accuracy", "kind_accuracy"]
    assert list(history.history) == names + [f"val_{name}" for name in names]


def test_a_dataset():
    case = regression()
    del case["fit"]["batch_size"]
    case["data"]["batch"] = 7
    check(case)


def test_steps_of_a_dataset_that_repeats():
    case = regression(steps_per_epoch=4)
    del case["fit"]["batch_size"]
    case["data"] |= {"batch": 8, "repeat": True}
    case["validation"] = rows([4], count=20, seed=9)
    found, _ = check(case)
    assert found["iterations"] == 20


def test_steps_of_a_validation_begin_anew_every_time():
    case = regression(validation_steps=3)
    case["validation"] = rows([4], count=30, seed=9) | {"batch": 4, "repeat": True}
    check(case)


@pytest.mark.parametrize("weights", [False, True])
def test_sequences(weights):
    """Outputs of several rows for each example: all axes but the last are examples."""
    data = rows([5, 4], count=21, weights=weights)
    draw = np.random.default_rng(8)
    data["columns"][1] = column("y", draw.normal(size=(21, 5, 2)).astype(np.float32))
    case = regression(validation_split=0.3)
    check(drawn({**case, "model": perceptron(2) | {"input": [5, 4]}, "data": data}))


def test_sequences_of_classes():
    data = rows([5, 4], count=21)
    data["columns"][1] = column("y", np.random.default_rng(8).integers(0, 3, size=(21, 5)), integers=True)
    case = regression(validation_split=0.3)
    case |= {"model": perceptron(3) | {"input": [5, 4]}, "data": data, "loss": {"from_logits": True}}
    check(drawn({**case, "metrics": ["accuracy"]}))


def test_steps_of_arrays_go_on_from_epoch_to_epoch():
    found, _ = check(regression(steps_per_epoch=3))
    assert found["iterations"] == 15


def test_arrays_that_are_shorter_than_an_epoch_begin_again():
    case = regression(epochs=2, steps_per_epoch=10)
    found = ours(case)
    # Keras goes through arrays as often as there are epochs, and then stops early; a dataset is what goes on.
    assert int(fitted(case)[0].optimizer.iterations) == 14 and found["iterations"] == 20
    case = json.loads(json.dumps(case))
    del case["fit"]["batch_size"]
    case["data"] |= {"batch": 8, "repeat": True}
    model, history = fitted(case)
    same_logs(found["history"], history.history)
    same_weights(found, model)


@pytest.mark.parametrize("kind, rate", [("sgd", 0.05), ("adam", 0.01), ("adagrad", 0.1)])
def test_a_coordinator_with_rounds_of_one_worker(kind, rate):
    scheduler = {"kind": "LearningRateScheduler", "rates": [rate, rate / 2, rate / 8] * 2}
    case = regression(validation_split=0.3, callbacks=[scheduler])
    case["optimizer"] = {"kind": kind, "learning_rate": rate}
    check({**case, "workers": 1})


def test_a_coordinator_with_steps_and_two_outputs():
    model, data, loss = two_by_two(weights=True)
    case = {"model": model, "data": data, "loss": loss, "optimizer": {"kind": "rmsprop", "learning_rate": 0.01}}
    check({**drawn(case), "fit": {"epochs": 3, "steps_per_epoch": 4, "batch_size": 8}, "workers": 1})


def test_a_coordinator_with_early_stopping():
    stopping = {"kind": "EarlyStopping", "monitor": "val_loss", "patience": 1, "restore_best_weights": True}
    case = regression(validation_split=0.3, epochs=40, callbacks=[stopping])
    case["optimizer"]["learning_rate"] = 0.4
    found, history = check({**case, "workers": 1})
    assert 2 <= len(found["epochs"]) < 40


def test_what_keras_refuses_we_refuse():
    model, data, loss = two_by_two()
    case = {"model": model, "data": data, "loss": loss, "optimizer": {"kind": "sgd", "learning_rate": 0.1}}
    case["fit"] = {"epochs": 1, "class_weight": {"0": 1.0, "1": 2.0}}
    case = drawn(case)
    with pytest.raises(ValueError, match="class_weight` is only supported for Models with a single output"):
        fitted(case)
    assert "class weights were given to a model of several outputs" in ours(case, code=2)
    case = {**regression(), "metrics": ["mae", "mae"]}
    with pytest.raises(ValueError, match="Found two metrics with the same name: mae"):
        fitted(case)
    assert 'two metrics are called "mae"' in ours(case, code=2)
    case = regression(validation_split=0.3)
    case["data"]["batch"] = 5
    del case["fit"]["batch_size"]
    with pytest.raises(ValueError, match="`validation_split` is only supported for Tensors or NumPy arrays"):
        fitted(case)
    assert "validation_split was given beside a dataset" in ours(case, code=2)
