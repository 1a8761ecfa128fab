"""phalanx.compat: exactly the names of the page, and a clear error for others."""

from __future__ import annotations

import functools
import inspect
import re
from pathlib import Path

import pytest

import phalanx
from phalanx.compat import Namespace, tf

PAGE = (Path(__file__).resolve().parents[2] / "docs/if-you-know-tensorflow.md").read_text()


def names(namespace, path="tf"):
    for name in dir(namespace):
        thing = getattr(namespace, name)
        if isinstance(thing, Namespace):
            yield from names(thing, f"{path}.{name}")
        else:
            yield f"{path}.{name}", thing


def test_every_name_is_on_the_page_with_a_counterpart():
    rows = [line for line in PAGE.splitlines() if line.startswith("| `tf.")]
    with_counterpart = {
        name for row in rows if "`phalanx" in row.split(" | ")[1] for name in re.findall(r"`(tf\.[\w.]+)`", row.split(" | ")[0])
    }
    ours = {name for name, _ in names(tf)}
    assert len(ours) > 60
    # A module that is on the page stands for what is in it.
    unknown = {name for name in ours - with_counterpart if name.rpartition(".")[0] not in with_counterpart}
    assert not unknown
    # All feature columns and canned models exist; heads and model functions are Rust's.
    missing = {name for name in with_counterpart - ours if name.startswith(("tf.feature_column.", "tf.estimator."))}
    assert not {name for name in missing if re.search(r"Classifier|Regressor|_column\b|Spec$", name)} - {
        "tf.estimator.EstimatorSpec",
        "tf.estimator.classifier_parse_example_spec",
        "tf.feature_column.shared_embedding_columns",
        "tf.feature_column.input_layer",
        "tf.feature_column.linear_model",
    }


@pytest.mark.parametrize("path", ["Session", "estimator.Estimator", "nn.conv2d", "data.experimental.sample_from_datasets"])
def test_any_other_name_is_an_error_that_names_it_and_the_page(path):
    *modules, name = path.split(".")
    parent = functools.reduce(getattr, modules, tf)
    with pytest.raises(AttributeError, match=re.escape(f"tf.{path}") + ".*docs/if-you-know-tensorflow.md"):
        getattr(parent, name)
    assert not hasattr(tf, "placeholder")


def test_optimizers_of_version_1_have_its_parameters():
    assert tf.train.GradientDescentOptimizer(0.5).name == "sgd"
    assert tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.2) == phalanx.Ftrl(0.1, l1=0.2)
    assert tf.train.AdamOptimizer(beta1=0.8) == phalanx.Adam(0.001, 0.8, epsilon=1e-8)
    assert tf.train.RMSPropOptimizer(0.1, decay=0.5).learning_rate == pytest.approx(0.1)
    assert tf.train.MomentumOptimizer(0.1, 0.9).name == "momentum"


def test_signatures_are_those_of_tensorflow():
    dnn = list(inspect.signature(tf.estimator.DNNClassifier).parameters)
    assert dnn[:8] == [
        "hidden_units",
        "feature_columns",
        "model_dir",
        "n_classes",
        "weight_column",
        "label_vocabulary",
        "optimizer",
        "activation_fn",
    ]
    evaluation = inspect.signature(tf.estimator.EvalSpec).parameters
    defaults = {name: evaluation[name].default for name in ("steps", "start_delay_secs", "throttle_secs")}
    assert defaults == {"steps": 100, "start_delay_secs": 120, "throttle_secs": 600}


def test_a_csv_dataset_of_tensorflow(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1.5,0\n,1\n")
    rows = tf.data.experimental.make_csv_dataset(
        str(tmp_path / "a.csv"), 2, column_names=["x", "y"], column_defaults=[0.5, 0], label_name="y", shuffle=False
    )
    first = next(iter(rows))
    assert (first["x"].tolist(), first["y"].tolist()) == ([1.5, 0.5], [0, 1])
