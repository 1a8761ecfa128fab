"""The example notebooks run, and show what a notebook should: tables, progress, links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx
from phalanx import data, estimator, feature_column, keras

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def executed(notebook: Any) -> list[list[Any]]:
    """Run a notebook in a kernel of its own, and return the outputs of its cells."""
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def html(outputs: list[Any]) -> str:
    """Return what the outputs of a cell show as HTML."""
    return "".join(one["data"].get("text/html", "") for one in outputs if "data" in one)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_an_example_runs(path: Path) -> None:
    pytest.importorskip("torch")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "outputs are not committed"
    shown = executed(notebook)
    assert "<td>batch(64)</td>" in html(shown[0])
    assert re.search(r"<progress value=504 max=504></progress> epoch 8 of 8, step 504 of 504, loss 0\.", html(shown[1]))
    assert "<th>epoch</th><th>loss</th><th>mae</th>" in html(shown[1])
    assert "<progress value=1000 max=1000></progress> step 1000 of 1000, loss" in html(shown[2])
    assert "<td>DNNRegressor</td>" in html(shown[2])
    assert re.search(r'<a href="http://127\.0\.0\.1:\d+/\?t=\w+" target="_blank">Dashboard of ', html(shown[3]))
    assert "[3.0, -2.0, 0.0, 1.0]" in shown[4][-1]["data"]["text/plain"].replace("-0.0", "0.0")


def test_ctrl_c_in_a_notebook_ends_a_cell_and_the_next_one_runs() -> None:
    nbformat = pytest.importorskip("nbformat")
    cells = [
        """
import _thread
import numpy as np
from phalanx import keras
x = np.ones((64, 1), np.float32)
model = keras.Sequential([keras.Input(shape=(1,)), keras.layers.Dense(1)])
model.compile("sgd", loss="mse")
class Press(keras.Callback):
    def on_epoch_end(self, epoch, logs):
        if epoch == 3:
            _thread.interrupt_main()
try:
    model.fit(x, x, epochs=10**9, callbacks=[Press()])
except KeyboardInterrupt:
    print("stopped")
""",
        "len(model.fit(x, x, epochs=2).epoch)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    first, second = executed(notebook)
    assert any(one.get("text") == "stopped\n" for one in first)
    assert second[-1]["data"]["text/plain"] == "2"


def test_objects_show_themselves_as_tables(tmp_path: Path) -> None:
    rows = data.Dataset.from_tensor_slices(({"<x>": np.ones((8, 1), np.float32)}, np.ones(8))).batch(8)
    assert "<td>from_tensor_slices(8 rows)</td>" in rows._repr_html_()
    model = keras.Sequential([keras.Input(shape=(1,)), keras.layers.Dense(1)])
    model.compile("sgd", loss="mse")
    history = model.fit(rows, epochs=2, verbose=0)
    assert history._repr_html_().count("<tr>") == 3
    trained = estimator.LinearRegressor([feature_column.numeric_column("<x>")], tmp_path / "a<b")
    assert "it is not trained" in trained._repr_html_()
    trained.train(rows.repeat, max_steps=3)
    assert "model.ckpt-3" in trained._repr_html_()
    assert "a&lt;b" in trained._repr_html_()


def test_a_dashboard_is_served_until_it_is_closed(tmp_path: Path) -> None:
    from urllib.error import URLError
    from urllib.request import urlopen

    with pytest.raises(phalanx.Error) as raised:
        phalanx.Dashboard(tmp_path / "nothing")
    assert raised.value.help is not None
    with pytest.raises(phalanx.Error, match="PX0309"):
        phalanx.Dashboard(tmp_path, listen="nowhere")
    columns = [feature_column.numeric_column("x")]
    trained = estimator.LinearRegressor(columns, tmp_path / "run")
    trained.train(lambda: ({"x": np.ones(8)}, np.ones(8)), max_steps=3)
    dashboard = phalanx.Dashboard(trained.model_dir)
    with urlopen(dashboard.url, timeout=30) as page:
        assert b"<html" in page.read()
    dashboard.close()
    with pytest.raises(URLError):
        urlopen(dashboard.url, timeout=30)
