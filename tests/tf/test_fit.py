"""Holds fit, evaluate, predict and the callbacks against Keras itself: the same model, weights and data in both.

Run with the interpreter of an environment that has tensorflow 2.15 and pytest, and
PHALANX_FIT_CASE=path/to/phalanx_fit_case (a binary of the crate phalanx-tests; target/debug unless set).
"""

import csv
import json
import math
import os
import subprocess

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="needs tensorflow 2.15")

import numpy as np  # noqa: E402

keras = tf.keras
layers = keras.layers
legacy = keras.optimizers.legacy
OPTIMIZERS = {"sgd": legacy.SGD, "adam": legacy.Adam, "adagrad": legacy.Adagrad, "rmsprop": legacy.RMSprop}
BINARY = os.path.join(os.path.dirname(__file__), "../../target/debug/phalanx_fit_case")


def ours(case, code=0):
    """What our program makes of a case; where it fails, what it says."""
    binary = os.environ.get("PHALANX_FIT_CASE", BINARY)
    if not os.path.exists(binary):
        pytest.fail("set PHALANX_FIT_CASE to the binary phalanx_fit_case")
    done = subprocess.run([binary], input=json.dumps(case), capture_output=True, timeout=120, text=True)
    assert done.returncode == code, (done.returncode, done.stderr[-2000:])
    return json.loads(done.stdout) if code == 0 else done.stderr


# The same case in Keras.


def made_layer(case):
    kind, name = case["kind"], case.get("name")
    if kind == "Dense":
        return layers.Dense(case["units"], activation=case.get("activation"), name=name)
    if kind == "Conv2D":
        return layers.Conv2D(case["filters"], 3, activation=case.get("activation"), name=name)
    if kind == "BatchNormalization":
        return layers.BatchNormalization(momentum=0.9)
    return getattr(layers, kind)(name=name)


def made_model(case):
    keras.backend.clear_session()
    if "inputs" not in case:
        return keras.Sequential([keras.Input(case["input"]), *map(made_layer, case["layers"])])
    named = {item["name"]: keras.Input(item["shape"], name=item["name"]) for item in case["inputs"]}
    for layer in case["layers"]:
        on = [named[name] for name in layer["on"]]
        named[layer["name"]] = made_layer(layer)(on if len(on) > 1 else on[0])
    return keras.Model([named[i["name"]] for i in case["inputs"]], [named[name] for name in case["outputs"]])


def made_loss(case):
    if isinstance(case, dict) and case.get("from_logits"):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return case["name"] if isinstance(case, dict) else case


def drawn(case, seed=3):
    """A case with initial weights: random, but the same for both."""
    model = made_model(case["model"])
    draw = np.random.default_rng(seed)
    case["weights"] = {}
    for weight in model.weights:
        values = draw.normal(size=weight.shape, scale=0.5).astype(np.float32)
        if "variance" in weight.name:
            values = np.abs(values) + 0.5
        case["weights"][weight.name.split(":")[0]] = values.ravel().tolist()
    return case


def compiled(case):
    model = made_model(case["model"])
    for weight in model.weights:
        weight.assign(np.reshape(case["weights"][weight.name.split(":")[0]], weight.shape))
    settings = dict(case["optimizer"])
    optimizer = OPTIMIZERS[settings.pop("kind")](**settings)
    loss, counts = case["loss"], None
    if isinstance(loss, list):
        loss, counts = [made_loss(item) for item in loss], [item.get("weight", 1.0) for item in loss]
    else:
        loss = made_loss(loss)
    model.compile(optimizer, loss, metrics=list(case.get("metrics", [])), loss_weights=counts)
    return model


def arrays(data, model):
    """x, y and the weights of the examples."""
    columns = {}
    for column in data["columns"]:
        dtype = np.int64 if column.get("integers") else np.float32
        columns[column["name"]] = np.array(column["values"], dtype).reshape([-1, *column["shape"]])
    weight = columns.pop("sample_weight", None)
    if "label" in data:
        y = columns.pop(data["label"])
        return columns.pop("x"), y, weight
    y = [columns.pop(name) for name in model.output_names]
    return [columns[name] for name in model.input_names], y, weight


def schedule(rates):
    return lambda epoch, rate: float(np.float32(rates[epoch]))


class FailInEpoch(keras.callbacks.Callback):
    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.epoch:
            raise RuntimeError("the case fails here")


