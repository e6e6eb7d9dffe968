"""SIGINT and SIGTERM at every stage of a run."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Program
from running import (
    ENDLESS,
    cpu_seconds,
    default_signals,
    events,
    no_traceback,
    prompt_file,
    running,
    shell,
    shim,
    wait_for,
    waiting,
)

Tiny = Callable[[str], str]
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
both = pytest.mark.parametrize("number", STATUS, ids=lambda number: signal.Signals(number).name)
LONG, ONE_CHUNK, SMALL_CHUNKS = 8500, "100000", "64"  # tokens; the one chunk takes half a minute
SOON_S = 8.0  # well below that half minute, well above what a loaded machine needs to leave

WAITING_IMPORT = "import os, time\nos.write(2, b'importing\\n')\ntime.sleep(300)\n"


def _prefilling(out: bytes) -> bool:
    """The first chunk is done and more are to come."""
    return b'"event":"progress"' in out and any(
        event["event"] == "progress" and 0 < event["done"] < event["total"]
        for event in map(json.loads, out[: out.rfind(b"\n")].splitlines())
    )


def _in_the_library(out: bytes) -> bool:
    """No chunk is done, and the first is all of the prompt."""
    return b'"event":"progress"' in out


@both
def test_decoding(mlxctl: Program, tiny: Tiny, number: int) -> None:
    """What was streamed stays, a line end follows, and the stats say that the run was interrupted."""
    with running(mlxctl, "run", "--model", tiny("llama"), *ENDLESS, "--stats", "hi") as run:
        seen = run.wait_out(lambda out: len(out) > 60)
        run.signal(number)
        assert run.end() == STATUS[number]
        assert run.out.startswith(seen)
        assert run.out.decode().endswith("\n")
        no_traceback(run.err)
        (line,) = run.err.decode().splitlines()
        assert signal.Signals(number).name in line
        assert "interrupted" in line


def test_decoding_json(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """One object, and its figures in both other places."""
    log = tmp_path / "stats.jsonl"
    flags = ("--format", "json", "--stats", "json", "--stats-file", str(log))
    with running(mlxctl, "run", "--model", tiny("llama"), *ENDLESS, *flags, "hi") as run:
        wait_for(lambda: cpu_seconds(run.pid) >= 8)  # nothing is to be seen: loading takes two or three
        run.signal(signal.SIGINT)
        assert run.end() == 130
    done = json.loads(run.out)
    assert (done["finish_reason"], done["stop"]) == ("interrupted", {"kind": "signal", "signal": "SIGINT"})
    assert done["text"]
    assert done["timing"]["generation_tokens"] > 0
    figures = {key: value for key, value in done.items() if key not in ("text", "thinking")}
    assert [json.loads(line) for line in run.err.splitlines()] == [figures]
    assert [json.loads(line) for line in log.read_text().splitlines()] == [figures]


def test_decoding_jsonl(mlxctl: Program, tiny: Tiny) -> None:
    """The last line is the end, and agrees with the tokens before it."""
    with running(mlxctl, "run", "--model", tiny("llama"), *ENDLESS, "--format", "jsonl", "hi") as run:
        run.wait_out(lambda out: out.count(b'"event":"token"') > 20)
        run.signal(signal.SIGTERM)
        assert run.end() == 143
    *before, done = events(run.out)
    tokens = [event for event in before if event["event"] == "token"]
    assert (done["event"], done["finish_reason"]) == ("done", "interrupted")
    assert done["stop"] == {"kind": "signal", "signal": "SIGTERM"}
    assert done["text"] == "".join(token["raw"] for token in tokens)
    assert done["timing"]["generation_tokens"] == len(tokens)
    assert sum(event["event"] == "done" for event in before) == 0


def test_decoding_with_draft(mlxctl: Program, tiny: Tiny) -> None:
    """The library's other loop listens as well."""
    models = ("--model", tiny("llama"), "--draft-model", tiny("llama-draft"))
    with running(mlxctl, "run", *models, *ENDLESS, "hi") as run:
        seen = run.wait_out(lambda out: len(out) > 60)
        run.signal(signal.SIGINT)
        assert run.end() == 130
        assert run.out.startswith(seen)
        no_traceback(run.err)


def test_generate(mlxctl: Program, tiny: Tiny) -> None:
    """The drop-in keeps its layout and leaves no traceback."""
    with running(mlxctl, "generate", "--model", tiny("llama"), *ENDLESS, "--prompt", "hi") as run:
        seen = run.wait_out(lambda out: len(out) > 60)
        run.signal(signal.SIGINT)
        assert run.end() == 130
        assert seen.startswith(b"==========\n")
        assert run.out.startswith(seen)
        no_traceback(run.err)


