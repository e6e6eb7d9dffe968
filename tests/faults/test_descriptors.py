"""Closed, odd and slow standard streams."""

import json
import os
import select
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Program
from models import STOPPER_REPLY
from running import PATIENCE_S, events, no_traceback, running, shell, wait_for, waiting

Tiny = Callable[[str], str]
ANSWER = STOPPER_REPLY + "\n"


def _sh(mlxctl: Program, script: str, *args: str) -> "subprocess.CompletedProcess[bytes]":
    """Run a line of sh, whose own streams are open; "$M" is the program."""
    return subprocess.run(
        ["/bin/sh", "-c", script, "sh", *args], env={**mlxctl.env, "M": mlxctl.path}, cwd=mlxctl.cwd,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_closed_and_not_needed(mlxctl: Program, tiny: Tiny, closed: str) -> None:
    """Neither stdin nor stderr is needed to answer."""
    done = _sh(mlxctl, f'exec "$M" "$@" {closed}', "run", "--model", tiny("stopper"), "--stats", "hi")
    assert (done.returncode, done.stdout.decode()) == (0, ANSWER)
    assert bool(done.stderr) == ("2>&-" not in closed)
    no_traceback(done.stderr)


@pytest.mark.parametrize("closed", [">&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_stdout(mlxctl: Program, closed: str) -> None:
    """Told before a model is looked for."""
    done = _sh(mlxctl, f'exec "$M" "$@" {closed}', "run", "--model", "/nowhere", "hi")
    assert (done.returncode, done.stdout) == (2, b"")
    assert (b"stdout is closed" in done.stderr) == ("2>&-" not in closed)
    assert len(done.stderr.splitlines()) <= 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("args", "status"), [(("rnu",), 2), (("--version",), 0)], ids=["error", "version"])
def test_closed_without_a_run(mlxctl: Program, closed: str, args: tuple[str, ...], status: int) -> None:
    """Errors keep their status; a version that cannot be shown is no crash."""
    done = _sh(mlxctl, f'exec "$M" "$@" {closed}', *args)
    assert done.returncode == status or (status == 0 and ">&-" in closed.replace("2>&-", "") and done.returncode == 2)
    no_traceback(done.stderr)
    if status == 2 and "2>&-" not in closed:
        assert b"did you mean run?" in done.stderr


def test_closed_descriptors_are_not_reused(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """A file opened under a closed stream's number must not get what is meant for the stream."""
    log = tmp_path / "stats.jsonl"
    args = ("run", "--model", tiny("stopper"), "--stats", "--stats-file", str(log), "hi")
    done = _sh(mlxctl, 'exec "$M" "$@" <&- 2>&-', *args)
    assert (done.returncode, done.stdout.decode()) == (0, ANSWER)
    (line,) = log.read_text().splitlines()
    assert json.loads(line)["finish_reason"] == "stop"


@pytest.mark.parametrize("stdin", ["</dev/null", "<&-"])
def test_nothing_to_ask(mlxctl: Program, stdin: str) -> None:
    """No prompt, and a stdin that cannot bring one."""
    done = _sh(mlxctl, f'exec "$M" "$@" {stdin}', "run", "--model", "/nowhere")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"prompt" in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_directory_on_stdin(mlxctl: Program) -> None:
    """CPython itself gives up on it before any program starts; nothing may look like an answer."""
    done = _sh(mlxctl, 'exec "$M" "$@" <.', "run", "--model", "/nowhere", "hi")
    assert (done.returncode != 0, done.stdout) == (True, b"")
    assert b"irectory" in done.stderr
    assert b"Traceback" not in done.stderr


def _prompt_of(mlxctl: Program, tiny: Tiny, stdin: str, *args: str) -> str:
    """What the model would be asked (no weights are read)."""
    args = ("run", "--model", tiny("llama"), "--dry-run", "--format", "json", *args)
    done = _sh(mlxctl, f'exec "$M" "$@" {stdin}', *args)
    assert done.returncode == 0, done.stderr
    return _question(done.stdout)


def _question(out: bytes) -> str:
    return json.loads(out)["prompt"].removeprefix("<|im_start|>user\n").split("<|im_end|>")[0]


def test_file_on_stdin(mlxctl: Program, tiny: Tiny) -> None:
    """It goes before the question, and need not be named."""
    (mlxctl.cwd / "page.txt").write_text("A page about wörld 🙂 世界")
    assert _prompt_of(mlxctl, tiny, "<page.txt", "What is it?") == "A page about wörld 🙂 世界\n\nWhat is it?"


def test_silent_pipe_beside_a_prompt(mlxctl: Program, tiny: Tiny) -> None:
    """As under a service manager or ssh: it is not waited for, and that is said."""
    reader, writer = os.pipe()
    with running(mlxctl, "run", "--model", tiny("stopper"), "hi", stdin=reader) as run:
        os.close(reader)
        assert run.end() == 0
        assert run.out.decode() == ANSWER
        (line,) = run.err.decode().splitlines()
        assert "stdin" in line
    os.close(writer)


def test_silent_pipe_alone(mlxctl: Program, tiny: Tiny) -> None:
    """With nothing else to ask it is waited for, through every pause."""
    reader, writer = os.pipe()
    with running(mlxctl, "run", "--model", tiny("stopper"), stdin=reader) as run:
        os.write(writer, b"first half, ")
        wait_for(lambda: waiting(reader) == 0)  # taken
        assert run.process.stdout is not None
        assert not select.select([run.process.stdout], [], [], 1)[0]
        os.write(writer, b"second half")
        os.close(writer)
        os.close(reader)
        assert run.end() == 0
        assert (run.out.decode(), run.err) == (ANSWER, b"")


def test_non_blocking_stdin(mlxctl: Program, tiny: Tiny) -> None:
    """Whoever shares the pipe may have made it non-blocking (node does); nothing of it is lost."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    args = ("run", "--model", tiny("llama"), "--dry-run", "--format", "json", "-")
    with running(mlxctl, *args, stdin=reader) as run:
        time.sleep(3)  # long enough to find it empty, which only makes the test harder
        os.write(writer, b"one ")
        wait_for(lambda: waiting(reader) == 0 or run.process.poll() is not None)
        assert run.process.poll() is None, run.err
        os.write(writer, b"two")
        os.close(writer)
        os.close(reader)
        assert run.end() == 0, run.err
        assert _question(run.out) == "one two"


def test_socket_on_stdin(mlxctl: Program, tiny: Tiny) -> None:
    """As inetd and rsh hand it over."""
    ours, theirs = socket.socketpair()
    args = ("run", "--model", tiny("llama"), "--dry-run", "--format", "json")
    with ours, running(mlxctl, *args, stdin=theirs) as run:
        theirs.close()
        ours.sendall("über 🙂".encode())
        ours.shutdown(socket.SHUT_WR)
        assert run.end() == 0, run.err
        assert _question(run.out) == "über 🙂"


def test_slow_non_blocking_stdout(mlxctl: Program, tiny: Tiny) -> None:
    """A full pipe that refuses more loses nothing."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    size = 0
    with pytest.raises(BlockingIOError):
        while True:
            size += os.write(writer, b"." * 4096)
    os.read(reader, 8192)
    args = ("run", "--model", tiny("llama"), "--max-tokens", "200", "--format", "jsonl", "hi")
    with running(mlxctl, *args, stdout=writer) as run:
        os.close(writer)
        wait_for(lambda: waiting(reader) > size - 4096)  # nearly full again
        data = b""
        while more := os.read(reader, 512):
            data += more
            time.sleep(0.001)
        os.close(reader)
        assert run.end() == 0
        no_traceback(run.err)
    start, *rest, done = events(data[size - 8192 :])
    tokens = [event["raw"] for event in rest if event["event"] == "token"]
    assert (start["event"], done["event"], len(tokens)) == ("start", "done", 200)
    assert "".join(tokens) == done["text"]


def test_no_controlling_terminal(mlxctl: Program, tiny: Tiny) -> None:
    """As under cron."""
    with shell(mlxctl, 'setsid "$M" "$@" </dev/null', "run", "--model", tiny("stopper"), "hi") as run:
        assert run.end() == 0
        assert (run.out.decode(), run.err) == (ANSWER, b"")


def test_two_at_once(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """Nothing is shared but the log, and each line of that is whole."""
    log = tmp_path / "stats.jsonl"
    args = ("run", "--model", tiny("stopper"), "--stats-file", str(log), "hi")
    with running(mlxctl, *args) as first, running(mlxctl, *args) as second:
        assert (first.end(), second.end()) == (0, 0)
        assert (first.out.decode(), second.out.decode()) == (ANSWER, ANSWER)
    assert [json.loads(line)["finish_reason"] for line in log.read_text().splitlines()] == ["stop", "stop"]
