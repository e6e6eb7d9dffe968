"""What README says holds."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from conftest import REPO, Program

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
    done = mlxctl("run", "-P", "./short.toml", "--model", tiny("stopper"), "--dry-run", "hi")
    assert (done.code, "sampler.temp = 0.7  # short.toml:8" in done.out) == (0, True), done


@pytest.mark.demo
def test_python_example(demo_env: dict[str, str], work: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", blocks("python")[0]], env=demo_env, cwd=work, capture_output=True, text=True, check=False
    )
    assert "The capital of France is Paris.\nstop: 8 tokens" in done.stdout, done.stderr
