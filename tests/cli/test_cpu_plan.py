"""What is done on a CPU that takes none of a model's time elsewhere: a fast BLAS, dense weights, a shorter start."""

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Program

from mlxctl.engine import dense

Tiny = Callable[[str], str]


def has_openblas() -> bool:
    try:
        ctypes.CDLL("libopenblas.so.0")
    except OSError:
        return False
    return True


needs_blas = pytest.mark.skipif(not has_openblas(), reason="no OpenBLAS is installed (libopenblas0)")


@pytest.fixture
def run(mlxctl: Program, tiny: Tiny) -> Callable[..., Any]:
    """The run object of a model under a setting of MLXCTL_BLAS."""

    def one(kind: str, blas: str, *args: str) -> dict[str, Any]:
        done = mlxctl("run", "--model", tiny(kind), "-m", "6", "--format", "json", *args, "hi there",
                      env={"MLXCTL_BLAS": blas})  # fmt: skip
        assert done.code == 0, done.err
        found: dict[str, Any] = json.loads(done.out)
        return found

    return one


@needs_blas
def test_what_is_used_is_told(run: Callable[..., Any]) -> None:
    """In the run object, always."""
    quick, plain = run("quant", "auto"), run("quant", "off")
    assert quick["versions"]["blas"].startswith("libopenblas") and "blas" not in plain["versions"]
    assert (quick["model"]["expanded"], plain["model"]["expanded"]) == (True, False)
    assert quick["model"]["dtype"] == plain["model"]["dtype"] == "float32"
    assert run("llama", "auto")["model"]["expanded"] is False  # nothing is quantized there


@needs_blas
@pytest.mark.parametrize("dtype", ["native", "float32"])
def test_weights_that_are_asked_for_are_kept(dtype: str, run: Callable[..., Any]) -> None:
    assert run("quant", "auto", "--dtype", dtype)["model"]["expanded"] is False


@needs_blas
@pytest.mark.parametrize("kind", ["llama", "quant", "moe", "hybrid"])
def test_the_same_distribution(kind: str, mlxctl: Program, tiny: Tiny) -> None:
    """To the digits that the order of a sum decides."""
    likeliest = []
    for blas in ("auto", "off"):
        done = mlxctl("run", "--model", tiny(kind), "-m", "1", "--format", "jsonl", "--top-logprobs", "5", "hi there",
                      env={"MLXCTL_BLAS": blas})  # fmt: skip
        (token,) = [json.loads(line) for line in done.out.splitlines() if '"event":"token"' in line]
        likeliest.append({one["id"]: one["logprob"] for one in token["top_logprobs"]})
    assert likeliest[0] == pytest.approx(likeliest[1], abs=1e-3)


def test_no_room(monkeypatch: pytest.MonkeyPatch, tiny: Tiny) -> None:
    """Where dense weights would take more than half of what is free, they are kept."""
    from mlx_lm.utils import load_model

    model, _ = load_model(Path(tiny("quant")), lazy=True)
    monkeypatch.setattr(dense, "available", lambda: 1000)
    assert dense.make_dense(model, 4) is False
    monkeypatch.setattr(dense, "available", lambda: 10**9)
    assert dense.make_dense(model, 4) is True


def test_a_value_that_is_none(mlxctl: Program, tiny: Tiny) -> None:
    done = mlxctl("run", "--model", tiny("stopper"), "hi", env={"MLXCTL_BLAS": "openblas"})
    assert (done.code, done.out) == (2, "") and "MLXCTL_BLAS: expected auto or off" in done.err


@needs_blas
def test_doctor_tells(mlxctl: Program, tiny: Tiny) -> None:
    for blas, state in (("auto", "ok"), ("off", "warning")):
        done = mlxctl("doctor", "--model", tiny("stopper"), "--format", "json", env={"MLXCTL_BLAS": blas})
        (row,) = [row for row in json.loads(done.out)["rows"] if row["check"] == "blas"]
        assert (row["state"], "openblas" in row["found"]) == (state, blas == "auto"), row


LAZY = """
import os, sys
os.environ["TRANSFORMERS_NO_ADVISORY_WARNINGS"] = "1"
if sys.argv[1] == "ours":
    from mlxctl.engine.imports import import_transformers
    import_transformers()
from transformers.utils import import_utils
from transformers import AutoTokenizer, models
assert hasattr(import_utils.create_import_structure_from_path, "cache_info")
print(sorted((name, str(module)) for name, module in models._class_to_module.items()))
"""


def test_transformers_is_what_it_is() -> None:
    """The shorter way to import it comes to the same."""
    ours, plain = (subprocess.run([sys.executable, "-c", LAZY, how], capture_output=True, text=True, check=True).stdout
                   for how in ("ours", "plain"))  # fmt: skip
    assert ours == plain and len(plain) > 1000
