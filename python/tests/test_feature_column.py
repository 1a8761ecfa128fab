"""phalanx.feature_column: names, defaults and ids are TensorFlow's."""

import numpy as np
import pytest

import phalanx
from phalanx import estimator
from phalanx import feature_column as fc


def test_columns_have_the_names_of_tensorflow():
    job = fc.categorical_column_with_hash_bucket("occupation", 1000)
    age = fc.numeric_column("age")
    named = [
        (fc.bucketized_column(age, [18, 65]), "age_bucketized"),
        (fc.indicator_column(job), "occupation_indicator"),
        (fc.embedding_column(job, 8), "occupation_embedding"),
        (fc.crossed_column([fc.bucketized_column(age, [18]), "education"], 100), "age_bucketized_X_education"),
        (fc.weighted_categorical_column(job, "weight"), "occupation_weighted_by_weight"),
    ]
    assert [column.name for column, _ in named] == [name for _, name in named]
    one, two = fc.shared_embeddings([job, fc.categorical_column_with_hash_bucket("wish", 1000)], 4)
    assert (one.name, two.name) == ("occupation_shared_embedding", "wish_shared_embedding")
    assert fc.bucketized_column(age, [18, 65]).num_buckets == 3
    assert fc.categorical_column_with_vocabulary_list("c", ["a", "b"], num_oov_buckets=2).num_buckets == 4


def test_wrong_settings_are_errors():
    for wrong in (
        lambda: fc.bucketized_column(fc.categorical_column_with_identity("a", 3), [1]).num_buckets,
        lambda: fc.categorical_column_with_identity("a", 0).num_buckets,
        lambda: fc.numeric_column("a", dtype="float16"),
        lambda: fc.embedding_column(fc.categorical_column_with_identity("a", 3), 4, combiner="maen"),
        lambda: fc.embedding_column(fc.categorical_column_with_identity("a", 3), 4, initializer=np.zeros),
    ):
        with pytest.raises(phalanx.Error) as raised:
            wrong()
        assert raised.value.code == "PX0309", wrong


def test_a_normalizer_is_recorded_and_computed():
    def functions(x):
        return 2 - np.sqrt(np.clip((x + 1) * 3 / 4, 0, 10))

    steps = fc.recorded(functions)
    for x in (-5.0, 0.0, 2.5, 100.0):
        value = x
        for name, first, second in steps:
            value = {
                "scale": lambda v, a=first, b=second: (v - a) / b,
                "clip": lambda v, a=first, b=second: min(max(v, a), b),
                "sqrt": lambda v: v**0.5,
            }[name](value)
        assert value == pytest.approx(functions(x))
    assert [name for name, _, _ in fc.recorded(lambda x: np.minimum(np.maximum(np.log1p(-x), 0), 1))] == [
        "scale",
        "log1p",
        "clip",
        "clip",
    ]
    for wrong in (lambda x: x * x, np.sin, lambda _: 3.0, lambda x: x * 0, lambda x: 1 / x, lambda x: x > 1):
        with pytest.raises(phalanx.Error, match="normalizer_fn") as raised:
            fc.numeric_column("x", normalizer_fn=wrong)
        assert "Dataset.map" in raised.value.help


def test_the_features_of_examples():
    columns = [
        fc.numeric_column("age", shape=2),
        fc.indicator_column(fc.categorical_column_with_vocabulary_list("job", ["a", "b"])),
        fc.categorical_column_with_identity("id", 10),
    ]
    assert fc.make_parse_example_spec(columns) == {
        "age": ("float32", 2),
        "job": ("string", None),
        "id": ("int64", None),
    }


def test_every_kind_of_column_is_part_of_a_model(tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("a\nb\nc\n")
    number = fc.numeric_column("x", shape=2)
    file = fc.categorical_column_with_vocabulary_file("w", words, default_value=1)
    listed = fc.categorical_column_with_vocabulary_list("w", ["a", "b"], num_oov_buckets=3)
    by_id = fc.categorical_column_with_identity("i", 4, default_value=0)
    hashed = fc.categorical_column_with_hash_bucket("i", 5, dtype="int64")
    crossed = fc.crossed_column([by_id, "w"], 7, hash_key=3)
    weighted = fc.weighted_categorical_column(fc.categorical_column_with_vocabulary_list("v", [10, 20]), "weight")
    bucketized = fc.bucketized_column(fc.numeric_column("y"), [0.0, 1.0])
    wide = [number, listed, hashed, crossed, weighted, bucketized]
    deep = [
        fc.embedding_column(file, 2, combiner="sum", initializer=fc.TruncatedNormal(0.0, 0.1), max_norm=1.0),
        fc.embedding_column(by_id, 3, initializer=fc.RandomUniform(-1, 1), trainable=False),
        fc.indicator_column(listed),
        *fc.shared_embeddings(
            [fc.categorical_column_with_identity("i", 4), fc.categorical_column_with_identity("j", 4)],
            2,
            initializer=fc.Constant(0.5),
            shared_embedding_collection_name="both",
        ),
    ]
    features = {
        "x": [[1.0, 2.0], [3.0, 4.0]],
        "w": ["a", "zzz"],
        "i": [3, 2],
        "j": [1, 0],
        "v": [[10, 20], [20]],
        "weight": [[0.5, 1.5], [2.0]],
        "y": [-1.0, 5.0],
    }
    model = estimator.DNNLinearCombinedClassifier(
        tmp_path / "run", linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[3]
    )
    model.train(lambda: (features, [0, 1]), steps=2)
    linear = "linear/linear_model"
    assert model.get_variable_value(f"{linear}/x/weights").shape == (2, 1)
    kernel = model.get_variable_value("dnn/hiddenlayer_0/kernel")
    # Embeddings of 2, 3, 2 and 2 numbers, and 5 indicators.
    assert kernel.shape == (2 + 3 + 2 + 2 + 5, 3)
    names = " ".join(model.get_variable_names())
    for table in (
        "w_embedding",
        "i_embedding",
        "both",
        f"{linear}/i_X_w",
        f"{linear}/v_weighted_by_weight",
        f"{linear}/y_bucketized",
    ):
        assert table in names, table
    assert 0 <= next(model.predict(lambda: features))["probabilities"][1] <= 1
