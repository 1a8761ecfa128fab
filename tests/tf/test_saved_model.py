"""Has TensorFlow load and run our SavedModels, and holds their answers against Keras and TensorFlow's own functions.

Run with the interpreter of an environment that has tensorflow 2.15 and pytest, and
PHALANX_SAVED_MODELS=path/to/saved_models (an example of the crate phalanx-formats).
"""

import ctypes
import os
import shutil
import subprocess

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="needs tensorflow 2.15")

import numpy as np  # noqa: E402

keras = tf.keras
layers = keras.layers
v1 = tf.compat.v1
MODELS = ["mlp", "cnn", "embedding", "examples", "columns", "activations", "vocabulary"]


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    binary = os.environ.get("PHALANX_SAVED_MODELS")
    if not binary:
        pytest.fail("set PHALANX_SAVED_MODELS to the binary")
    folder = tmp_path_factory.mktemp("models")
    subprocess.run([binary, str(folder)], check=True, timeout=60)
    return folder


def ask_2(folder, signature="serving_default", **inputs):
    """The answer by `tf.saved_model.load`."""
    function = tf.saved_model.load(str(folder)).signatures[signature]
    inputs = {name: tf.constant(value) for name, value in inputs.items()}
    return {name: value.numpy() for name, value in function(**inputs).items()}


def ask_1(folder, signature="serving_default", **inputs):
    """The answer by `tf.compat.v1.saved_model.load`, which TensorFlow 1 has."""
    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.load(session, ["serve"], str(folder))
        found = meta.signature_def[signature]
        feed = {found.inputs[name].name: value for name, value in inputs.items()}
        return session.run({name: info.name for name, info in found.outputs.items()}, feed)


def check(folder, expected, signature="serving_default", **inputs):
    """Both loaders must give what is expected, and nothing else."""
    for ask in (ask_2, ask_1):
        found = ask(folder, signature, **inputs)
        assert set(found) == set(expected), ask.__name__
        for name, value in expected.items():
            value = np.asarray(value)
            assert found[name].shape == value.shape, (ask.__name__, name)
            if value.dtype.kind == "f":
                assert found[name].dtype == np.float32
                np.testing.assert_allclose(found[name], value, rtol=1e-6, atol=1e-6, err_msg=f"{ask.__name__} {name}")
            else:
                assert found[name].tolist() == value.tolist(), (ask.__name__, name)


def variables(folder):
    reader = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def draw(*shape):
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


def test_mlp(models):
    x, w = draw(6, 4), variables(models / "mlp")
    assert sorted(w) == ["hidden/bias", "hidden/kernel", "logits/bias", "logits/kernel"]
    assert len({value for array in w.values() for value in array.ravel()}) > 20
    hidden = np.maximum(x @ w["hidden/kernel"] + w["hidden/bias"], 0)
    logits = hidden @ w["logits/kernel"] + w["logits/bias"]
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    check(models / "mlp", {"probabilities": exp / exp.sum(axis=1, keepdims=True)}, x=x)
    check(models / "mlp", {"logits": logits, "class": logits.argmax(axis=1)}, "more", x=x)


def set_layers(model, w, names):
    """Gives the layers of these names the variables `NAME/WEIGHT`."""
    for name in names:
        layer = model.get_layer(name)
        layer.set_weights([w[f"{name}/{weight.name.split('/')[-1].split(':')[0]}"] for weight in layer.weights])


def test_cnn(models):
    images = keras.Input((9, 9, 2))
    x = layers.Conv2D(4, 3, padding="same", name="first")(images)
    x = layers.ReLU()(layers.BatchNormalization(name="norm", epsilon=1e-3)(x))
    x = layers.Conv2D(3, 2, strides=2, name="second")(layers.MaxPool2D(2, padding="same")(x))
    x = layers.AveragePooling2D(2, strides=1, padding="same")(x)
    x = layers.Conv2D(3, 2, dilation_rate=2, padding="same", use_bias=False, name="apart")(x)
    x = layers.Concatenate()([layers.Flatten()(x), layers.GlobalAveragePooling2D()(x)])
    model = keras.Model(images, layers.Dense(5, name="logits")(x))
    set_layers(model, variables(models / "cnn"), ["first", "norm", "second", "apart", "logits"])
    images = draw(3, 9, 9, 2)
    check(models / "cnn", {"logits": model(images, training=False)}, images=images)


