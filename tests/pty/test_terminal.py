"""On a real terminal: the prefill bar, the stats line, Ctrl-C, and what is never drawn."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest
from conftest import Program
from models import STOPPER_REPLY

sys.path.insert(0, str(Path(__file__).parent.parent / "faults"))
from running import ENDLESS, PATIENCE_S, default_signals, no_traceback, prompt_file, wait_for

Tiny = Callable[[str], str]
ESC, HIDE, SHOW = "\x1b", "\x1b[?25l", "\x1b[?25h"
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")
SLOW = ("--prefill-step-size", "1")  # 1800 tokens take three seconds
STATS = re.compile(r"prompt tokens? · .* · (ended by|cut at|interrupted by) ")


@contextmanager
def terminal(
    mlxctl: Program, *args: str, redirect: str = "", env: Mapping[str, str] | None = None
) -> Iterator[pexpect.spawn]:
    """The program on a pseudo-terminal that controls it; redirect: as in a shell."""
    argv = ["-c", f'exec "$@" {redirect}', "sh", mlxctl.path, *args]
    child = pexpect.spawn(
        "/bin/sh", argv, env={**mlxctl.env, **(env or {})}, cwd=str(mlxctl.cwd),
        encoding="utf-8", timeout=PATIENCE_S, dimensions=(24, 200), preexec_fn=default_signals, echo=False,
    )  # fmt: skip
    child.delaybeforesend = None
    try:
        yield child
    finally:
        child.close(force=True)


def rest(child: pexpect.spawn) -> tuple[int, str]:
    """Everything up to its end, and the exit status."""
    child.expect(pexpect.EOF)
    child.wait()
    return child.exitstatus if child.exitstatus is not None else -child.signalstatus, child.before


def _slow_run(wide: str, folder: Path, tokens: int = 1800) -> tuple[str, ...]:
    return ("run", "--model", wide, "-f", prompt_file(folder, tokens), "--max-tokens", "5", "hi")


def test_bar_on_stderr_alone(mlxctl: Program, wide: str, tmp_path: Path) -> None:
    """A slow prefill shows it; the answer in its file is clean, and the bar is taken away."""
    with terminal(mlxctl, *_slow_run(wide, tmp_path), *SLOW, redirect=">answer") as child:
        status, drawn = rest(child)
    answer = (mlxctl.cwd / "answer").read_text()
    assert status == 0
    assert "prefill" in drawn
    assert HIDE in drawn
    assert drawn.rindex(SHOW) > drawn.rindex(HIDE)
    assert STATS.search(drawn)
    assert ESC not in answer
    assert "prefill" not in answer
    assert answer.endswith("\n")
    assert len(answer) > 3


def test_quick_prefill_draws_nothing(mlxctl: Program, tiny: Tiny) -> None:
    """Below a second there is no bar; the stats line is there, after the answer."""
    with terminal(mlxctl, "run", "--model", tiny("stopper"), "hi") as child:
        status, shown = rest(child)
    assert status == 0
    assert shown.startswith(STOPPER_REPLY + "\r\n")
    assert STATS.search(shown)
    assert "prefill" not in shown
    assert ESC not in shown


def test_no_stats_when_refused(mlxctl: Program, tiny: Tiny) -> None:
    """--no-stats holds on a terminal too."""
    with terminal(mlxctl, "run", "--model", tiny("stopper"), "--no-stats", "hi") as child:
        assert rest(child) == (0, STOPPER_REPLY + "\r\n")


def test_dumb_terminal(mlxctl: Program, wide: str, tmp_path: Path) -> None:
    """It cannot draw; it can show a line."""
    with terminal(mlxctl, *_slow_run(wide, tmp_path), *SLOW, env={"TERM": "dumb"}) as child:
        status, shown = rest(child)
    assert status == 0
    assert ESC not in shown
    assert "prefill" not in shown
    assert STATS.search(shown)


def test_no_color(mlxctl: Program, wide: str, tmp_path: Path) -> None:
    """A bar, if any, without colours."""
    with terminal(mlxctl, *_slow_run(wide, tmp_path), *SLOW, redirect=">answer", env={"NO_COLOR": "1"}) as child:
        status, drawn = rest(child)
    assert status == 0
    assert STATS.search(drawn)
    assert not COLOUR.search(drawn)


def test_bar_has_colours_otherwise(mlxctl: Program, wide: str, tmp_path: Path) -> None:
    """So that the test above can fail."""
    with terminal(mlxctl, *_slow_run(wide, tmp_path), *SLOW, redirect=">answer") as child:
        assert COLOUR.search(rest(child)[1])


def test_stdout_alone_is_a_terminal(mlxctl: Program, wide: str, tmp_path: Path) -> None:
    """Nobody looks at stderr: no bar, no stats, and nothing but the answer on the screen."""
    with terminal(mlxctl, *_slow_run(wide, tmp_path), *SLOW, redirect="2>said") as child:
        status, shown = rest(child)
    said = (mlxctl.cwd / "said").read_text()
    assert status == 0
    assert ESC not in shown + said
    assert "prefill" not in said
    assert not STATS.search(said)


def test_ctrl_c_while_decoding(mlxctl: Program, tiny: Tiny) -> None:
    """What was said stays on the screen; the stats say how it ended."""
    with terminal(mlxctl, "run", "--model", tiny("llama"), *ENDLESS, "hi") as child:
        child.expect(r"\S[^\x1b]{60}")
        seen = child.before + child.after
        child.sendintr()
        status, more = rest(child)
    assert status == 130
    assert STATS.search(more)
    assert "SIGINT" in more
    assert ESC not in seen + more
    no_traceback(more.encode())


@pytest.mark.parametrize(
    ("step", "presses"), [("64", 1), ("100000", 1), ("100000", 2)], ids=["between", "inside", "inside-twice"]
)
def test_ctrl_c_under_the_bar(mlxctl: Program, wide: str, tmp_path: Path, step: str, presses: int) -> None:
    """The cursor comes back, between two chunks as well as inside one, however impatient."""
    args = (*_slow_run(wide, tmp_path, 8500), "--prefill-step-size", step)
    with terminal(mlxctl, *args) as child:
        child.expect_exact(HIDE)
        child.expect_exact("prefill")
        for _ in range(presses):
            child.sendintr()
            time.sleep(0.3)
        status, drawn = rest(child)
    assert status == 130
    assert SHOW in drawn[drawn.rfind(HIDE) + 1 :]
    no_traceback(drawn.encode())


def test_sigterm_under_the_bar(mlxctl: Program, wide: str, tmp_path: Path) -> None:
    """The same for kill."""
    args = (*_slow_run(wide, tmp_path, 8500), "--prefill-step-size", "64")
    with terminal(mlxctl, *args) as child:
        child.expect_exact(HIDE)
        child.expect_exact("prefill")
        os.kill(child.pid, signal.SIGTERM)
        status, drawn = rest(child)
    assert status == 143
    assert SHOW in drawn[drawn.rfind(HIDE) + 1 :]


def test_terminal_is_not_waited_for(mlxctl: Program, tiny: Tiny) -> None:
    """A prompt is given: stdin, a terminal on which nobody types, is left alone."""
    with terminal(mlxctl, "run", "--model", tiny("stopper"), "hi", redirect=">answer 2>said") as child:
        assert rest(child)[0] == 0
    assert (mlxctl.cwd / "answer").read_text() == STOPPER_REPLY + "\n"
    assert (mlxctl.cwd / "said").read_text() == ""


def test_typed_prompt(mlxctl: Program, tiny: Tiny) -> None:
    """`-` on a terminal: typed until Ctrl-D."""
    args = ("run", "--model", tiny("llama"), "--dry-run", "-")
    with terminal(mlxctl, *args, redirect=">answer") as child:
        child.sendline("typed wörds")
        child.sendeof()
        assert rest(child)[0] == 0
    assert "typed wörds" in (mlxctl.cwd / "answer").read_text()


def test_no_prompt_on_a_terminal(mlxctl: Program) -> None:
    """Told what to do, rather than left before a silent cursor."""
    with terminal(mlxctl, "run", "--model", "/nowhere") as child:
        status, shown = rest(child)
    assert status == 2
    assert "prompt" in shown
    assert ESC not in shown


def test_help_on_a_terminal(mlxctl: Program) -> None:
    """Plain under TERM=dumb and NO_COLOR."""
    for env in ({"TERM": "dumb"}, {"NO_COLOR": "1"}):
        with terminal(mlxctl, "run", "--help", env=env) as child:
            status, shown = rest(child)
        assert status == 0
        assert "--max-tokens" in shown
        assert ESC not in shown


def test_terminal_goes_away(mlxctl: Program, tiny: Tiny) -> None:
    """The window is closed: an endless run does not stay behind."""
    with terminal(mlxctl, "run", "--model", tiny("llama"), *ENDLESS, "hi") as child:
        child.expect(r"\S[^\x1b]{60}")
        child.ptyproc.fileobj.close()  # the last descriptor of the terminal's other side
        wait_for(lambda: not child.isalive(), patience=30)
        assert child.signalstatus == signal.SIGHUP or child.exitstatus in (128 + signal.SIGHUP, 141)
