"""What README says holds."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from conftest import BIN, REPO, Program

README = (REPO / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_tables_are_fresh() -> None:
    done = subprocess.run([sys.executable, REPO / ".ci" / "docs.py", "--check"], check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("kind", ["stopper", "moe", "llama"])
def test_schema_holds_for_a_run(kind: str, mlxctl: Program, tiny: Callable[[str], str]) -> None:
    schema = json.loads(blocks("json")[0])
    done = mlxctl("run", "--model", tiny(kind), "hi", "-m", "30", "--format", "json")
    jsonschema.validate(json.loads(done.out), schema)


def test_schema_refuses_less(mlxctl: Program, tiny: Callable[[str], str]) -> None:
    run = json.loads(mlxctl("run", "--model", tiny("stopper"), "hi", "--format", "json").out)
    del run["timing"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(run, json.loads(blocks("json")[0]))


def test_profile_is_valid(mlxctl: Program, tiny: Callable[[str], str], work: Path) -> None:
    (work / "short.toml").write_text(blocks("toml")[0])
    (work / "house-rules.txt").write_text("Be kind.")
    assert mlxctl("profile", "validate", "short.toml").code == 0
    done = mlxctl("run", "-P", "./short.toml", "--model", tiny("stopper"), "--dry-run", "hi")
    assert (done.code, f"sampler.temp = 0.7  # {work}/short.toml:9" in done.out) == (0, True), done
    assert "Be kind." in done.out


@pytest.mark.demo
def test_the_walk(demo_env: dict[str, str], tmp_path: Path) -> None:
    """A profile is written, edited and used from a folder below, as the README says; the editor does as it says too."""
    walk = README.partition("<!-- walk -->\n```sh\n")[2].partition("```")[0]
    assert 'extends = "demo", and in [sampler] temp = 0.3' in walk
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i -e 's/^#extends = .*/extends = \"demo\"/' -e 's/^#temp = .*/temp = 0.3/' $1\n")
    editor.chmod(0o755)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    env = {**demo_env, "EDITOR": str(editor), "PATH": f"{BIN}:{demo_env['PATH']}"}
    env |= {"MLXCTL_MAX_TOKENS": "20", "MLXCTL_SEED": "1"}
    done = subprocess.run(["bash", "-euc", walk], env=env, cwd=fresh, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    written, *shown, answer = done.stdout.strip().splitlines()
    assert written == f"{fresh}/project/.mlxctl/review.toml"
    assert {'path = "builtin:smollm2-135m"', "temp = 0.3", "max_tokens = 20"} <= set(shown)
    assert len(answer.split()) >= 3


@pytest.mark.demo
def test_python_example(demo_env: dict[str, str], work: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", blocks("python")[0]], env=demo_env, cwd=work, capture_output=True, text=True, check=False
    )
    assert "The capital of France is Paris.\nstop: 8 tokens" in done.stdout, done.stderr