def test_embedding(models):
    ids, numbers = keras.Input((3,), dtype=tf.int64), keras.Input((2,))
    items = layers.Embedding(50, 4, name="items")(ids)
    likeness = layers.Flatten()(tf.matmul(items, items, transpose_b=True))
    x = layers.Concatenate()([layers.Flatten()(items), numbers, likeness])
    x = layers.LayerNormalization(name="norm", epsilon=1e-3)(x)
    model = keras.Model([ids, numbers], layers.Dense(1, name="score")(x)[:, 0])
    set_layers(model, variables(models / "embedding"), ["items", "norm", "score"])
    ids, numbers = np.array([[0, 1, 49], [7, 7, 7], [3, 2, 30]]), draw(3, 2)
    check(models / "embedding", {"score": model([ids, numbers]), "step": 1200}, ids=ids, numbers=numbers)


def example(**features):
    def feature(values):
        if isinstance(values[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        if isinstance(values[0], int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode() for value in values]))

    features = {name: feature(values) for name, values in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


ROWS = [
    {"age": [19.5], "hours": [10.0], "job": ["clerk"], "country": ["FR"], "tags": ["a", "b", "a"], "clicks": [0, 3]},
    {"age": [20.0], "job": ["\u00e9t\u00e9"], "country": ["somewhere"], "tags": ["c"], "clicks": [9]},
    {"age": [61.0], "hours": [0.0], "job": [""], "country": ["DE"], "clicks": [1, 1, 2]},
    {"age": [40.0], "hours": [-120.0], "job": ["smith"], "country": ["elsewhere"]},
]


def reference(w):
    """The logits of ROWS, computed row by row."""
    bucket = lambda text, count: int(tf.strings.to_hash_bucket_fast(text, count))  # noqa: E731
    logits = []
    for row in ROWS:
        parts = [row["age"], row.get("hours", [40.0]), np.eye(4)[np.digitize(row["age"][0], [20.0, 40.0, 60.0])]]
        parts.append(w["jobs/embedding_weights"][bucket(row["job"][0], 10)])
        country = row["country"][0]
        known = ["DE", "FR", "JP"]
        parts.append(np.eye(5)[known.index(country) if country in known else 3 + bucket(country, 2)])
        bag = [w["tags/embedding_weights"][bucket(tag, 20)] for tag in row.get("tags", [])]
        total, count = np.sum(bag, axis=0) if bag else np.zeros(3), max(len(bag), 1)
        parts += [total, total / count, total / np.sqrt(count)]
        parts.append(np.array([row.get("clicks", []).count(value) for value in range(4)]))
        logits.append(np.concatenate(parts) @ (w["linear/kernel"] * np.float32(0.1)))
    return np.array(logits, np.float32)


def test_serialized_examples(models):
    folder = models / "examples"
    rows = np.array([example(**row) for row in ROWS], object)
    logits = reference(variables(folder))
    assert (logits > 0).any() and (logits < 0).any()
    logistic = 1 / (1 + np.exp(-logits))
    scores = np.concatenate([1 - logistic, logistic], axis=1)
    classes = np.array([[b"0", b"1"]] * len(ROWS), object)
    for name in ("serving_default", "classification"):
        check(folder, {"classes": classes, "scores": scores}, name, inputs=rows)
    check(folder, {"outputs": logistic}, "regression", inputs=rows)
    chosen = np.array([[b"1" if one > 0 else b"0"] for one in logits], object)
    predictions = {"logits": logits, "logistic": logistic, "probabilities": scores, "classes": chosen}
    check(folder, predictions, "predict", examples=rows)
    # One row, and none.
    check(folder, {"outputs": logistic[:1]}, "regression", inputs=rows[:1])
    check(folder, {"outputs": logistic[:0]}, "regression", inputs=rows[:0])
    incomplete = np.array([example(age=[1.0])], object)
    for ask in (ask_2, ask_1):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Feature: (job|country)"):
            ask(folder, inputs=incomplete)


PEOPLE = [
    {"age": [19.0], "level": [3], "city": ["Rome"], "job": ["a", "b"], "tags": ["x", "q", "y"], "weights": [1.0, 5.0, 2.0]},
    {"age": [20.0], "level": [9], "job": ["c"], "tags": ["z", "z"], "weights": [0.5, -1.0]},
    {"age": [77.0], "city": ["Oslo"], "job": ["a"], "tags": ["q"], "weights": [1.0]},
    {"age": [40.0], "level": [0], "city": ["Rome"], "job": ["b"]},
]


def test_what_feature_columns_do(models):
    """Against tf.feature_column itself, column by column."""
    folder, fc = models / "columns", tf.feature_column
    table = variables(folder)["tags/embedding_weights"]
    tags = fc.categorical_column_with_vocabulary_list("tags", ["x", "y", "z"])
    weighted = fc.weighted_categorical_column(tags, "weights")
    city = fc.categorical_column_with_hash_bucket("city", 5)
    bucketized = fc.bucketized_column(fc.numeric_column("age"), [20.0, 40.0])
    level = fc.categorical_column_with_identity("level", 4, default_value=2)
    columns = {
        "words": fc.indicator_column(fc.crossed_column(["job", "tags", "city"], 17)),
        "mixed": fc.indicator_column(fc.crossed_column([bucketized, "job"], 13, hash_key=77)),
        "level": fc.indicator_column(level),
        "tags": fc.indicator_column(tags),
    }
    start = tf.constant_initializer(table)
    for combiner in ("sum", "mean", "sqrtn"):
        columns[combiner] = fc.embedding_column(tags, 2, combiner, start)
        columns[f"weighted_{combiner}"] = fc.embedding_column(weighted, 2, combiner, start)
    rows = np.array([example(**row) for row in PEOPLE], object)
    spec = fc.make_parse_example_spec([*columns.values(), city])
    expected = {
        name: layers.DenseFeatures([column])(tf.io.parse_example(rows, spec)) for name, column in columns.items()
    }
    assert all(np.abs(value).sum() > 0 for value in expected.values())
    check(folder, expected, examples=rows)


def test_methods_are_those_that_servers_want(models):
    with tf.Graph().as_default(), v1.Session() as session:
        found = v1.saved_model.load(session, ["serve"], str(models / "examples")).signature_def
    assert {name: signature.method_name for name, signature in found.items()} == {
        "serving_default": "tensorflow/serving/classify",
        "classification": "tensorflow/serving/classify",
        "regression": "tensorflow/serving/regress",
        "predict": "tensorflow/serving/predict",
    }
    for kind in ("classification", "regression", "predict"):
        assert v1.saved_model.is_valid_signature(found[kind])


def test_activations(models):
    x = draw(4, 5) * 2
    nn = tf.nn
    expected = {
        "relu": nn.relu(x),
        "elu": nn.elu(x),
        "selu": nn.selu(x),
        "softplus": nn.softplus(x),
        "softsign": nn.softsign(x),
        "sigmoid": nn.sigmoid(x),
        "tanh": nn.tanh(x),
        "softmax": nn.softmax(x),
        "log_softmax": nn.log_softmax(x),
        "leaky_relu": nn.leaky_relu(x, 0.3),
        "swish": nn.swish(x),
        "gelu": nn.gelu(x),
        "gelu_approximate": nn.gelu(x, approximate=True),
        "mish": keras.activations.mish(x),
        "hard_sigmoid": keras.activations.hard_sigmoid(tf.constant(x)),
        "exp": np.exp(x),
        "square": x * x,
        "neg": -x,
        "abs": abs(x),
        "erf": tf.math.erf(x),
        "log_exp": x,
        "sqrt_abs": np.sqrt(abs(x)),
        "clipped": np.clip(x, -0.5, 0.5),
        "half": x / 2,
        "largest": x.max(axis=1, keepdims=True),
        "turned": x.T,
        "whole": x.astype(np.int32),
    }
    check(models / "activations", expected, x=x)


def test_a_table_from_a_file_beside_the_model_wherever_it_lies(models, tmp_path):
    words = np.array([b"blue", b"red", b"", b"pink"], object)
    check(models / "vocabulary", {"ids": np.array([2, 0, -1, -1])}, words=words)
    moved = tmp_path / "moved"
    shutil.copytree(models / "vocabulary", moved)
    (moved / "assets" / "words.txt").write_text("pink\nred\n")
    check(moved, {"ids": np.array([-1, 1, -1, 0])}, words=words)


def test_two_models_with_the_same_names_do_not_meet(models):
    one, two = (tf.saved_model.load(str(models / "mlp")) for _ in range(2))
    cnn = tf.saved_model.load(str(models / "cnn"))
    x = tf.constant(draw(2, 4))
    before = one.signatures["serving_default"](x=x)["probabilities"].numpy()
    for variable in [*two.variables, *cnn.variables]:
        variable.assign(tf.zeros_like(variable))
    np.testing.assert_array_equal(one.signatures["serving_default"](x=x)["probabilities"].numpy(), before)
    np.testing.assert_allclose(two.signatures["serving_default"](x=x)["probabilities"].numpy(), np.full((2, 3), 1 / 3))
    assert sorted(variable.name for variable in two.variables) == [f"{name}:0" for name in sorted(variables(models / "mlp"))]


def test_tensorflow_saves_it_again(models, tmp_path):
    folder = models / "cnn"
    with tf.Graph().as_default(), v1.Session() as session:
        v1.saved_model.load(session, ["serve"], str(folder))
        names = {variable.name[:-2] for variable in v1.global_variables()}
        assert names == set(variables(folder))
        assert {variable.name[:-2] for variable in v1.trainable_variables()} == {
            name for name in names if "moving" not in name
        }
        # By our own nodes, and by TensorFlow's.
        saved = session.run("save/control_dependency:0", {"save/Const:0": str(tmp_path / "ours")})
        assert saved.decode() == str(tmp_path / "ours")
        v1.train.Saver().save(session, str(tmp_path / "theirs"), write_meta_graph=False)
        # What an initializer gives before the checkpoint is read.
        session.run(v1.global_variables_initializer())
        assert not any(value.any() for value in session.run(v1.global_variables()))
    for prefix in ("ours", "theirs"):
        reader = tf.train.load_checkpoint(str(tmp_path / prefix))
        for name, value in variables(folder).items():
            assert reader.get_tensor(name).tobytes() == value.tobytes()


@pytest.mark.parametrize("name", MODELS)
def test_the_loader_that_servers_use_takes_it(models, name):
    """TensorFlow Serving loads models in C++: the same code behind the C API, which restores, and fills the tables."""
    from tensorflow.python import _pywrap_tensorflow_internal as internal

    c = ctypes.CDLL(internal.__file__)
    for function in ("TF_NewStatus", "TF_NewSessionOptions", "TF_NewGraph", "TF_LoadSessionFromSavedModel"):
        getattr(c, function).restype = ctypes.c_void_p
    c.TF_Message.restype = ctypes.c_char_p
    load = c.TF_LoadSessionFromSavedModel
    load.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p), ctypes.c_int]
    load.argtypes += [ctypes.c_void_p] * 3

    def attempt(tag):
        status, options, graph = c.TF_NewStatus(), c.TF_NewSessionOptions(), c.TF_NewGraph()
        tags = (ctypes.c_char_p * 1)(tag)
        load(options, None, str(models / name).encode(), tags, 1, graph, None, status)
        return c.TF_GetCode(ctypes.c_void_p(status)), c.TF_Message(ctypes.c_void_p(status))

    assert attempt(b"serve") == (0, b"")
    assert attempt(b"train")[0] == tf.errors.NOT_FOUND


def test_a_damaged_checkpoint_is_refused(models, tmp_path):
    shutil.copytree(models / "mlp", tmp_path / "damaged")
    data = tmp_path / "damaged" / "variables" / "variables.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[10] ^= 1
    data.write_bytes(content)
    with pytest.raises(tf.errors.DataLossError):
        ask_1(tmp_path / "damaged", x=draw(1, 4))
