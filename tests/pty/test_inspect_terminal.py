"""inspect-template and doctor on a real terminal: colours where they are wanted, and nothing that steers it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import template_corpus
from conftest import Program
from terminal import Terminal

Tiny = Callable[[str], str]
SIZES = [(24, 80), (10, 40)]


def shown(mlxctl: Program, *args: str, size: tuple[int, int] = (24, 80), **env: str) -> Terminal:
    """What stands on the terminal when it has ended."""
    terminal = Terminal(mlxctl, *args, size=size, **env)
    terminal.end()
    return terminal


@pytest.mark.parametrize("size", SIZES)
def test_side_by_side(size: tuple[int, int], mlxctl: Program, tiny: Tiny) -> None:
    """Both columns fit the window."""
    args = ("inspect-template", "--model", tiny("moe"), "--diff", "enable_thinking=false", "Hi")
    terminal = shown(mlxctl, *args, size=size)
    assert "as asked" in terminal.news and "</think>" in terminal.news
    assert all(len(line) <= size[1] for line in terminal.news.replace("\r", "").split("\n"))


def test_source_in_colours(mlxctl: Program, tiny: Tiny) -> None:
    """Highlighted on a terminal, unless NO_COLOR or TERM says otherwise; the same characters in any case."""
    args = ("inspect-template", "--model", tiny("llama"), "--raw")
    plain = mlxctl(*args).out
    coloured = shown(mlxctl, *args, size=(60, 200))
    assert b"\x1b[3" in coloured.raw
    assert "".join(coloured.news.split()) == "".join(plain.split())
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert b"\x1b" not in shown(mlxctl, *args, size=(60, 200), **env).raw
    assert "\x1b[3" in mlxctl(*args, env={"FORCE_COLOR": "1"}).out


def test_a_template_steers_no_terminal(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """Escape codes in it are shown as pictures, in every view; a pipe gets them as they are."""
    case = template_corpus.Case("evil", "\x1b]0;owned\x07{{ messages[0]['content'] }}",
                                {"tokens": [], "eos": "<|endoftext|>"})  # fmt: skip
    model = str(template_corpus.build(case, Path(tiny("llama")), tmp_path))
    for view in ((), ("--raw",), ("--tokens",), ("--diff", "x=1"), ("--lint",)):
        terminal = shown(mlxctl, "inspect-template", "--model", model, *view, "Hi")
        assert b"\x1b]0;" not in terminal.raw and b"\x07" not in terminal.raw, view
    assert mlxctl("inspect-template", "--model", model, "Hi").out == "\x1b]0;owned\x07Hi"


@pytest.mark.parametrize("size", SIZES)
def test_doctor(size: tuple[int, int], mlxctl: Program, tiny: Tiny) -> None:
    terminal = shown(mlxctl, "doctor", "--model", tiny("stopper"), size=size)
    assert b"\x1b[32mok" in terminal.raw and "profiles" in terminal.news
    assert b"\x1b" not in shown(mlxctl, "doctor", "--model", tiny("stopper"), NO_COLOR="1").raw
