"""PERSIA's example: its AUC is reached, in one process and as a job."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from conftest import Run

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "python/examples/adult_income.py"
DATA = Path(os.environ.get("PHALANX_DATA_DIR", ROOT / "../shared/data")).resolve() / "census"


@pytest.mark.parametrize("launch", [(), ("-m", "phalanx", "launch", "--ps", "2", "--workers", "1", "--no-dashboard", "--")])
def test_the_tower_reaches_the_auc_of_persia(run: Run, launch: tuple[str, ...]) -> None:
    if not DATA.exists():
        pytest.skip("skipped: needs data")
    words = (*launch, "python") if launch else ()
    out, err = run(*words, EXAMPLE, "--data", DATA)
    found = re.search(r"AUC (0\.\d+) after (\d+) steps", out + err)
    assert found is not None, out + err
    assert float(found[1]) >= 0.8929
    assert int(found[2]) >= 1017
