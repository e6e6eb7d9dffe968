"""The reader of stdout or stderr goes away, or the disk behind it is full."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Program
from models import STOPPER_REPLY, THINKING
from running import ENDLESS, dead_pipe, no_traceback, running, shell

Tiny = Callable[[str], str]
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
PIPE = 'set -o pipefail; "$M" "$@" | head -c 5'


@pytest.mark.parametrize(
    "args",
    [("run", "hi"), ("run", "--format", "jsonl", "hi"), ("generate", "--prompt", "hi")],
    ids=["run", "jsonl", "generate"],
)
def test_head(mlxctl: Program, tiny: Tiny, args: tuple[str, ...]) -> None:
    """`| head -c 5` ends an endless run in silence."""
    with shell(mlxctl, PIPE, args[0], "--model", tiny("llama"), *ENDLESS, *args[1:]) as run:
        assert run.end() == 141
        assert len(run.out) == 5
        assert run.err == b""


@pytest.mark.parametrize("limit", ["5", "-1"])
def test_json_reader_gone(mlxctl: Program, tiny: Tiny, limit: str) -> None:
    """There is one write, at the end; a run that has none should still notice."""
    script = 'set -o pipefail; "$M" "$@" | true'
    with shell(mlxctl, script, "run", "--model", tiny("llama"), "--max-tokens", limit, "--format", "json", "hi") as run:
        try:
            assert run.end(patience=40) == 141
        except subprocess.TimeoutExpired:
            pytest.fail("still generating 40 s later, for nobody")
        no_traceback(run.err)


@pytest.mark.parametrize("args", [("--help",), ("--version",), ("run", "--help"), ("generate", "--help")], ids=" ".join)
def test_help_reader_gone(mlxctl: Program, args: tuple[str, ...]) -> None:
    """Help that nobody reads."""
    with dead_pipe() as gone, running(mlxctl, *args, stdout=gone) as run:
        assert run.end() == 141
        assert run.err == b""


@pytest.mark.parametrize("args", [("rnu",), (), ("run", "--nope"), ("run",), ("generate", "--nope")], ids=" ".join)
@pytest.mark.parametrize("where", ["gone", pytest.param("full", marks=needs_full)])
def test_usage_error_unheard(mlxctl: Program, args: tuple[str, ...], where: str) -> None:
    """The status tells it all the same."""
    if where == "full":
        with FULL.open("wb") as full, running(mlxctl, *args, stderr=full) as run:
            assert run.end() == 2
    else:
        with dead_pipe() as gone, running(mlxctl, *args, stderr=gone) as run:
            assert run.end() == 2


@pytest.mark.parametrize("where", ["gone", pytest.param("full", marks=needs_full)])
def test_stderr_does_not_end_a_run(mlxctl: Program, tiny: Tiny, where: str) -> None:
    """The answer matters, what is said beside it does not."""
    args = ("run", "--model", tiny("stopper"), "--stats", "hi")
    if where == "full":
        with shell(mlxctl, '"$M" "$@" 2>/dev/full', *args) as run:
            assert (run.end(), run.out.decode()) == (0, STOPPER_REPLY + "\n")
    else:
        with dead_pipe() as gone, running(mlxctl, *args, stderr=gone) as run:
            assert (run.end(), run.out.decode()) == (0, STOPPER_REPLY + "\n")


def test_stderr_closed_by_its_reader_in_a_shell(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """`2>&1 >FILE | true`"""
    script = '"$M" "$@" 2>&1 >answer | true; echo "${PIPESTATUS[0]}"'
    with shell(mlxctl, script, "run", "--model", tiny("stopper"), "--stats", "hi") as run:
        run.end()
        assert run.out == b"0\n"
        assert (mlxctl.cwd / "answer").read_text() == STOPPER_REPLY + "\n"


def test_thinking_on_a_dead_stderr(mlxctl: Program, tiny: Tiny) -> None:
    """Thoughts that nobody wants to hear do not end the answer."""
    args = ("run", "--model", tiny("moe"), "--thinking", "stderr", "--max-tokens", "30", "hi")
    with dead_pipe() as gone, running(mlxctl, *args, stderr=gone) as run:
        assert run.end() == 0
        assert len(run.out.decode().strip()) > 5
        assert THINKING.strip() not in run.out.decode()


@needs_full
@pytest.mark.parametrize("form", ["text", "json"])
def test_stdout_full(mlxctl: Program, tiny: Tiny, form: str) -> None:
    """A full disk is told in one line."""
    with FULL.open("wb") as full:
        with running(mlxctl, "run", "--model", tiny("stopper"), "--format", form, "hi", stdout=full) as run:
            assert run.end() == 6
        (line,) = run.err.decode().splitlines()
        assert "no space left" in line.lower()


@needs_full
@pytest.mark.parametrize("args", [("--help",), ("--version",), ("run", "--help"), ("generate", "--help")], ids=" ".join)
def test_help_to_full(mlxctl: Program, args: tuple[str, ...]) -> None:
    """Help is output too."""
    with FULL.open("wb") as full, running(mlxctl, *args, stdout=full) as run:
        assert run.end() == 6
        (line,) = run.err.decode().splitlines()
        assert "no space left" in line.lower()
