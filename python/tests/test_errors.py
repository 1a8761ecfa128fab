"""Errors keep their parts across the border."""

from __future__ import annotations

import os
import pickle

import pytest

import phalanx


def test_an_error_has_code_cause_help_and_exit_code() -> None:
    with pytest.raises(phalanx.Error) as caught:
        phalanx.Adagrad(float("nan"))
    error = caught.value
    assert error.code == "PX0309"
    assert error.exit_code == 2
    assert error.help is not None
    assert str(error).startswith(f"[PX0309] {error.what}")
    assert error.help in str(error)


def test_an_error_survives_pickling() -> None:
    error = phalanx.Error("ps/1 is unreachable", "PX0201", "127.0.0.1:1", "refused", "start it", 138)
    again = pickle.loads(pickle.dumps(error))
    assert (again.what, again.code, again.place, again.cause, again.help, again.exit_code) == (
        "ps/1 is unreachable",
        "PX0201",
        "127.0.0.1:1",
        "refused",
        "start it",
        138,
    )


def test_an_object_made_before_a_fork_says_so_in_the_child() -> None:
    server = phalanx.Server.local()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            server.wait_until_formed()
            told = "no error"
        except phalanx.Error as error:
            told = f"{error.code} {error.help}"
        os.write(writer, told.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        text = told.read()
    os.waitpid(child, 0)
    assert text.startswith("PX0119 ")
    assert "spawn" in text
    server.leave()


def test_a_wrong_tf_config_is_an_error_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", "{")
    with pytest.raises(phalanx.Error) as caught:
        phalanx.connect()
    assert caught.value.code == "PX0101"
    # In a launched job, launchers read the exit code.
    with pytest.raises(SystemExit) as ended:
        phalanx.job(lambda server: None)
    assert ended.value.code == 2


def test_optimizers_have_settings_and_clipping() -> None:
    adam = phalanx.Adam(0.01, beta_1=0.8)
    assert (adam.name, round(adam.learning_rate, 4)) == ("adam", 0.01)
    assert "0.8" in repr(adam)
    assert adam != adam.clipped(clipnorm=1.0)
    with pytest.raises(phalanx.Error, match="PX0309"):
        adam.clipped(clipvalue=-1.0)
