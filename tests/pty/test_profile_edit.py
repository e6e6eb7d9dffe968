"""`mlxctl profile edit` on a terminal: a mistake is shown, and the person is asked to go back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest
from conftest import Program

PATIENCE_S = 30
# An editor that makes a mistake when there is none, and mends it when there is one.
EDITOR = """#!/bin/sh
if grep -q tmp "$1"; then sed -i 's/tmp = .*/temp = 0.7/' "$1"; else sed -i 's/temp = .*/tmp = 0.6/' "$1"; fi
"""


@pytest.fixture
def profile(mlxctl: Program) -> Path:
    """A profile, and the editor above."""
    editor = mlxctl.cwd / "editor"
    editor.write_text(EDITOR)
    editor.chmod(0o755)
    path = mlxctl.cwd / ".mlxctl" / "x.toml"
    path.parent.mkdir()
    path.write_text("[sampler]\ntemp = 0.5\n")
    return path


@contextmanager
def editing(mlxctl: Program, editor: str = "./editor") -> Iterator[pexpect.spawn]:
    """The command on a pseudo-terminal."""
    child = pexpect.spawn(
        mlxctl.path, ["profile", "edit", "x"], env={**mlxctl.env, "EDITOR": editor}, cwd=str(mlxctl.cwd),
        encoding="utf-8", timeout=PATIENCE_S, dimensions=(24, 200),
    )  # fmt: skip
    try:
        yield child
    finally:
        child.close(force=True)


def end(child: pexpect.spawn) -> int:
    """Its exit status."""
    child.expect(pexpect.EOF)
    child.wait()
    return -1 if child.exitstatus is None else child.exitstatus


def test_going_back(mlxctl: Program, profile: Path) -> None:
    """Enter goes back; what is mended is saved."""
    with editing(mlxctl) as child:
        child.expect("x.toml:2: sampler.tmp: no such key; did you mean temp?")
        child.expect("Go back to the editor")
        child.sendline("")
        child.expect("saved")
        assert end(child) == 0
    assert profile.read_text() == "[sampler]\ntemp = 0.7\n"
    assert sorted(path.name for path in profile.parent.iterdir()) == ["x.toml"]


@pytest.mark.parametrize("answer", ["n\n", "\x04", "\x03"], ids=["n", "ctrl-d", "ctrl-c"])
def test_not_going_back(answer: str, mlxctl: Program, profile: Path) -> None:
    """The profile is as it was, what was written is kept."""
    with editing(mlxctl) as child:
        child.expect("Go back to the editor")
        child.send(answer)
        child.expect("is as it was")
        child.expect("is kept in")
        assert end(child) == 2
    assert profile.read_text() == "[sampler]\ntemp = 0.5\n"
    (draft,) = profile.parent.glob(".x.*.draft.toml")
    assert draft.read_text() == "[sampler]\ntmp = 0.6\n"


def test_ctrl_c_is_the_editors(mlxctl: Program, profile: Path) -> None:
    """An editor that takes SIGINT goes on, and so do we."""
    editor = mlxctl.cwd / "stubborn"
    editor.write_text(
        '#!/bin/sh\ntrap "echo got it" INT\necho ready\nread line\n'
        '[ -n "$line" ] || read line\nsed -i s/0.5/0.9/ "$1"\n'
    )
    editor.chmod(0o755)
    with editing(mlxctl, "./stubborn") as child:
        child.expect("ready")
        child.sendintr()
        child.expect("got it")
        child.sendline("go")
        child.expect("saved")
        assert end(child) == 0
    assert profile.read_text() == "[sampler]\ntemp = 0.9\n"
    assert [path.name for path in profile.parent.iterdir()] == ["x.toml"]
