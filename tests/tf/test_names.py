"""Every name of "If you know TensorFlow" is TensorFlow's, and every public name of TensorFlow's modules is on the page."""

import pathlib
import re

import pytest
import tensorflow as tf

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/if-you-know-tensorflow.md").read_text()
SPANS = re.findall(r"`([^`]+)`", PAGE)
NAMES = {span for span in SPANS if re.fullmatch(r"tf(\.\w+)+", span)}

# Modules of which the page has every name; version 1's names stand beside those of version 2.
MODULES = [
    "train",
    "estimator",
    "estimator.experimental",
    "estimator.export",
    "distribute",
    "distribute.experimental",
    "distribute.coordinator",
    "distribute.experimental.coordinator",
    "distribute.experimental.partitioners",
    "distribute.cluster_resolver",
    "feature_column",
    "data",
    "data.experimental",
]
# Where only what is below has a row, or all of it has the same one.
FOLDERS = {"tf.estimator.experimental", "tf.estimator.export", "tf.distribute.experimental", "tf.distribute.cluster_resolver",
           "tf.data.experimental"}


def find(path, start=tf):
    """What `a.b.c` is below `start`; None where it is not there."""
    for part in path.split("."):
        start = getattr(start, part, None)
        if start is None:
            return None
    return start


def public(path):
    """The public names of a module, in version 2 and in version 1."""
    found = set()
    for start in (tf, tf.compat.v1):
        module = find(path, start)
        if module is not None:
            found |= {name for name in dir(module) if not name.startswith("_")}
    return found


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_name_is_tensorflows(name):
    path = name.removeprefix("tf.")
    assert find(path) is not None or find(path, tf.compat.v1) is not None, f"TensorFlow {tf.__version__} has no {name}"


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_a_module_is_on_the_page(module):
    names = {f"tf.{module}.{name}" for name in public(module)}
    assert len(names) > 2
    assert sorted(names - NAMES - FOLDERS) == []


def test_every_stage_of_a_dataset_is_on_the_page():
    names = {f"tf.data.Dataset.{name}" for name in dir(tf.data.Dataset) if not name.startswith("_")}
    assert sorted(names - NAMES) == []


def test_no_name_has_two_rows():
    rows = [line for line in PAGE.splitlines() if line.startswith("| `tf.")]
    first = [name for row in rows for name in re.findall(r"`(tf\.[\w.]+)`", row.split(" | ")[0])]
    assert sorted({name for name in first if first.count(name) > 1}) == []