def made_callback(case):
    case = dict(case)
    kind = case.pop("kind")
    if kind == "FailInEpoch":
        return FailInEpoch(case["epoch"])
    if kind == "LearningRateScheduler":
        return keras.callbacks.LearningRateScheduler(schedule(case["rates"]))
    path = case.pop("path", None)
    if kind == "CSVLogger":
        return keras.callbacks.CSVLogger(path, **case)
    if kind == "ModelCheckpoint":
        return keras.callbacks.ModelCheckpoint(path, save_weights_only=True, **case)
    if kind == "TensorBoard":
        # Without tracing or speeds Keras 2.15 forgets the numbers of batches.
        speeds = "update_freq" in case
        return keras.callbacks.TensorBoard(path, write_graph=False, write_steps_per_second=speeds, **case)
    if kind == "BackupAndRestore":
        return keras.callbacks.BackupAndRestore(path, **case)
    return getattr(keras.callbacks, kind)(**case)


def batches(data, model):
    x, y, weight = arrays(data, model)
    parts = (x, y) if weight is None else (x, y, weight)
    if isinstance(x, list):
        parts = (tuple(x), tuple(y), *parts[2:])
    dataset = tf.data.Dataset.from_tensor_slices(parts).batch(data["batch"])
    return dataset.repeat() if data.get("repeat") else dataset


def fitted(case, callbacks=None):
    """The model after the case's fit in Keras, and what fit returned."""
    model = compiled(case)
    settings = dict(case["fit"])
    settings["callbacks"] = [made_callback(item) for item in settings.pop("callbacks", []) if callbacks is None]
    settings["callbacks"] += callbacks or []
    settings.setdefault("shuffle", False)
    if "class_weight" in settings:
        settings["class_weight"] = {int(key): value for key, value in settings["class_weight"].items()}
    if "validation" in case:
        x, y, weight = arrays(case["validation"], model)
        settings["validation_data"] = (x, y) if weight is None else (x, y, weight)
    if "batch" in case["data"]:
        settings.pop("shuffle")
        history = model.fit(batches(case["data"], model), verbose=0, **settings)
    else:
        x, y, weight = arrays(case["data"], model)
        if weight is not None and "class_weight" in settings:
            # Keras 2.15 means to multiply them, and fails on the unknown size of the batch.
            classes = settings.pop("class_weight")
            weight = weight * np.array([classes[int(label)] for label in y], np.float32)
        history = model.fit(x, y, sample_weight=weight, verbose=0, **settings)
    return model, history


# Comparing.


def number(value):
    return float(value) if isinstance(value, str) else value


def same_logs(found, history, rtol=1e-4):
    """The same names, in the same order, and the same numbers; an epoch without a validation has none of its names."""
    fullest = max(found, key=len, default=[])
    assert [name for name, _ in fullest] == list(history)
    for name, expected in history.items():
        mine = [number(value) for logs in found for known, value in logs if known == name]
        np.testing.assert_allclose(mine, expected, rtol=rtol, atol=1e-6, err_msg=name)


def same_weights(found, model, tolerance=1e-4):
    found = {item["name"]: np.reshape(item["values"], item["shape"]) for item in found["weights"]}
    assert found.keys() == {weight.name.split(":")[0] for weight in model.weights}
    for weight in model.weights:
        mine = found[weight.name.split(":")[0]]
        np.testing.assert_allclose(mine, weight.numpy(), rtol=tolerance, atol=tolerance, err_msg=weight.name)


def evaluated(case, model):
    """Keras' evaluate and predict of our weights: what differs is then not what was learned."""
    if "batch" in case["data"]:
        data = batches(case["data"], model)
        return model.evaluate(data, verbose=0, return_dict=True), model.predict(data, verbose=0)
    x, y, weight = arrays(case["data"], model)
    size = case.get("fit", {}).get("batch_size")
    logs = model.evaluate(x, y, sample_weight=weight, batch_size=size, verbose=0, return_dict=True)
    return logs, model.predict(x, verbose=0)


def same_answers(found, case):
    model = compiled({**case, "weights": {item["name"]: item["values"] for item in found["weights"]}})
    logs, outputs = evaluated(case, model)
    assert [name for name, _ in found["evaluate"]] == list(logs)
    for name, value in found["evaluate"]:
        np.testing.assert_allclose(number(value), logs[name], rtol=1e-5, atol=1e-6, err_msg=name)
    outputs = outputs if isinstance(outputs, list) else [outputs]
    assert len(outputs) == len(found["predict"])
    for mine, theirs in zip(found["predict"], outputs):
        mine = np.reshape(mine["values"], [-1, *mine["shape"]])
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


