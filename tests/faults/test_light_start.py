"""Help and every usage error come at once: nothing heavy is imported for them."""

import re
import subprocess
import sys

import pytest
from conftest import Program

HEAVY = re.compile(r"\|\s+(mlx|mlx_lm|transformers|numpy|tokenizers)(\.|$)", re.MULTILINE)
ERRORS = [
    ("rnu",),
    ("run", "--nope", "hi"),
    ("run",),
    ("run", ""),
    ("run", "--temp", "-1", "hi"),
    ("run", "--top-p", "7", "hi"),
    ("run", "--max-tokens", "0", "hi"),
    ("run", "--max-tokens", "many", "hi"),
    ("run", "-f", "missing.txt", "hi"),
    ("run", "-P", "missing", "hi"),
    ("run", "--unset", "tmp", "hi"),
    ("profile", "shwo"),
    ("profile", "show", "missing"),
    ("run", "--messages", "missing.json"),
    ("run", "--stats-file", "/nowhere/x", "hi"),
    ("run", "--chat-template-config", "{", "hi"),
]
PROFILE = [
    ("profile", "list"),
    ("profile", "show", "demo", "--origin"),
    ("profile", "validate"),
    ("profile", "schema"),
    ("profile", "new", "x", "--from", "run -P demo --temp 1"),
]
HELP = [
    ("--help",),
    ("-h",),
    ("--version",),
    ("run", "--help"),
    ("generate", "--help"),
    ("profile", "--help"),
    ("profile", "new", "-h"),
]
OTHER = [(), ("generate", "--nope"), ("generate", "--max-tokens", "many")]  # their errors have more lines


@pytest.mark.parametrize("args", [*HELP, *ERRORS, *OTHER, *PROFILE], ids=" ".join)
def test_imports_nothing_heavy(mlxctl: Program, args: tuple[str, ...]) -> None:
    """-X importtime tells on stderr what is imported."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mlxctl", *args], env=mlxctl.env, cwd=mlxctl.cwd,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "mlxctl.cli.main" in done.stderr
    assert HEAVY.findall(done.stderr) == []


@pytest.mark.parametrize("args", ERRORS, ids=" ".join)
def test_errors_are_short(mlxctl: Program, args: tuple[str, ...]) -> None:
    """Status 2, a line or two on stderr, nothing on stdout."""
    done = mlxctl(*args)
    assert (done.code, done.out) == (2, "")
    assert 1 <= len(done.err.splitlines()) <= 2


@pytest.mark.parametrize("args", OTHER, ids=" ".join)
def test_other_errors(mlxctl: Program, args: tuple[str, ...]) -> None:
    """Help instead of a command, and argparse's habits."""
    done = mlxctl(*args)
    assert (done.code, done.out) == (2, "")
    assert "sage: mlxctl" in done.err


@pytest.mark.parametrize("args", HELP, ids=" ".join)
def test_help_is_output(mlxctl: Program, args: tuple[str, ...]) -> None:
    """On stdout, status 0."""
    done = mlxctl(*args)
    assert (done.code, done.err) == (0, "")
    assert "mlxctl" in done.out


def test_suggestions(mlxctl: Program) -> None:
    """The nearest real name."""
    assert "did you mean run?" in mlxctl("rnu").err
    assert "--max-tokens" in mlxctl("run", "--max-token", "3", "hi").err
