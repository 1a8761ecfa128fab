"""Holds our Keras weights against Keras itself: it loads what we write, we read what it saves, bit by bit.

Run with the interpreter of an environment that has tensorflow 2.15 and pytest, and
PHALANX_KERAS_WEIGHTS=path/to/keras_weights (an example of the crate phalanx-formats).
"""

import json
import os
import subprocess

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="needs tensorflow 2.15")

import numpy as np  # noqa: E402

keras = tf.keras
layers = keras.layers


def run(*arguments, text=None, code=0):
    binary = os.environ.get("PHALANX_KERAS_WEIGHTS")
    if not binary:
        pytest.fail("set PHALANX_KERAS_WEIGHTS to the binary")
    done = subprocess.run([binary, *arguments], input=text, capture_output=True, timeout=60, text=True)
    assert done.returncode == code, (done.returncode, done.stderr[-2000:])
    return json.loads(done.stdout) if done.stdout else done.stderr


def sequential():
    return keras.Sequential(
        [
            layers.Embedding(7, 3, input_length=4),
            layers.Flatten(),
            layers.Dense(5, activation="relu", name="hidden"),
            layers.BatchNormalization(),
            layers.Dropout(0.1),
            layers.Dense(2, use_bias=False),
        ]
    )


def functional():
    a, b = keras.Input((3,)), keras.Input((6, 6, 1))
    c = layers.GlobalAveragePooling2D()(layers.MaxPool2D()(layers.Conv2D(4, 3, name="conv")(b)))
    shared = layers.Dense(4, name="shared")
    x = layers.Concatenate()([shared(layers.LayerNormalization()(a)), c, shared(c[:, :3])])
    return keras.Model([a, b], [layers.Dense(1)(x), layers.Dense(2)(x)])


def nested():
    inner = keras.Sequential([layers.Dense(3, name="in"), layers.Dense(2, name="out")])
    a = keras.Input((5, 2))
    x = layers.Bidirectional(layers.LSTM(3), name="both")(a)
    return keras.Model(a, inner(layers.Dense(2)(x)))


MODELS = [sequential, functional, nested]


def built(make, seed):
    keras.utils.set_random_seed(seed)
    model = make()
    if isinstance(model, keras.Sequential):
        model.build((None, 4))
    draw = np.random.default_rng(seed)
    model.set_weights([draw.normal(size=weight.shape).astype(np.float32) for weight in model.get_weights()])
    return model


def paths(layer, folder):
    """The attributes below a layer that lead to variables, as TensorFlow's own checkpoint of the layer names them."""
    end = "/.ATTRIBUTES/VARIABLE_VALUE"
    reader = tf.train.load_checkpoint(tf.train.Checkpoint(root=layer).write(str(folder / "layers" / layer.name)))
    return {name[: -len(end)] for name in reader.get_variable_to_shape_map() if name.endswith(end)}


def follow(layer, path):
    for name in path.split("/"):
        layer = layer._lookup_dependency(name)
    return layer


def described(model, folder, **more):
    """A model as our program takes it; the folder is for checkpoints of its layers."""
    answer = []
    for layer in model.layers:
        weights = [(path, follow(layer, path)) for path in sorted(paths(layer, folder))] if layer.weights else []
        weights = [
            {"attribute": path, "shape": list(weight.shape), "values": weight.numpy().ravel().tolist()}
            for path, weight in weights
        ]
        answer.append({"name": layer.name, "weights": weights})
    return json.dumps({"layers": answer, **more})


def same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("more", [{}, {"save_counter": 3}])
def test_keras_loads_ours(tmp_path, make, more):
    source, target = built(make, 1), built(make, 2)
    prefix = str(tmp_path / "weights")
    run("write", prefix, text=described(source, tmp_path, **more))
    status = target.load_weights(prefix)
    status.assert_existing_objects_matched()
    status.expect_partial()
    same(target.get_weights(), source.get_weights())
    if not more:
        status.assert_consumed()


@pytest.mark.parametrize("make", MODELS)
def test_a_checkpoint_object_restores_ours(tmp_path, make):
    source, target = built(make, 1), built(make, 2)
    prefix = str(tmp_path / "ckpt-3")
    run("write", prefix, text=described(source, tmp_path, under="model", save_counter=3))
    checkpoint = tf.train.Checkpoint(model=target)
    checkpoint.restore(prefix).assert_consumed()
    same(target.get_weights(), source.get_weights())
    assert int(checkpoint.save_counter) == 3
    # The next save goes on counting.
    assert checkpoint.save(str(tmp_path / "ckpt")).endswith("ckpt-4")