def check(case):
    """Everything about a case that is drawn: history, weights, evaluate, predict."""
    found = ours(case)
    model, history = fitted(case)
    same_logs(found["history"], history.history)
    assert found["epochs"] == history.epoch
    assert found["iterations"] == int(model.optimizer.iterations)
    np.testing.assert_allclose(found["learning_rate"], float(model.optimizer.lr), rtol=1e-6)
    same_weights(found, model)
    if "evaluate" in found:
        same_answers(found, case)
    return found, history


# Cases.


def column(name, values, **more):
    return {"name": name, "shape": list(values.shape[1:]), "values": values.ravel().tolist(), **more}


def rows(shape, classes=0, count=50, seed=1, weights=False):
    """Examples of a label that follows from them: a number, or a class."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(count, *shape)).astype(np.float32)
    score = np.tanh(x.reshape(count, -1)[:, :3] @ np.array([1.0, -2.0, 0.5])) + draw.normal(size=count) * 0.3
    columns = [column("x", x)]
    if classes:
        y = np.digitize(score, np.linspace(-1, 1, classes + 1)[1:-1])
        columns.append(column("y", y, integers=True))
    else:
        columns.append(column("y", score.astype(np.float32)[:, None]))
    if weights:
        columns.append(column("sample_weight", draw.uniform(0.1, 3, size=count).astype(np.float32)))
    return {"columns": columns, "label": "y"}


def perceptron(units=1, activation=None, **more):
    hidden = {"kind": "Dense", "units": 6, "activation": "tanh"}
    return {"input": [4], "layers": [hidden, {"kind": "Dense", "units": units, "activation": activation}], **more}


def regression(**fit):
    """50 rows in batches of 8: the last has 2."""
    settings = {"epochs": 5, "batch_size": 8, **fit}
    optimizer = {"kind": "sgd", "learning_rate": 0.05}
    case = {"model": perceptron(), "data": rows([4]), "optimizer": optimizer, "loss": "mse", "metrics": ["mae"]}
    return drawn({**case, "fit": settings})


@pytest.mark.parametrize("momentum", [None, 0.9])
def test_regression_with_an_uneven_last_batch(momentum):
    case = regression()
    if momentum:
        case["optimizer"]["momentum"] = momentum
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


def two_by_two(weights=False):
    model = {
        "inputs": [{"name": "left", "shape": [3]}, {"name": "right", "shape": [2]}],
        "layers": [
            {"kind": "Dense", "units": 4, "activation": "relu", "name": "first", "on": ["left"]},
            {"kind": "Concatenate", "name": "joined", "on": ["first", "right"]},
            {"kind": "Dense", "units": 1, "name": "price", "on": ["joined"]},
            {"kind": "Dense", "units": 3, "activation": "softmax", "name": "kind", "on": ["joined"]},
        ],
        "outputs": ["price", "kind"],
    }
    draw = np.random.default_rng(4)
    left, right = (draw.normal(size=(40, n)).astype(np.float32) for n in (3, 2))
    price = (left[:, :1] - right[:, 1:] * 0.5).astype(np.float32)
    kind = np.digitize(left[:, 1] + right[:, 0], [-0.5, 0.5])
    columns = [column("left", left), column("right", right), column("price", price)]
    columns.append(column("kind", kind, integers=True))
    if weights:
        columns.append(column("sample_weight", draw.uniform(0.1, 3, size=40).astype(np.float32)))
    loss = [{"name": "mse", "weight": 0.7}, {"name": "sparse_categorical_crossentropy", "weight": 1.5}]
    return model, {"columns": columns}, loss


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


def test_steps_of_arrays_go_on_from_epoch_to_epoch():
    found, _ = check(regression(steps_per_epoch=3))
    assert found["iterations"] == 15


def test_arrays_that_are_too_short_for_the_steps_end_the_training():
    found, _ = check(regression(epochs=2, steps_per_epoch=10))
    # Two passes of 7 batches are 14 of the 20 steps.
    assert found["iterations"] == 14


# Callbacks.

# Where it is learned too fast, the loss goes up.
RATES = [0.1] * 3 + [0.5] * 2 + [0.1] * 3 + [0.6] * 3 + [0.05] * 3


def rough(*callbacks, epochs=14, rates=RATES, **fit):
    rates = [{"kind": "LearningRateScheduler", "rates": rates}] if rates else []
    case = regression(epochs=epochs, validation_split=0.3, callbacks=[*rates, *callbacks], **fit)
    case["optimizer"] = {"kind": "sgd", "learning_rate": 0.4}
    return case


# Settings, and how many epochs they leave.
STOPPING = [
    ({"patience": 2}, 5),
    ({}, 4),
    ({"patience": 3, "restore_best_weights": True}, 6),
    ({"patience": 2, "min_delta": 0.02, "restore_best_weights": True}, 5),
    ({"patience": 5, "min_delta": 0.02, "restore_best_weights": True}, 13),
    ({"patience": 4}, 12),
    ({"patience": 2, "baseline": 0.05}, 4),
    ({"patience": 4, "baseline": 0.3}, 12),
    ({"patience": 1, "start_from_epoch": 6, "restore_best_weights": True}, 9),
    ({"patience": 2, "monitor": "val_mae", "mode": "max", "restore_best_weights": True}, 3),
    ({"patience": 2, "monitor": "loss", "mode": "min", "min_delta": 0.01}, 5),
    ({"patience": 14, "restore_best_weights": True}, 14),
    ({"patience": 2, "monitor": "no_such_number"}, 14),
]


@pytest.mark.parametrize("settings, epochs", STOPPING, ids=str)
def test_early_stopping(settings, epochs):
    found, _ = check(rough({"kind": "EarlyStopping", **settings}))
    assert len(found["epochs"]) == epochs


PLATEAUS = [
    {"patience": 1, "factor": 0.5},
    {"patience": 2, "factor": 0.2, "cooldown": 3, "min_delta": 0.05},
    {"patience": 1, "factor": 0.1, "min_lr": 0.01, "min_delta": 0.05},
    {"patience": 1, "factor": 0.5, "monitor": "mae", "mode": "max"},
]


@pytest.mark.parametrize("settings", PLATEAUS, ids=str)
def test_reduce_lr_on_plateau(settings):
    found, history = check(rough({"kind": "ReduceLROnPlateau", **settings}, rates=None))
    assert len(set(history.history["lr"])) > 1


def test_learning_rate_scheduler():
    rates = [0.3, 0.1, 0.1, 0.02, 0.001]
    found, history = check(rough(epochs=5, rates=rates))
    assert list(history.history) == ["loss", "mae", "val_loss", "val_mae", "lr"]


def test_two_callbacks_see_each_others_numbers():
    rates = np.linspace(0.3, 0.05, 14).tolist()
    stopping = {"kind": "EarlyStopping", "monitor": "lr", "mode": "max", "patience": 3}
    found, _ = check(rough(stopping, rates=rates))
    assert len(found["epochs"]) == 4


def table(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("fit", [{}, {"validation_split": 0.3}, {"validation_split": 0.3, "validation_freq": 2}], ids=str)
def test_csv_logger(tmp_path, fit):
    mine, theirs = str(tmp_path / "mine.csv"), str(tmp_path / "theirs.csv")
    plateau = {"kind": "ReduceLROnPlateau", "monitor": "loss", "patience": 1, "factor": 0.003, "min_delta": 1.0}
    logger = {"kind": "CSVLogger", "path": mine}
    case = regression(callbacks=[plateau, logger], **fit)
    ours(case)
    fitted(case, [made_callback(plateau), made_callback({**logger, "path": theirs})])
    found, expected = table(mine), table(theirs)
    assert found[0] == expected[0] and len(found) == len(expected) == 6
    for mine_row, theirs_row in zip(found[1:], expected[1:]):
        for name, cell, theirs_cell in zip(found[0], mine_row, theirs_row, strict=True):
            if name in ("epoch", "lr") or theirs_cell == "NA":
                assert cell == theirs_cell
            else:
                np.testing.assert_allclose(float(cell), float(theirs_cell), rtol=1e-4, err_msg=name)
                assert cell in (repr(float(cell)), str(np.float32(cell)))
    assert any("e-" in cell for row in found[1:] for cell in row), "small rates are written as powers"


def test_csv_logger_appends(tmp_path):
    path = str(tmp_path / "log.csv")
    logger = {"kind": "CSVLogger", "path": path, "append": True}
    case = regression(epochs=2, callbacks=[logger])
    fitted(case)
    before = table(path)
    ours(case)
    found = table(path)
    assert found[:3] == before and len(found) == 5
    assert [row[0] for row in found] == ["epoch", "0", "1", "0", "1"]
    ours(case)
    fitted(case)
    assert [row[0] for row in table(path)] == ["epoch"] + ["0", "1"] * 4


@pytest.mark.parametrize("shrink", [1.0, 1e-4])
def test_terminate_on_nan(shrink):
    case = rough({"kind": "TerminateOnNaN"}, rates=None)
    case["optimizer"] = {"kind": "sgd", "learning_rate": 1e10 * shrink}
    case["model"]["layers"][0]["activation"] = None
    found = ours(case)
    model, history = fitted(case)
    assert found["iterations"] == int(model.optimizer.iterations) < 35
    assert found["epochs"] == history.epoch == [0]
    (logs,) = found["history"]
    assert [name for name, _ in logs] == list(history.history)
    assert not math.isfinite(number(dict(logs)["loss"])) and not math.isfinite(history.history["loss"][0])


CHECKPOINTS = [
    ({}, "w"),
    ({}, "w-{epoch}"),
    ({}, "deep/{epoch:03d}-{val_loss:.2f}-{mae:.3f}"),
    ({"save_best_only": True}, "best-{epoch:02d}"),
    ({"save_best_only": True, "monitor": "val_mae", "mode": "max"}, "best-{epoch}"),
    ({"save_freq": 3}, "{epoch}-{batch:02d}"),
    ({"save_freq": 4, "save_best_only": True, "monitor": "loss"}, "{epoch}-{batch}-{loss:.1f}"),
    ({"save_best_only": True, "monitor": "no_such_number"}, "never-{epoch}"),
]


def files(folder):
    """Every file below the folder, and what files of text say."""
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            place = os.path.relpath(os.path.join(path, name), folder)
            found[place] = open(os.path.join(path, name)).read() if name == "checkpoint" else None
    return found


@pytest.mark.parametrize("settings, template", CHECKPOINTS, ids=str)
def test_model_checkpoint(tmp_path, settings, template):
    callback = {"kind": "ModelCheckpoint", **settings}
    case = rough({**callback, "path": str(tmp_path / "mine" / template)}, epochs=6)
    found, theirs = ours(case), tmp_path / "theirs"
    rates = case["fit"]["callbacks"][0]
    model, _ = fitted(case, [made_callback(rates), made_callback({**callback, "path": str(theirs / template)})])
    mine = files(tmp_path / "mine")
    assert mine == files(theirs)
    if "never" in template:
        assert not mine
        return
    x, _, _ = arrays(case["data"], model)
    for name in sorted(mine):
        prefix, end = os.path.splitext(name)
        if end != ".index":
            continue
        # Keras loads what we wrote, whoever wrote it with the same numbers; and we what Keras did.
        bare = made_model(case["model"])
        bare.load_weights(str(tmp_path / "mine" / prefix)).assert_consumed()
        answers = bare.predict(x, verbose=0)
        model.load_weights(str(theirs / prefix)).expect_partial()
        np.testing.assert_allclose(answers, model.predict(x, verbose=0), rtol=1e-3, atol=1e-4)
        for folder, expected in (("mine", answers), ("theirs", model.predict(x, verbose=0))):
            loaded = ours({**case, "fit": None, "load": str(tmp_path / folder / prefix)})
            np.testing.assert_allclose(np.reshape(loaded["predict"][0]["values"], [-1, 1]), expected, atol=1e-5)
    newest = tf.train.latest_checkpoint(os.path.dirname(str(tmp_path / "mine" / template)))
    model.load_weights(newest).expect_partial()
    if not settings:
        same_weights(found, model, 1e-7)


@pytest.mark.parametrize("functional", [False, True])
def test_weights_go_both_ways(tmp_path, functional):
    case = rough(epochs=2)
    if functional:
        model, data, loss = two_by_two()
        case |= {"model": model, "data": data, "loss": loss, "metrics": ["mse"][:0]}
        case = drawn(case)
    case["save"] = str(tmp_path / "mine")
    found = ours(case)
    model = made_model(case["model"])
    model.load_weights(case["save"]).assert_consumed()
    same_weights(found, model, 0)
    model, _ = fitted({**case, "fit": {"epochs": 2}})
    model.save_weights(str(tmp_path / "theirs"))
    same_weights(ours({**case, "save": None, "fit": None, "load": str(tmp_path / "theirs")}), model, 0)


def events(folder):
    """(folder, tag, step) of every summary, with its value."""
    found = {}
    for path, _, names in os.walk(folder):
        for name in sorted(names):
            assert "tfevents" in name and name.endswith(".v2"), name
            for event in tf.compat.v1.train.summary_iterator(os.path.join(path, name)):
                for value in event.summary.value:
                    key = (os.path.relpath(path, folder), value.tag, event.step)
                    assert key not in found
                    found[key] = (value.metadata.plugin_data.plugin_name, tf.make_ndarray(value.tensor))
    # Ours says it with the first of a tag alone, which is what TensorBoard goes by.
    plugins = {key[:2]: plugin for key, (plugin, _) in found.items() if plugin}
    return {key: (plugins[key[:2]], value) for key, (_, value) in found.items() if "per_second" not in key[1]}


BOARDS = [
    ({}, {}),
    ({"validation_split": 0.3}, {}),
    ({"validation_split": 0.3}, {"update_freq": 1}),
    ({"validation_split": 0.3, "validation_freq": 2}, {"update_freq": 3, "histogram_freq": 2}),
]


@pytest.mark.parametrize("fit, settings", BOARDS, ids=str)
def test_tensor_board(tmp_path, fit, settings):
    rates = {"kind": "LearningRateScheduler", "rates": [0.1, 0.05, 0.02, 0.01, 0.005]}
    board = {"kind": "TensorBoard", **settings}
    case = regression(callbacks=[rates, {**board, "path": str(tmp_path / "mine")}], **fit)
    ours(case)
    fitted(case, [made_callback(rates), made_callback({**board, "path": str(tmp_path / "theirs")})])
    found, expected = events(tmp_path / "mine"), events(tmp_path / "theirs")
    assert found.keys() == expected.keys()
    assert ("train", "epoch_lr", 4) in found
    assert (("train", "batch_mae", 3) in found) == ("update_freq" in settings)
    assert (("validation", "epoch_loss", 3) in found) == ("validation_split" in fit)
    for key, (plugin, value) in found.items():
        assert plugin == expected[key][0], key
        if plugin == "scalars":
            np.testing.assert_allclose(value, expected[key][1], rtol=1e-4, err_msg=str(key))
        else:
            np.testing.assert_allclose(value[:, :2], expected[key][1][:, :2], rtol=1e-3, atol=1e-4, err_msg=str(key))
            assert value[:, 2].sum() == expected[key][1][:, 2].sum()


@pytest.mark.parametrize("freq", [None, 2])
def test_backup_and_restore(tmp_path, freq):
    """Fails at the beginning of epoch 3; the second fit goes on there, as Keras' does."""
    folders = {"mine": tmp_path / "mine", "theirs": tmp_path / "theirs"}
    backup = {"kind": "BackupAndRestore"} | ({"save_freq": freq} if freq else {})
    fail = {"kind": "FailInEpoch", "epoch": 3}
    case = regression(validation_split=0.3)
    whole = ours(case)

    def again(folder, *more):
        callbacks = [{**backup, "path": str(folders[folder])}, *more]
        return {**case, "fit": {**case["fit"], "callbacks": callbacks}}

    assert "the case fails here" in ours(again("mine", fail), code=2)
    with pytest.raises(RuntimeError):
        fitted(again("theirs", fail))
    for folder in folders.values():
        assert "chief/checkpoint" in files(folder) and any(".index" in name for name in files(folder))
    found = ours(again("mine"))
    model, history = fitted(again("theirs"))
    assert found["epochs"] == [3, 4]
    if freq is None:
        assert history.epoch == [3, 4]
        same_logs(found["history"], history.history)
        same_weights(found, model)
    else:
        # Where steps are saved Keras does not save epochs besides, and goes back further.
        assert history.epoch == [2, 3, 4]
    assert found["history"] == whole["history"][3:] and found["weights"] == whole["weights"]
    assert not files(folders["mine"])


# Errors.


def test_what_keras_refuses_we_refuse():
    model, data, loss = two_by_two()
    case = {"model": model, "data": data, "loss": loss, "optimizer": {"kind": "sgd", "learning_rate": 0.1}}
    case["fit"] = {"epochs": 1, "class_weight": {"0": 1.0, "1": 2.0}}
    case = drawn(case)
    with pytest.raises(ValueError, match="class_weight` is only supported for Models with a single output"):
        fitted(case)
    assert "class weights were given to a model of several outputs" in ours(case, code=2)
    case = regression(validation_split=0.3)
    case["data"]["batch"] = 5
    del case["fit"]["batch_size"]
    with pytest.raises(ValueError, match="`validation_split` is only supported for Tensors or NumPy arrays"):
        fitted(case)
    assert "validation_split was given beside a dataset" in ours(case, code=2)
