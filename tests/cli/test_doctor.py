"""`mlxctl doctor` on this machine."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import template_corpus
from conftest import Program

Tiny = Callable[[str], str]


def found(done: Any) -> dict[str, list[dict[str, Any]]]:
    """The rows by check."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(done.out)["rows"]:
        rows.setdefault(row["check"], []).append(row)
    return rows


@pytest.fixture
def doctor(mlxctl: Program, tiny: Tiny) -> Callable[..., Any]:
    return lambda *args, **kwargs: mlxctl("doctor", "--model", tiny("stopper"), *args, **kwargs)


def test_all_is_well(doctor: Any) -> None:
    """Every check has a row, in words and as JSON; nothing fails here."""
    done = doctor("--format", "json")
    report = json.loads(done.out)
    assert done.code == 0 and report["schema"] == "mlxctl.doctor/1" and report["ok"] is True
    names = ["python", "processor", "system", "memory", "disk", "packages", "device", "blas", "libraries", "hub cache",
             "folders", "completions", "profiles", "caches", "history", "model"]  # fmt: skip
    assert list(dict.fromkeys(row["check"] for row in report["rows"])) == names
    assert all(row["state"] in ("ok", "warning") and row["found"] for row in report["rows"])
    assert all(row["mend"] for row in report["rows"] if row["state"] == "warning"), report
    lines = doctor().out.splitlines()
    assert lines[0].split()[:2] == ["ok", "python"] and lines[-1].split()[:2] == ["ok", "model"]


def test_nothing_is_changed(doctor: Any, mlxctl: Program) -> None:
    """Looking makes no folders."""
    before = sorted(Path(mlxctl.env["HOME"]).rglob("*"))
    assert doctor().code == 0
    assert sorted(Path(mlxctl.env["HOME"]).rglob("*")) == before


def test_a_wrong_profile(doctor: Any, mlxctl: Program) -> None:
    (mlxctl.cwd / "profiles").mkdir()
    (mlxctl.cwd / "profiles" / "bad.toml").write_text("[sampler]\ntmp = 1\n")
    done = doctor("--format", "json")
    (row,) = found(done)["profiles"]
    assert done.code == 2 and row["state"] == "fail" and "no such key" in row["found"] and "bad.toml:2" in row["found"]
    chosen = doctor("-P", "bad", "--format", "json")
    assert chosen.code == 2 and found(chosen)["settings"][0]["state"] == "fail" and "model" in found(chosen)


def test_a_damaged_cache(doctor: Any, mlxctl: Program, tiny: Tiny) -> None:
    assert mlxctl("cache", "save", "good", "--model", tiny("llama"), "Hello").code == 0
    folder = Path(mlxctl.env["XDG_CACHE_HOME"]) / "mlxctl" / "prompts"
    (folder / "bad.safetensors").write_bytes((folder / "good.safetensors").read_bytes()[:99])
    done = doctor("--format", "json")
    rows = found(done)["caches"]
    assert done.code == 4 and [row["state"] for row in rows] == ["fail", "ok"]
    assert rows[0]["mend"] == "mlxctl cache rm bad" and rows[1]["found"].startswith("2 with a name")


@pytest.mark.parametrize(
    ("model", "code", "state", "words"),
    [("/nowhere/at/all", 3, "fail", "no such folder"), ("no-such/model", 0, "warning", "is not here"),
     ("chatml-eos", 5, "fail", "end-token-not-eos"), ("chatml-disagree", 0, "warning", "eos-disagree"),
     ("fails", 5, "fail", "template-fails")],
)  # fmt: skip
def test_the_model(model: str, code: int, state: str, words: str, mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """There, and with a template that does not spoil answers; the network is not asked."""
    known = {case.name: case for case in template_corpus.cases()}
    name = str(template_corpus.build(known[model], Path(tiny("llama")), tmp_path)) if model in known else model
    done = mlxctl("doctor", "--model", name, "--format", "json", env={"HF_HUB_OFFLINE": "0"})
    row = found(done)["model"][-1]
    assert (done.code, row["state"]) == (code, state) and words in row["found"] and row["mend"]


def test_a_model_without_a_tokenizer(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    shutil.copytree(tiny("llama"), tmp_path / "model")
    for path in (tmp_path / "model").glob("token*"):
        path.unlink()
    done = mlxctl("doctor", "--model", str(tmp_path / "model"), "--format", "json")
    assert done.code == 3 and found(done)["model"][-1]["state"] == "fail" and "Traceback" not in done.err
