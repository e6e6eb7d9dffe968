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
    name = model
    if model in known:
        name = str(template_corpus.build(known[model], Path(tiny("llama")), tmp_path))
        shutil.copy(Path(tiny("llama")) / "model.safetensors", name)
    done = mlxctl("doctor", "--model", name, "--format", "json", env={"HF_HUB_OFFLINE": "0"})
    row = found(done)["model"][-1]
    assert (done.code, row["state"]) == (code, state) and words in row["found"] and row["mend"]


def test_a_model_without_a_tokenizer(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    shutil.copytree(tiny("llama"), tmp_path / "model")
    for path in (tmp_path / "model").glob("token*"):
        path.unlink()
    done = mlxctl("doctor", "--model", str(tmp_path / "model"), "--format", "json")
    assert done.code == 3 and found(done)["model"][-1]["state"] == "fail" and "Traceback" not in done.err


def test_weights_that_are_missing_or_cut(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    shutil.copytree(tiny("llama"), tmp_path / "model")
    (file,) = (tmp_path / "model").glob("*.safetensors")
    file.write_bytes(file.read_bytes()[:1000])
    done = mlxctl("doctor", "--model", str(tmp_path / "model"), "--format", "json")
    assert done.code == 3 and "damaged" in found(done)["model"][0]["found"]
    file.unlink()
    done = mlxctl("doctor", "--model", str(tmp_path / "model"), "--format", "json")
    assert done.code == 3 and "has no weights" in found(done)["model"][0]["found"]


def test_a_part_that_is_missing(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """Which the index names, or a link that leads nowhere."""
    shutil.copytree(tiny("llama"), tmp_path / "model")
    (file,) = (tmp_path / "model").glob("*.safetensors")
    parts = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    file.rename(tmp_path / "model" / parts[0])
    index = {"weight_map": {"a": parts[0], "b": parts[1]}}
    (tmp_path / "model" / "model.safetensors.index.json").write_text(json.dumps(index))
    done = mlxctl("doctor", "--model", str(tmp_path / "model"), "--format", "json")
    assert done.code == 3 and f"lacks {parts[1]}" in found(done)["model"][0]["found"]
    (tmp_path / "model" / parts[1]).symlink_to("/nowhere/at/all")
    done = mlxctl("doctor", "--model", str(tmp_path / "model"), "--format", "json")
    assert done.code == 3 and all(row["state"] == "fail" and row["mend"] for row in found(done)["model"])


def test_folders_where_nothing_can_be_made(doctor: Any) -> None:
    """Rights alone do not tell, as for the superuser below /proc."""
    for name in ("STATE", "CACHE", "CONFIG", "DATA"):
        done = doctor("--format", "json", env={f"XDG_{name}_HOME": "/proc/x"})
        assert done.code == 6 and "/proc/x" in found(done)["folders"][0]["found"], name


def test_a_commented_line_sets_nothing_up(doctor: Any, mlxctl: Program) -> None:
    bashrc = Path(mlxctl.env["HOME"]) / ".bashrc"
    for line, state in (
        ('# eval "$(mlxctl completion bash)"\n', "warning"),
        ('eval "$(mlxctl completion bash)"\n', "ok"),
    ):
        bashrc.write_text(line)
        assert found(doctor("--format", "json", env={"SHELL": "/bin/bash"}))["completions"][0]["state"] == state


def test_offline_nothing_is_promised(mlxctl: Program) -> None:
    for offline, words in (("1", "offline nothing fetches it"), ("0", "the first run fetches it")):
        done = mlxctl("doctor", "--model", "no/such", "--format", "json", env={"HF_HUB_OFFLINE": offline})
        assert words in found(done)["model"][0]["found"]


def test_a_cache_whose_model_is_gone(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    shutil.copytree(tiny("llama"), tmp_path / "model")
    assert mlxctl("cache", "save", "kept", "--model", str(tmp_path / "model"), "Hello").code == 0
    shutil.rmtree(tmp_path / "model")
    done = mlxctl("doctor", "--model", tiny("llama"), "--format", "json")
    rows = found(done)["caches"]
    assert [row["state"] for row in rows] == ["warning", "ok"] and "its model is gone" in rows[0]["found"]


def test_a_preload_that_is_not_there(doctor: Any) -> None:
    """The loader's complaint is in the output of the programs that are asked for libraries."""
    done = doctor("--format", "json", env={"LD_PRELOAD": "libopenblas.so.0", "PYTHONUTF8": "1"})
    assert found(done)["blas"][0]["state"] in ("ok", "warning"), found(done)["blas"]