def test_a_model_that_was_never_built_restores_ours_when_it_is(tmp_path):
    source = built(sequential, 1)
    prefix = str(tmp_path / "weights")
    run("write", prefix, text=described(source, tmp_path))
    target = keras.Sequential([type(layer).from_config(layer.get_config()) for layer in source.layers])
    target.load_weights(prefix)
    ids = np.array([[0, 1, 2, 6]])
    np.testing.assert_array_equal(target(ids).numpy(), source(ids).numpy())


@pytest.mark.parametrize("make", MODELS)
def test_our_keys_are_those_of_keras(tmp_path, make):
    model = built(make, 1)
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    model.save_weights(theirs)
    run("write", ours, text=described(model, tmp_path))
    a, b = (tf.train.load_checkpoint(prefix) for prefix in (ours, theirs))
    assert a.get_variable_to_shape_map() == b.get_variable_to_shape_map()
    for name in a.get_variable_to_shape_map():
        if name != "_CHECKPOINTABLE_OBJECT_GRAPH":
            assert a.get_tensor(name).tobytes() == b.get_tensor(name).tobytes()


def check_read(prefix, model):
    """What we read is every weight of the model, in the order of its layers."""
    found = run("read", prefix)
    assert [item["layer"] for item in found] == sorted(item["layer"] for item in found)
    expected = [(place, weight) for place, layer in enumerate(model.layers) for weight in layer.weights]
    assert len(found) == len(expected)
    by_name = {(place, weight.name.split(":")[0]): weight for place, weight in expected}
    assert len(by_name) == len(expected)
    for item in found:
        weight = by_name[item["layer"], item["name"]]
        value = np.array(item["values"], item["dtype"]).reshape(item["shape"])
        assert follow(model.layers[item["layer"]], item["attribute"]) is weight
        same([value], [weight.numpy()])
    return found


@pytest.mark.parametrize("make", MODELS)
def test_we_read_what_keras_saves(tmp_path, make):
    model = built(make, 1)
    model.save_weights(str(tmp_path / "weights"))
    check_read(str(tmp_path / "weights"), model)
    tf.train.Checkpoint(model=model, step=tf.Variable(1)).write(str(tmp_path / "object"))
    check_read(str(tmp_path / "object"), model)


def test_the_order_and_the_names_are_those_of_keras(tmp_path):
    model = built(sequential, 1)
    model.save_weights(str(tmp_path / "weights"))
    found = run("read", str(tmp_path / "weights"))
    assert [(item["layer"], item["attribute"], item["name"].split("/")[1]) for item in found] == [
        (0, "embeddings", "embeddings"),
        (2, "kernel", "kernel"),
        (2, "bias", "bias"),
        (3, "gamma", "gamma"),
        (3, "beta", "beta"),
        (3, "moving_mean", "moving_mean"),
        (3, "moving_variance", "moving_variance"),
        (5, "kernel", "kernel"),
    ]


def test_we_read_a_trained_model_with_its_optimizer(tmp_path):
    model = built(sequential, 1)
    model.compile("adam", "mse")
    model.fit(np.zeros((8, 4)), np.zeros((8, 2)), verbose=0)
    prefix = str(tmp_path / "weights")
    model.save_weights(prefix)
    found = check_read(prefix, model)
    assert not any("Adam" in item["name"] for item in found)


def test_integers_among_the_weights_come_too(tmp_path):
    model = keras.Sequential([layers.Normalization(input_shape=(2,)), layers.Dense(1)])
    model.layers[0].adapt(np.array([[1.0, 2.0], [3.0, 5.0]]))
    model.save_weights(str(tmp_path / "weights"))
    found = {item["attribute"]: item for item in run("read", str(tmp_path / "weights"))}
    assert found["mean"]["values"] == [2.0, 3.5] and found["count"]["dtype"] == "int64"


def test_a_checkpoint_without_layers_is_refused(tmp_path):
    prefix = tf.train.Checkpoint(step=tf.Variable(1)).write(str(tmp_path / "object"))
    assert "PX0513" in run("read", prefix, code=1)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable("v", initializer=1.0)
        session.run(tf.compat.v1.global_variables_initializer())
        prefix = tf.compat.v1.train.Saver().save(session, str(tmp_path / "named"))
    assert "was saved by name" in run("read", prefix, code=1)
