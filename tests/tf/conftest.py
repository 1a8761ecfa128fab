"""What the suites against real TensorFlow share: the phalanx binary, run on one TF_CONFIG."""

import json
import os
import subprocess

import pytest


@pytest.fixture(scope="session")
def phalanx():
    """phalanx(text, *arguments): runs `phalanx tf-config --json` with TF_CONFIG=text (None: unset)."""
    binary = os.environ.get("PHALANX_BIN")
    if not binary:
        pytest.fail("set PHALANX_BIN to the phalanx binary")

    def run(text, *arguments):
        environment = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
        if text is not None:
            environment["TF_CONFIG"] = text
        done = subprocess.run(
            [binary, "tf-config", "--json", *arguments], env=environment, capture_output=True, timeout=60
        )
        answer = json.loads(done.stdout)
        if done.returncode == 2:
            assert set(answer["error"]) >= {"code", "message"}, answer
            assert answer["error"]["code"].startswith("PX01"), answer
        else:
            assert done.returncode == 0, (done.returncode, done.stderr)
            assert "error" not in answer
        return answer

    return run