@both
def test_prefilling(mlxctl: Program, wide: str, tmp_path: Path, number: int) -> None:
    """Between two chunks of a long prompt."""
    flags = ("-f", prompt_file(tmp_path, LONG), "--prefill-step-size", SMALL_CHUNKS, "--format", "jsonl")
    with running(mlxctl, "run", "--model", wide, *ENDLESS, *flags, "hi") as run:
        run.wait_out(_prefilling)
        run.signal(number)
        assert run.end() == STATUS[number]
        no_traceback(run.err)
    done = events(run.out)[-1]
    assert (done["event"], done["finish_reason"], done["text"]) == ("done", "interrupted", "")
    assert done["stop"] == {"kind": "signal", "signal": signal.Signals(number).name}
    assert (done["timing"]["generation_tokens"], done["timing"]["ttft_s"]) == (0, None)


def test_deep_in_the_library(mlxctl: Program, wide: str, tmp_path: Path) -> None:
    """One chunk of half a minute is not waited for, and still ends in good order."""
    flags = ("-f", prompt_file(tmp_path, LONG), "--prefill-step-size", ONE_CHUNK, "--format", "jsonl", "--stats")
    log = tmp_path / "stats.jsonl"
    with running(
        mlxctl, "run", "--model", wide, *ENDLESS, *flags, "--stats-file", str(log), "hi"
    ) as run:  # fmt: skip
        run.wait_out(_in_the_library)
        start = run.signal(signal.SIGINT)
        assert run.end() == 130
        assert time.monotonic() - start < SOON_S
        no_traceback(run.err)
    ends = [event for event in events(run.out) if event["event"] == "done"]
    assert [(done["finish_reason"], done["stop"]["signal"]) for done in ends] == [("interrupted", "SIGINT")]
    assert "SIGINT" in run.err.decode().splitlines()[-1]
    assert [json.loads(line)["finish_reason"] for line in log.read_text().splitlines()] == ["interrupted"]


def test_second_signal(mlxctl: Program, wide: str, tmp_path: Path) -> None:
    """Whoever insists is not kept waiting, whatever the library does; each line written is whole."""
    flags = ("-f", prompt_file(tmp_path, LONG), "--prefill-step-size", ONE_CHUNK, "--format", "jsonl")
    with running(mlxctl, "run", "--model", wide, *ENDLESS, *flags, "hi") as run:
        run.wait_out(_in_the_library)
        run.signal(signal.SIGINT)
        time.sleep(0.3)  # a person's double press: in good order by now, or at once
        start = run.signal(signal.SIGINT)
        assert run.end() == 130
        assert time.monotonic() - start < SOON_S
        no_traceback(run.err)
    assert events(run.out)


def test_signal_delivered_twice(mlxctl: Program, tiny: Tiny) -> None:
    """timeout(1) signals its child and then the group the child is in: that is one request, not an insistence."""
    with running(mlxctl, "run", "--model", tiny("llama"), *ENDLESS, "--format", "jsonl", "hi") as run:
        run.wait_out(lambda out: out.count(b'"event":"token"') > 5)
        run.signal(signal.SIGTERM)
        time.sleep(0.002)  # so that the kernel does not make one of the two
        os.killpg(run.pid, signal.SIGTERM)
        assert run.end() == 143
    assert events(run.out)[-1]["event"] == "done"


