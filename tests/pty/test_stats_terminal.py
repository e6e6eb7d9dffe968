"""stats and bench on a real terminal: a progress bar that goes away, charts that fit, and nothing that steers it."""

import re
import signal
import time
from collections.abc import Callable

import past
import pytest
from conftest import Program
from terminal import Terminal

Tiny = Callable[[str], str]
SIZES = [(24, 80), (10, 40)]
HIDE, SHOW = b"\x1b[?25l", b"\x1b[?25h"


def shown(mlxctl: Program, *args: str, size: tuple[int, int] = (24, 80), **env: str) -> Terminal:
    """What stands on the terminal when it has ended."""
    terminal = Terminal(mlxctl, *args, size=size, **env)
    terminal.end()
    return terminal


def test_bar_of_a_bench(mlxctl: Program, tiny: Tiny) -> None:
    """It shows what is measured; the rows stand there whole when it is gone, and so does the cursor."""
    terminal = shown(mlxctl, "bench", "--model", tiny("llama"), "-p", "64", "-n", "64", "-r", "4", size=(24, 120))
    assert HIDE in terminal.raw and terminal.raw.rindex(SHOW) > terminal.raw.rindex(HIDE)
    assert b"/8" in terminal.raw  # of two tests, four times
    rows = [line for line in terminal.lines if line.startswith("|")]
    assert [re.findall(r"[pt][pg]\d+", row) for row in rows] == [[], [], ["pp64"], ["tg64"]]
    assert not any("/8" in line for line in terminal.lines)


def test_no_bar_where_it_is_not_wanted(mlxctl: Program, tiny: Tiny) -> None:
    args = ("bench", "--model", tiny("llama"), "-p", "8", "-n", "0", "-r", "1")
    assert b"\x1b" not in shown(mlxctl, *args, TERM="dumb").raw


def test_ctrl_c_in_a_bench(mlxctl: Program, tiny: Tiny) -> None:
    """The bar goes, the cursor comes back, what was measured stays."""
    args = ("bench", "--model", tiny("llama"), "-p", "16", "-n", "100000", "-r", "1", "--no-warmup")
    terminal = Terminal(mlxctl, *args, size=(24, 120))
    terminal.see("pp16")
    terminal.see("tg100000")
    time.sleep(0.5)
    terminal.child.kill(signal.SIGINT)
    terminal.end()
    assert terminal.child.exitstatus == 130
    assert terminal.raw.rindex(SHOW) > terminal.raw.rindex(HIDE)
    assert any(line.startswith("|") and "pp16" in line for line in terminal.lines)
    assert [row["command"] for row in past.rows(mlxctl.env)] == ["bench"]


@pytest.mark.parametrize("size", SIZES)
def test_charts_fit(size: tuple[int, int], mlxctl: Program) -> None:
    """In colours, where these are wanted, and as wide as the window."""
    for number in range(5):
        past.add(mlxctl.env, generation_tps=10.0 + number, prompt_tokens=100 * number)
    terminal = shown(mlxctl, "stats", "plot", size=size)
    assert "Rate over time" in terminal.news and b"\x1b[" in terminal.raw
    plain = shown(mlxctl, "stats", "plot", size=size, NO_COLOR="1")
    assert b"\x1b" not in plain.raw
    assert all(len(line) <= size[1] for line in plain.news.replace("\r", "").split("\n"))


@pytest.mark.parametrize("args", [(), ("--runs",), ("show",), ("plot",)])
def test_a_name_steers_no_terminal(mlxctl: Program, args: tuple[str, ...]) -> None:
    """A model or a profile may be called anything."""
    for _ in range(2):
        past.add(mlxctl.env, model="\x1b]0;owned\x07evil", profile="\x1b[31mred\x1b[2J")
    terminal = shown(mlxctl, "stats", *args, size=(24, 200))
    assert b"\x1b]0;" not in terminal.raw and b"\x07" not in terminal.raw and b"\x1b[2J" not in terminal.raw
    assert "evil" in terminal.news
