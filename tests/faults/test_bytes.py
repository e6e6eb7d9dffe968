"""The bytes of text, whatever the locale, and as they stream; and no escape codes among them."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Program
from models import EMOJI, STOPPER_REPLY
from running import ENDLESS, no_traceback, prompt_file, running

Tiny = Callable[[str], str]
TEXT = "grüße 🙂 世界 👩‍👩‍👧 é"
PLAIN = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
INSTALLED = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False).stdout.lower().split()
locales = pytest.mark.parametrize(
    "env",
    [
        pytest.param(PLAIN, id="C"),
        pytest.param({**PLAIN, "LC_ALL": "POSIX"}, id="POSIX"),
        pytest.param({**PLAIN, "PYTHONIOENCODING": "latin-1"}, id="latin-1"),
        pytest.param(
            {**PLAIN, "LC_ALL": "en_US.ISO-8859-1"},
            id="ISO-8859-1",
            marks=pytest.mark.skipif("en_us.iso88591" not in INSTALLED, reason="that locale is not installed"),
        ),
    ],
)


@locales
def test_answer(mlxctl: Program, tiny: Tiny, env: dict[str, str]) -> None:
    """The same bytes as under UTF-8."""
    with running(mlxctl, "run", "--model", tiny("stopper"), TEXT, env=env) as run:
        assert run.end() == 0
        assert (run.out, run.err) == (f"{STOPPER_REPLY}\n".encode(), b"")


@locales
def test_prompt(mlxctl: Program, tiny: Tiny, env: dict[str, str]) -> None:
    """Words, a file, its name, stdin, system prompt and prefill come through as they are."""
    name = f"{TEXT}.txt"
    (mlxctl.cwd / name).write_text(f"file {TEXT}", encoding="utf-8")
    args = ("--system-prompt", f"system {TEXT}", "--prefill-response", f"prefill {TEXT}", "-f", name, f"word {TEXT}")
    done = mlxctl(
        "run", "--model", tiny("llama"), "--dry-run", "--format", "json", *args, input=f"stdin {TEXT}", env=env
    )  # fmt: skip
    assert done.code == 0, done.err
    prompt = json.loads(done.out)["prompt"]
    places = [prompt.find(f"{part} {TEXT}") for part in ("system", "file", "stdin", "word", "prefill")]
    assert -1 not in places
    assert places == sorted(places)


def test_stop_string(mlxctl: Program, tiny: Tiny) -> None:
    """A flag's text is UTF-8 as well: it must match the model's."""
    with running(mlxctl, "run", "--model", tiny("stopper"), "--stop", "ld 🙂", "hi", env=PLAIN) as run:
        assert run.end() == 0
        assert run.out.decode() == STOPPER_REPLY.split("ld 🙂")[0] + "\n"


def test_strings_in_json(mlxctl: Program, tiny: Tiny) -> None:
    """What flags said comes back as it was."""
    args = ("--dry-run", "--format", "json", "--stop", TEXT, "--chat-template-config", json.dumps({"x": TEXT}), "hi")
    done = mlxctl("run", "--model", tiny("llama"), *args, env=PLAIN)
    assert done.code == 0, done.err
    settings = json.loads(done.out)["settings"]
    assert settings["generation"]["stop"] == [TEXT]
    assert settings["request"]["chat_template_config"] == {"x": TEXT}


@pytest.mark.parametrize("env", [{}, PLAIN], ids=["UTF-8", "C"])
@pytest.mark.parametrize(
    "args",
    [("run", b"\xff\xfe"), ("run", "-f", TEXT), ("run", "-P", TEXT), (TEXT,), ("run", f"--{TEXT}"), ("run", "--stop")],
    ids=["bytes", "file", "profile", "command", "flag", "value"],
)
def test_odd_arguments(mlxctl: Program, env: dict[str, str], args: tuple[str | bytes, ...]) -> None:
    """Refused in a line or two, whatever stderr can show."""
    done = subprocess.run(
        [mlxctl.path, *args], env={**mlxctl.env, **env}, cwd=mlxctl.cwd, stdin=subprocess.DEVNULL, capture_output=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, b"")
    assert 1 <= len(done.stderr.splitlines()) <= 2
    no_traceback(done.stderr)


@pytest.mark.parametrize("kind", ["llama", "spm"])
def test_stream(mlxctl: Program, tiny: Tiny, kind: str) -> None:
    """What has been read by any moment is whole characters, and in the end the text of the JSON run."""
    args = ("run", "--model", tiny(kind), "--max-tokens", "150", "--temp", "1", "--seed", "1", "hi")
    pieces = []
    with running(mlxctl, *args) as run:
        assert run.process.stdout is not None
        while piece := os.read(run.process.stdout.fileno(), 65536):
            pieces.append(piece)
        assert run.end() == 0
    assert [piece.decode(errors="replace").encode() for piece in pieces] == pieces  # each one whole
    assert len(pieces) > 20
    text = b"".join(pieces).decode()
    assert EMOJI in text
    assert "\ufffd" not in text
    assert text == json.loads(mlxctl(*args, "--format", "json").out)["text"] + "\n"


def test_streams_while_it_runs(mlxctl: Program, tiny: Tiny) -> None:
    """Text arrives from a run that has no end, again and again."""
    with running(mlxctl, "run", "--model", tiny("llama"), *ENDLESS, "hi") as run:
        for count in (1, 100, 200):
            run.wait_out(lambda out, count=count: len(out) >= count)
            assert run.process.poll() is None
        assert len(run.out) < 4096  # no buffer was waited for
        run.signal(signal.SIGTERM)
        run.end()


@pytest.mark.parametrize(
    "env", [{}, {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}, {"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str
)
def test_no_escape_codes(mlxctl: Program, tiny: Tiny, tmp_path: Path, env: dict[str, str]) -> None:
    """No stream is a terminal, and the prefill is slow enough for a bar."""
    args = ("-f", prompt_file(tmp_path, 1800), "--prefill-step-size", "1", "--max-tokens", "5", "--stats", "hi")
    done = mlxctl("run", "--model", tiny("llama"), *args, env=env)
    assert done.code == 0
    assert "\x1b" not in done.out + done.err
    assert "prefill" not in done.err
    assert "prompt tokens" in done.err


@pytest.mark.parametrize("env", [{}, {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}, {"NO_COLOR": "1"}], ids=str)
@pytest.mark.parametrize("args", [("--help",), ("run", "--help"), ("rnu",), ("generate", "--nope")], ids=" ".join)
def test_no_escape_codes_in_help(mlxctl: Program, env: dict[str, str], args: tuple[str, ...]) -> None:
    """Nor where click or argparse write."""
    done = mlxctl(*args, env=env)
    assert done.out + done.err
    assert "\x1b" not in done.out + done.err


def test_no_stats_unless_a_terminal_looks(mlxctl: Program, tiny: Tiny) -> None:
    """stderr of a script stays empty."""
    done = mlxctl("run", "--model", tiny("stopper"), "hi", env={"TERM": "xterm-256color"})
    assert (done.code, done.err) == (0, "")