@pytest.mark.parametrize("times", [1, 2])
def test_reader_stalls(mlxctl: Program, tiny: Tiny, times: int) -> None:
    """The reader of stdout is there but does not read: the run is stuck in a write, and ends all the same."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    room = _fill(writer) - 8192
    os.set_blocking(writer, True)
    os.read(reader, 8192)
    with running(mlxctl, "run", "--model", tiny("llama"), *ENDLESS, "--format", "jsonl", "hi", stdout=writer) as run:
        os.close(writer)
        wait_for(lambda: waiting(reader) > room + 4096)  # the 8 KiB are full after some 60 tokens
        _wait_for_standstill(reader)
        for _ in range(times):
            start = run.signal(signal.SIGINT)
            time.sleep(0.3)
        try:
            run.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still there 20 s after {times} SIGINT")
        finally:
            os.close(reader)
        assert run.process.returncode == 130
        assert time.monotonic() - start < SOON_S
        assert run.end() == 130
        no_traceback(run.err)


def _fill(writer: int) -> int:
    """Write to a non-blocking pipe until it is full; return how much that was."""
    written = 0
    while True:
        try:
            written += os.write(writer, b"." * 4096)
        except BlockingIOError:
            return written


def _wait_for_standstill(reader: int) -> None:
    """Until nothing has been added to a pipe for a second."""
    last, since = waiting(reader), time.monotonic()

    def still() -> bool:
        nonlocal last, since
        if waiting(reader) != last:
            last, since = waiting(reader), time.monotonic()
        return time.monotonic() - since > 1

    wait_for(still)


@both
@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_importing_the_library(mlxctl: Program, tmp_path: Path, number: int, form: str) -> None:
    """Before there is a model: one line, the status, and JSON or nothing on stdout."""
    env = shim(tmp_path / "shim", "mlx_lm", WAITING_IMPORT)
    with running(mlxctl, "run", "--model", str(tmp_path), "--format", form, "hi", env=env) as run:
        run.wait_err(lambda err: b"importing\n" in err)
        start = run.signal(number)
        assert run.end() == STATUS[number]
        assert time.monotonic() - start < SOON_S
        no_traceback(run.err)
        said = run.err.decode().splitlines()[1:]
        assert len(said) == 1
        assert "interrupted" in said[0]
        if run.out:
            assert form != "text"
            assert [json.loads(line) for line in run.out.splitlines()]


@pytest.mark.parametrize("module", ["click", "msgspec"])
def test_importing_ourselves(mlxctl: Program, tmp_path: Path, module: str) -> None:
    """Ctrl-C before our own first line has run: killed by the signal or 130, but no traceback."""
    env = shim(tmp_path / "shim", module, WAITING_IMPORT)
    with running(mlxctl, "run", "hi", env=env) as run:
        run.wait_err(lambda err: b"importing\n" in err)
        run.signal(signal.SIGINT)
        assert run.end() in (130, -signal.SIGINT)
        no_traceback(run.err)


@pytest.mark.parametrize("delay", [0.2, 0.7, 1.2])
def test_loading(mlxctl: Program, tiny: Tiny, tmp_path: Path, delay: float) -> None:
    """At whatever moment of the real thing; the log file is opened shortly before the library is."""
    log = tmp_path / "stats.jsonl"
    with running(mlxctl, "run", "--model", tiny("llama"), *ENDLESS, "--stats-file", str(log), "hi") as run:
        wait_for(log.exists)
        time.sleep(delay)  # no race: what follows holds at any moment
        run.signal(signal.SIGINT)
        assert run.end() == 130
        no_traceback(run.err)
        assert "\ufffd" not in run.out.decode()


def test_waiting_for_stdin(mlxctl: Program, tiny: Tiny) -> None:
    """Nothing was asked yet; the pipe stays open."""
    reader, writer = os.pipe()
    with running(mlxctl, "run", "--model", tiny("stopper"), "-", stdin=reader) as run:
        os.write(writer, b"half a que")
        wait_for(lambda: waiting(reader) == 0)  # it is reading now
        run.signal(signal.SIGINT)
        assert run.end() == 130
        os.close(reader)
        os.close(writer)
        assert run.out == b""
        no_traceback(run.err)


def test_ignored_stays_ignored(mlxctl: Program, tiny: Tiny) -> None:
    """A job started by `&` in a script, or under nohup, has SIGINT ignored; SIGTERM ends it."""

    def ignore() -> None:
        default_signals()
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    with running(mlxctl, "run", "--model", tiny("llama"), *ENDLESS, "hi", preexec_fn=ignore) as run:
        run.wait_out(lambda out: len(out) > 60)
        run.signal(signal.SIGINT)
        run.wait_out(lambda out: len(out) > 1000)
        assert run.process.poll() is None
        run.signal(signal.SIGTERM)
        assert run.end() == 143
        no_traceback(run.err)


def test_pipeline(mlxctl: Program, tiny: Tiny) -> None:
    """Ctrl-C reaches every process of `mlxctl run … | cat`."""
    script = 'trap : INT; "$M" "$@" | cat; echo "status ${PIPESTATUS[0]}" >&2'
    with shell(mlxctl, script, "run", "--model", tiny("llama"), *ENDLESS, "hi") as run:
        run.wait_out(lambda out: len(out) > 60)
        os.killpg(run.pid, signal.SIGINT)
        run.end()
        no_traceback(run.err)
        status = run.err.decode().splitlines()[-1]
        assert status in ("status 130", "status 141")  # whether cat was gone first
