"""Holds the callbacks of fit against Keras itself: the same model, weights and data in both.

Run with the interpreter of an environment that has tensorflow 2.15 and pytest, and
PHALANX_FIT_CASE=path/to/phalanx_fit_case (a binary of the crate phalanx-tests; target/debug unless set).
"""

import csv
import math
import os

import numpy as np
import pytest

from fit_cases import (
    arrays,
    check,
    drawn,
    fitted,
    made_callback,
    made_model,
    number,
    ours,
    regression,
    same_logs,
    same_weights,
    tf,
    two_by_two,
)

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
    ({"save_best_only": True, "initial_value_threshold": 0.3}, "best-{epoch}"),
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
    # Ours sets it in the first event of a tag alone, which is what TensorBoard goes by.
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
