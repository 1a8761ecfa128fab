"""phalanx.estimator: the documents' programs in every role, and what Estimator's methods do."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import phalanx
from phalanx import estimator as est
from phalanx import feature_column as fc
from phalanx.data import Dataset, InputContext

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def line(rows=200):
    x = np.linspace(0, 1, rows)
    return {"x": x}, 2 * x + 1


def regressor(tmp_path, **settings):
    config = est.RunConfig(tf_random_seed=1, log_step_count_steps=None, **settings)
    return est.LinearRegressor([fc.numeric_column("x")], model_dir=tmp_path / "run", config=config)


def test_a_line_is_learned_evaluated_and_predicted(tmp_path):
    model = regressor(tmp_path).train(lambda: line(), steps=300)
    found = model.evaluate(lambda: Dataset.from_tensor_slices(line()).batch(50))
    assert found["global_step"] == 300
    assert found["loss"] < 0.01
    assert found["average_loss"] == pytest.approx(found["loss"], abs=1e-4)
    predicted = [row["predictions"].item() for row in model.predict(lambda: ({"x": [0.0, 0.5, 1.0]}))]
    assert predicted == pytest.approx([1, 2, 3], abs=0.2)
    assert model.train(lambda: line(), max_steps=300).evaluate(lambda: line())["global_step"] == 300
    assert Path(model.latest_checkpoint() + ".index").exists()
    assert set(model.get_variable_names()) >= {"linear/linear_model/x/weights", "global_step"}
    assert model.get_variable_value("linear/linear_model/x/weights").shape == (1, 1)
    assert Path(model.eval_dir()).is_dir()


def test_a_classifier_of_texts_with_classes_of_words(tmp_path):
    numbers = np.random.default_rng(0)
    city = numbers.choice(["oslo", "lima", "bern"], 900)
    label = np.where(city == "lima", "warm", "cold")
    column = fc.embedding_column(fc.categorical_column_with_vocabulary_list("city", ["oslo", "lima", "bern"]), 4)
    model = est.DNNClassifier([8], [column], tmp_path, label_vocabulary=["cold", "warm"], optimizer=phalanx.Adagrad(0.3))
    model.train(est.numpy_input_fn({"city": city}, label, num_epochs=None, shuffle=True), steps=150)
    found = model.evaluate(est.numpy_input_fn({"city": city}, label, shuffle=False))
    assert found["accuracy"] == 1.0
    assert found["auc"] == pytest.approx(1.0)
    rows = Dataset.from_tensor_slices({"city": ["lima", "oslo"], "id": [7, 8]}).batch(2)
    predicted = list(model.predict(lambda: rows, ["classes", "probabilities"], carry=["id"]))
    assert [row["id"].item() for row in predicted] == [7, 8]
    assert [row["classes"].tolist() for row in predicted] == [[b"warm"], [b"cold"]]
    assert predicted[0]["probabilities"].sum() == pytest.approx(1)
    with pytest.raises(phalanx.Error, match="no prediction is called clases"):
        next(model.predict(lambda: rows, "clases"))


IDS = [fc.categorical_column_with_identity(name, 10) for name in ("user", "item")]
EMBEDDINGS = [fc.embedding_column(column, 4) for column in IDS]
NUMBER = fc.numeric_column("x")
MODELS = {
    "LinearClassifier": lambda: est.LinearClassifier([*IDS, NUMBER]),
    "LinearRegressor": lambda: est.LinearRegressor([*IDS, NUMBER], optimizer=None),
    "DNNClassifier": lambda: est.DNNClassifier([4], [*EMBEDDINGS, NUMBER], n_classes=3, dropout=0.1, batch_norm=True),
    "DNNRegressor": lambda: est.DNNRegressor([4], [*EMBEDDINGS, NUMBER], optimizer=lambda: phalanx.Adam(0.01)),
    "DNNLinearCombinedClassifier": lambda: est.DNNLinearCombinedClassifier(
        linear_feature_columns=IDS, dnn_feature_columns=EMBEDDINGS, dnn_hidden_units=[4], dnn_activation_fn="tanh"
    ),
    "DNNLinearCombinedRegressor": lambda: est.DNNLinearCombinedRegressor(
        linear_feature_columns=IDS, dnn_feature_columns=EMBEDDINGS, dnn_hidden_units=[4], linear_optimizer="SGD"
    ),
    "BaselineClassifier": lambda: est.BaselineClassifier(),
    "BaselineRegressor": lambda: est.BaselineRegressor(),
    "DeepFMClassifier": lambda: est.DeepFMClassifier(EMBEDDINGS, [4], l2=1e-4),
    "DLRMClassifier": lambda: est.DLRMClassifier([*EMBEDDINGS, NUMBER], [4], [4]),
    "FMClassifier": lambda: est.FMClassifier(EMBEDDINGS, eval_metrics=["calibration"]),
    "FMRegressor": lambda: est.FMRegressor(EMBEDDINGS),
    "MFRegressor": lambda: est.MFRegressor(*IDS, 4, global_mean=0.5),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_canned_model_learns(name):
    numbers = np.random.default_rng(3)
    user, item = numbers.integers(0, 10, 800), numbers.integers(0, 10, 800)
    features = {"user": user, "item": item, "x": numbers.random(800)}
    label = (user % 2 == item % 3).astype(int)

    def input_fn():
        return Dataset.from_tensor_slices((features, label)).shuffle(800, seed=1).repeat().batch(100)

    model = MODELS[name]()
    first = model.train(input_fn, steps=1).evaluate(input_fn, steps=8)
    last = model.train(input_fn, steps=80).evaluate(input_fn, steps=8)
    assert last["global_step"] == 81
    assert last["loss"] < first["loss"]
    assert ("calibration" in last) == (name == "FMClassifier")
    assert len(next(iter(next(model.predict(input_fn)).values()))) >= 1


def test_train_and_evaluate_in_one_process_with_hooks_and_exports(tmp_path):
    steps = []

    class Watch(est.SessionRunHook):
        def begin(self):
            steps.append("begin")

        def after_run(self, run_context, run_values):
            steps.append(run_values.global_step)
            assert run_values.results >= 0
            if run_values.global_step >= 40:
                run_context.request_stop()

        def end(self, session):
            steps.append("end")

    model = regressor(tmp_path, save_checkpoints_steps=20)
    report = est.train_and_evaluate(
        model,
        est.TrainSpec(lambda: line(), max_steps=1000, hooks=[Watch()]),
        [
            est.EvalSpec(
                lambda: line(),
                steps=None,
                throttle_secs=0,
                exporters=[
                    est.LatestExporter("latest", est.build_raw_serving_input_receiver_fn(), exports_to_keep=2),
                    est.BestExporter(assets_extra={"note.txt": __file__}),
                ],
            ),
            est.EvalSpec(lambda: line(50), steps=1, name="few", throttle_secs=0),
        ],
    )
    assert steps[0] == "begin"
    assert steps[-1] == "end"
    assert len(steps) == report.steps + 2
    assert report.global_step == report.metrics["global_step"] < 100
    assert report.named_metrics["few"]["loss"] >= 0
    assert report.task is None
    exports = sorted((tmp_path / "run/export/latest").iterdir())
    assert 1 <= len(exports) <= 2
    assert (exports[-1] / "saved_model.pb").exists()
    best = next((tmp_path / "run/export/best_exporter").iterdir())
    assert (best / "assets.extra/note.txt").read_bytes() == Path(__file__).read_bytes()
    folder = model.export_saved_model(tmp_path / "own")
    assert (folder / "variables/variables.index").exists()


def test_counts_and_weights_of_examples(tmp_path):
    numbers = np.random.default_rng(5)
    features = {"x": numbers.random(500), "w": numbers.integers(0, 2, 500)}
    counts = numbers.poisson(np.exp(1 + features["x"]))

    def input_fn():
        return Dataset.from_tensor_slices((features, counts)).repeat().batch(100)

    model = est.LinearRegressor([NUMBER], tmp_path, weight_column="w", poisson=True)
    model.train(input_fn, steps=400)
    rates = [row["predictions"].item() for row in model.predict(lambda: {"x": [0.0, 1.0]})]
    assert rates == pytest.approx([np.e, np.e**2], rel=0.2)


def test_settings_that_contradict_are_errors(tmp_path, monkeypatch):
    def code(call):
        with pytest.raises(phalanx.Error) as raised:
            call()
        return raised.value.code

    assert code(lambda: est.RunConfig(save_checkpoints_steps=1, save_checkpoints_secs=1)) == "PX0309"
    assert code(lambda: est.LinearRegressor([NUMBER], "a", config=est.RunConfig("b"))) == "PX0107"
    assert code(lambda: est.DNNClassifier([4], [NUMBER], optimizer="Adma")) == "PX0309"
    assert code(lambda: est.DNNClassifier([4], [NUMBER], activation_fn="rleu")) == "PX0309"
    assert code(lambda: est.DNNClassifier([4], [IDS[0]])) == "PX0309"
    assert code(lambda: est.TrainSpec(lambda: line(), max_steps=0)) == "PX0309"
    assert code(lambda: regressor(tmp_path).evaluate(lambda: line())) == "PX0511"
    assert code(lambda: regressor(tmp_path).train(lambda: 5, steps=1)) == "PX0309"
    assert code(lambda: regressor(tmp_path).train(lambda a, b: line(), steps=1)) == "PX0309"
    assert code(lambda: regressor(tmp_path).train(lambda: ({"y": [1.0]}, [1.0]), steps=1)) == "PX0404"
    monkeypatch.setenv("TF_CONFIG", "{oops")
    assert code(est.RunConfig) == "PX0101"


def test_an_exception_of_the_program_is_its_own(tmp_path):
    def input_fn():
        raise ValueError("no data today")

    with pytest.raises(ValueError, match="no data today"):
        regressor(tmp_path).train(input_fn, steps=1)

    class Broken(est.SessionRunHook):
        def after_run(self, run_context, run_values):
            raise RuntimeError("a broken hook")

    with pytest.raises(RuntimeError, match="a broken hook"):
        regressor(tmp_path).train(lambda: line(), steps=5, hooks=[Broken()])


def test_the_context_of_an_input_function(tmp_path):
    seen = []

    def input_fn(mode, input_context, params, config):
        seen.append((mode, input_context.num_input_pipelines, params, config.save_summary_steps))
        return line()

    model = regressor(tmp_path).train(input_fn, steps=1)
    model.evaluate(input_fn)
    assert seen == [("train", 1, {}, 100), ("eval", 1, {}, 100)]
    model.train(lambda cx: line() if isinstance(cx, InputContext) else None, steps=1)


def test_a_warm_start_takes_over_weights(tmp_path):
    first = regressor(tmp_path).train(lambda: line(), steps=200)
    start = est.WarmStartSettings(first.model_dir, "linear/linear_model/x")
    slow = phalanx.SGD(1e-6)
    second = est.LinearRegressor([fc.numeric_column("x")], tmp_path / "second", optimizer=slow, warm_start_from=start)
    second.train(lambda: line(), steps=1)
    weight = "linear/linear_model/x/weights"
    assert second.get_variable_value(weight) == pytest.approx(first.get_variable_value(weight), abs=1e-3)
    assert abs(second.get_variable_value("linear/linear_model/bias_weights")) < 1e-3


def test_run_config_knows_the_cluster(monkeypatch):
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}}))
    config = est.RunConfig("runs/a")
    assert (config.task_type, config.task_id, config.is_chief) == ("worker", 1, False)
    assert (config.num_ps_replicas, config.num_worker_replicas) == (1, 3)
    assert config.cluster_spec.as_dict() == cluster
    changed = config.replace(save_checkpoints_steps=7)
    assert (changed.save_checkpoints_steps, changed.save_checkpoints_secs, changed.model_dir) == (7, None, "runs/a")
    assert config.save_checkpoints_secs == 600
    monkeypatch.delenv("TF_CONFIG")
    assert est.RunConfig().is_chief


def newest_step(model_dir):
    """Return the step of the newest checkpoint."""
    newest = re.search(r'^model_checkpoint_path: "model.ckpt-(\d+)"', (model_dir / "checkpoint").read_text())
    assert newest is not None
    return int(newest[1])


def evaluations(run_dir, step):
    """Return what tasks printed that evaluated this step."""
    texts = [path.read_text() for path in (run_dir / "logs").rglob("*") if path.is_file() and path.suffix == ".log"]
    return [text for text in texts if f"'global_step': {step}" in text]


@pytest.mark.parametrize(("name", "steps"), [("linear_regressor", 600), ("dnn_classifier", 60)])
def test_a_program_of_tensorflow_runs_in_every_role(run, name, steps):
    run(
        "-m", "phalanx", "launch", "--ps", "2", "--workers", "2", "--evaluator", "--no-dashboard", "--progress", "none",
        "--run-dir", run.directory / "logs", "--model-dir", run.directory / "model",
        "--", sys.executable, EXAMPLES / f"{name}.py", "--steps", str(steps),
    )  # fmt: skip
    newest = newest_step(run.directory / "model")
    # Each of the three trainers makes its step before it sees the others' last ones.
    assert steps <= newest < steps + 3
    assert evaluations(run.directory, newest), "the evaluator evaluates the last checkpoint"


@pytest.mark.parametrize("task", ["ps/0", "worker/0"])
def test_a_job_survives_the_loss_of_a_task(run, task):
    out, err = run(
        "-m", "phalanx", "launch", "--ps", "2", "--workers", "2", "--no-dashboard", "--progress", "none",
        "--kill", f"{task}@1000", "--worker-grace", "1",
        "--run-dir", run.directory / "logs", "--model-dir", run.directory / "model",
        "--", sys.executable, EXAMPLES / "linear_regressor.py", "--steps", "40000",
    )  # fmt: skip
    assert f"killing {task} at step" in out + err
    assert 40000 <= newest_step(run.directory / "model") < 40003


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in held]
    for server in held:
        server.close()
    return [f"127.0.0.1:{port}" for port in ports]


def test_a_program_with_the_flags_of_tensorflow(run):
    ps, *workers = free_ports(3)
    hosts = ["--ps_hosts", ps, "--worker_hosts", ",".join(workers), "--model_dir", run.directory / "model"]
    program = EXAMPLES / "linear_regressor.py"
    tasks = [("ps", 0), ("worker", 0), ("worker", 1)]
    running = [run.start(program, *hosts, "--job_name", job, "--task_index", index) for job, index in tasks]
    try:
        for task, process in zip(tasks, running, strict=True):
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, f"{task}:\n{out}\n{err}"
            assert f"task='{'chief' if task == ('worker', 0) else task[0]}/0'" in out
    except subprocess.TimeoutExpired:
        pytest.fail("a task did not end")
    finally:
        for process in running:
            process.kill()
    assert newest_step(run.directory / "model") in (600, 601)


ENDLESS = """
import numpy as np
from phalanx import estimator as est, feature_column as fc
config = est.RunConfig(save_checkpoints_steps=10**9)
model = est.LinearRegressor([fc.numeric_column("x")], "model", config=config)
class Tell(est.SessionRunHook):
    def after_run(self, run_context, run_values):
        if run_values.global_step == 100:
            print("trains", flush=True)
model.train(lambda: ({"x": np.ones(8)}, np.ones(8)), hooks=[Tell()])
"""


@pytest.mark.parametrize(("sent", "code", "text"), [(signal.SIGINT, -2, "KeyboardInterrupt"), (signal.SIGTERM, 1, "PX0802")])
def test_a_signal_saves_and_ends_a_training(run, sent, code, text):
    process = run.start(run.script("endless.py", ENDLESS))
    try:
        assert process.stdout.readline() == "trains\n"
        process.send_signal(sent)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code, err
    assert text in err
    assert newest_step(run.directory / "model") >= 100
