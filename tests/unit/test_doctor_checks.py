"""Rows of the doctor for machines that this one is not."""

import os
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mlxctl import options
from mlxctl.doctor import Found, Patient, backend, contents, machine, places
from mlxctl.engine import blas, health

Check = Callable[[Patient], Iterator[Found]]


def rows(check: Check, **environ: str) -> list[tuple[str, str]]:
    """(state, what is found) of a check."""
    return [(found.state, found.text) for found in check(Patient(options.build({}), environ))]


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes this machine look like a Mac."""

    def one(processor: str = "arm64", version: str = "15.1", translated: str = "0") -> None:
        monkeypatch.setattr(sys, "platform", "darwin")
        monkeypatch.setattr(platform, "machine", lambda: processor)
        monkeypatch.setattr(platform, "mac_ver", lambda: (version, ("", "", ""), processor))
        monkeypatch.setattr(machine, "_asked", lambda *command: translated)

    return one


@pytest.mark.parametrize(
    ("processor", "translated", "state", "words"),
    [("arm64", "0", "ok", "arm64"), ("x86_64", "1", "fail", "Rosetta"), ("x86_64", "0", "fail", "a Mac with x86_64")],
)
def test_processor(processor: str, translated: str, state: str, words: str, mac: Callable[..., None]) -> None:
    mac(processor, translated=translated)
    ((found, text),) = rows(machine.processor)
    assert found == state and words in text


@pytest.mark.parametrize(
    ("version", "state"),
    [("13.6", "fail"), ("14.0", "warning"), ("14.7.1", "warning"), ("15.0", "ok"), ("26.1", "ok")],
)
def test_macos(version: str, state: str, mac: Callable[..., None]) -> None:
    mac(version=version)
    assert rows(machine.system) == [(state, rows(machine.system)[0][1])] and version in rows(machine.system)[0][1]


def test_an_old_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 1))
    assert rows(machine.python)[0][0] == "fail"


@pytest.mark.parametrize(
    ("size", "wired", "state", "mend"),
    [
        (5, 11, None, ""),
        (13, None, "warning", "--kv-bits"),
        (17, 11, "fail", "smaller"),
        (10, 9, "warning", "iogpu.wired_limit_mb=12288"),  # MiB: a fifth beside the weights
        (13, 11, "warning", "iogpu.wired_limit_mb=14745"),  # at most nine tenths of the memory
        (15, 11, "warning", "smaller"),
    ],
)
def test_room_for_a_model(
    size: int, wired: int | None, state: str | None, mend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In GiB, of a machine with 16: of the memory, and of what Metal keeps wired."""
    known = {} if wired is None else {"max_recommended_working_set_size": wired * 2**30}
    monkeypatch.setattr(health, "limits", lambda: known)
    monkeypatch.setattr(machine, "memory_size", lambda: 16 * 2**30)
    found = list(contents._fits("m", size * 2**30))
    assert [one.state for one in found] == ([state] if state else [])
    assert not found or mend in str(found[0].mend)


@pytest.mark.parametrize(
    ("loaded", "switch", "state", "mend"),
    [(["libblas.so.3"], "auto", "warning", "libopenblas0"), (["libblas.so.3"], "off", "warning", "unset MLXCTL_BLAS"),
     (["libblas.so.3", "libopenblasp-r0.3.21.so"], "auto", "ok", None), ([], "auto", "warning", "libopenblas0")],
)  # fmt: skip
def test_blas(loaded: list[str], switch: str, state: str, mend: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "loaded", lambda: loaded)
    (found,) = backend.blas(Patient(None, {"MLXCTL_BLAS": switch}))
    assert found.state == state and (mend is None or mend in str(found.mend))


def test_versions_that_were_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlxctl.engine import device

    monkeypatch.setattr(device, "versions", lambda: {"mlxctl": "0.1.0", "mlx-lm": "0.99.0"})
    ((state, text),) = rows(backend.packages)
    assert state == "warning" and "mlx-lm 0.99.0 (tested: " in text


