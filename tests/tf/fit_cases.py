"""What the suites of fit and its callbacks share: a case, run by our program and by Keras, and what is compared."""

import os

import cases
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="needs tensorflow 2.15")

import numpy as np  # noqa: E402

keras = tf.keras
layers = keras.layers
legacy = keras.optimizers.legacy
OPTIMIZERS = {"sgd": legacy.SGD, "adam": legacy.Adam, "adagrad": legacy.Adagrad, "rmsprop": legacy.RMSprop}


def ours(case, code=0):
    """What our program makes of a case, or its error."""
    return cases.answer("phalanx_fit_case", case, code)


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
    settings["learning_rate"] = cases.rate(settings["learning_rate"])
    optimizer = OPTIMIZERS[settings.pop("kind")](**settings)
    loss, counts = case["loss"], None
    if isinstance(loss, list):
        loss, counts = [made_loss(item) for item in loss], [item.get("weight", 1.0) for item in loss]
    else:
        loss = made_loss(loss)
    metrics = {name: list(case.get(name, [])) for name in ("metrics", "weighted_metrics")}
    model.compile(optimizer, loss, loss_weights=counts, **metrics)
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
        if "batch" in case["validation"]:
            settings["validation_data"] = batches(case["validation"], model)
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
    if not isinstance(case["optimizer"]["learning_rate"], dict):
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