def test_what_computes_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum is looked at."""
    import mlx.core as mx

    from mlxctl.errors import ModelError

    assert health.compute().startswith("cpu")
    monkeypatch.setattr(mx, "ones", lambda shape: mx.zeros(shape))
    with pytest.raises(ModelError, match="computes wrong"):
        health.compute()


@pytest.mark.parametrize(
    ("environ", "state", "words"),
    [({}, "ok", "0 models"), ({"HF_HUB_OFFLINE": "1"}, "warning", "HF_HUB_OFFLINE=1: nothing is fetched"),
     ({"HF_HOME": "elsewhere"}, "ok", "elsewhere/hub"), ({"HF_HUB_CACHE": "there"}, "ok", "there")],
)  # fmt: skip
def test_hub_cache(environ: dict[str, str], state: str, words: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    ((found, text),) = rows(places.hub, XDG_CACHE_HOME=str(tmp_path / "cache"), **environ)
    assert found == state and words in text


def test_models_are_counted(tmp_path: Path) -> None:
    for name in ("models--a--b", "models--c--d", "datasets--e--f"):
        (tmp_path / "hub" / name).mkdir(parents=True)
    assert "2 models" in rows(places.hub, HF_HOME=str(tmp_path))[0][1]


@pytest.mark.parametrize(("shell", "file"), [("bash", ".bashrc"), ("zsh", ".zshrc"),
                                             ("fish", ".config/fish/completions/mlxctl.fish")])  # fmt: skip
def test_completions(shell: str, file: str, tmp_path: Path) -> None:
    environ = {"SHELL": f"/bin/{shell}", "HOME": str(tmp_path)}
    assert rows(places.completions, **environ)[0][0] == "warning"
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("source <(mlxctl completion x)")
    assert rows(places.completions, **environ) == [("ok", f"{shell}, {tmp_path / file}")]


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)  # root may write anywhere
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert ("fail", f"{tmp_path / 'mlxctl'} cannot be written") in rows(places.folders)


def test_a_file_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for name in ("CONFIG", "CACHE", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / ("file" if name == "STATE" else name)))
    ((state, text),) = rows(places.folders)
    assert state == "fail" and "is no folder" in text


def test_prompts_that_others_can_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "CACHE", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    path = tmp_path / "DATA/mlxctl/sessions/a.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    path.chmod(0o644)
    ((state, text),) = rows(places.folders)
    assert state == "warning" and "others can read" in text
    path.chmod(0o600)
    assert rows(places.folders)[0][0] == "ok"


@pytest.mark.parametrize(("value", "state"), [("1", "warning"), ("yes", "warning"), ("0", "ok"), ("false", "ok")])
@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_switches_are_read_as_the_hub_does(name: str, value: str, state: str, tmp_path: Path) -> None:
    ((found, text),) = rows(places.hub, HF_HOME=str(tmp_path), **{name: value})
    assert found == state and (f"{name}={value}" in text) == (state == "warning")


def test_where_the_hub_keeps_models(tmp_path: Path) -> None:
    (tmp_path / "models--a--b").mkdir()
    ((_, text),) = rows(places.hub, HUGGINGFACE_HUB_CACHE=str(tmp_path))
    assert f"{tmp_path}, 1 model" in text


@pytest.mark.parametrize(
    ("shell", "file", "variable"),
    [("zsh", "dots/.zshrc", "ZDOTDIR"), ("zsh", "share/zsh/site-functions/_mlxctl", "HOMEBREW_PREFIX"),
     ("bash", "etc/bash_completion.d/mlxctl", "HOMEBREW_PREFIX")],
)  # fmt: skip
def test_completions_of_a_mac(shell: str, file: str, variable: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text("mlxctl")
    where = path.parent if variable == "ZDOTDIR" else tmp_path
    environ = {"SHELL": f"/bin/{shell}", "HOME": "/nowhere", "XDG_DATA_HOME": "/nowhere", variable: str(where)}
    ((state, text),) = rows(places.completions, **environ)
    assert state == "ok" and str(path) in text


def test_mends_can_be_pasted(tmp_path: Path) -> None:
    """A folder's name may have what a shell reads otherwise."""
    folder = tmp_path / "a folder; ls"
    (folder / "prompts").mkdir(parents=True)
    (folder / "prompts" / "x.safetensors").touch(mode=0o644)
    (found,) = places._open_to_others(folder)
    assert found.mend == f"chmod -R go= '{folder}'"
