"""Odd input of every kind ends in one clear line and the right status, never in a fault of ours."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Program

Tiny = Callable[[str], str]


def refused(mlxctl: Program, status: int, words: str, *args: str, env: dict[str, str] | None = None) -> None:
    """The run ends with the status, says nothing on stdout, and says why."""
    done = mlxctl("run", *args, "hi", env=env)
    assert (done.code, done.out) == (status, ""), done.err
    assert words in done.err
    assert "fault of mlxctl" not in done.err and "Traceback" not in done.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("-f", "~nosuchuser/x"), "no such path"),
        (("--stats-file", "~nosuchuser/x"), "no such path"),
        (("-P", "~nosuchuser/x.toml"), "no such path"),
        (("-P", "x" * 300), "no such path"),
        (("-P", "/dev/null"), "not a file"),
        (("--chat-template-config", "[" * 3000), "expected a table"),
        (("--chat-template-config", '{"tokenize": true}'), "template.tokenize"),
        (("--temp", "1e-39"), "too small"),
        (("--temp", "1", "--top-p", "1e-320"), "too small"),
        (("--repetition-penalty", "1.1", "--repetition-context-size", str(2**63)), "repetition-context-size"),
    ],
)
def test_flags(args: tuple[str, ...], words: str, mlxctl: Program) -> None:
    refused(mlxctl, 2, words, "--model", "/nonexistent", *args)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[sampler]\nseed = " + "9" * 5000, "digits"),
        ('[prompt]\nsystem_file = "a\\u0000b"', "p.toml:2: prompt.system_file"),
        ('[prompt]\nfiles = [""]', "p.toml:2: prompt.files"),
        ('extends = "./' + "x" * 5000 + '"', "no such path"),
        ('extends = ""', "an empty name"),
    ],
)
def test_profiles(text: str, words: str, mlxctl: Program, work: Path) -> None:
    (work / "p.toml").write_text(text)
    refused(mlxctl, 2, words, "-P", "./p.toml")


def test_byte_order_marks_are_read_over(mlxctl: Program, tiny: Tiny, work: Path) -> None:
    """Editors on Windows write them."""
    (work / "p.toml").write_text("[sampler]\ntemp = 0.5\n", encoding="utf-8-sig")
    (work / "m.json").write_text('[{"role": "user", "content": "hi"}]', encoding="utf-8-sig")
    done = mlxctl("run", "-P", "./p.toml", "--model", tiny("stopper"), "--messages", "m.json", "--dry-run")
    assert (done.code, "sampler.temp = 0.5" in done.out) == (0, True), done.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[{"role":"user","content":"a","x":' + "[" * 900 + "]" * 900 + "}]", "deeply"),
        ('[{"role":"user","content":"a","x":' + "9" * 5000 + "}]", "digits"),
    ],
)
def test_messages(text: str, words: str, mlxctl: Program, work: Path) -> None:
    (work / "m.json").write_text(text)
    refused(mlxctl, 2, words, "--model", "/nonexistent", "--messages", "m.json")


def test_messages_that_say_nothing(mlxctl: Program, tiny: Tiny, work: Path) -> None:
    (work / "m.json").write_text('[{"role": "user", "content": "  "}]')
    done = mlxctl("run", "--model", tiny("stopper"), "--messages", "m.json")
    assert (done.code, done.out) == (2, "")
    assert "empty" in done.err


@pytest.mark.parametrize(
    ("file", "changes", "status"),
    [
        ("config.json", {"text_config": 5}, 3),
        ("config.json", {"text_config": [1]}, 3),
        ("config.json", {"vocab_size": "x"}, 3),
        ("tokenizer_config.json", {"model_max_length": "x"}, 3),
        ("tokenizer_config.json", {"chat_template": '{{ "\\ud800" }}'}, 5),
    ],
)
def test_damaged_folders(
    file: str, changes: dict[str, object], status: int, mlxctl: Program, tiny: Tiny, work: Path
) -> None:
    shutil.copytree(tiny("stopper"), work / "m")
    (work / "m" / "chat_template.jinja").unlink(missing_ok=True)
    path = work / "m" / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    refused(mlxctl, status, "", "--model", "./m")


def test_what_is_no_file_in_a_good_folder_is_passed_over(mlxctl: Program, tiny: Tiny, work: Path) -> None:
    """A half-deleted hub cache has dangling links."""
    shutil.copytree(tiny("stopper"), work / "m")
    (work / "m" / "README.txt").symlink_to("nowhere")
    (work / "m" / "docs.txt").mkdir()
    os.mkfifo(work / "m" / "pipe.txt")
    assert mlxctl("run", "--model", "./m", "hi").code == 0


def test_banning_everything_is_refused(mlxctl: Program, tiny: Tiny) -> None:
    from mlx_lm.utils import load_tokenizer

    size = len(load_tokenizer(Path(tiny("stopper"))))
    refused(mlxctl, 2, "every token", "--model", tiny("stopper"), *(f"--ban=id:{id}" for id in range(size)))


def test_json_readers_get_one_object(mlxctl: Program, tiny: Tiny) -> None:
    """Also when the stats file cannot take the figures."""
    done = mlxctl("run", "--model", tiny("stopper"), "--format", "json", "--stats-file", "/dev/full", "hi")
    assert done.code == 6
    assert json.loads(done.out)["finish_reason"] == "stop"


def test_dry_run_shows_what_a_cache_is_continued_with(mlxctl: Program, tiny: Tiny, work: Path) -> None:
    refused(mlxctl, 4, "no such prompt cache", "--model", tiny("stopper"), "--prompt-cache-file", "nope", "--dry-run")


def test_deleted_folder(mlxctl: Program, tiny: Tiny, work: Path) -> None:
    """Whatever it comes to, it is no fault of ours."""
    gone = work / "gone"
    gone.mkdir()
    process = Program("mlxctl", mlxctl.env, gone)
    process.path = "/bin/sh"
    done = process("-c", f'rmdir "{gone}"; exec "{mlxctl.path}" run --model {tiny("stopper")} hi')
    assert done.code in (0, 3), done.err
    assert "fault of mlxctl" not in done.err and "Traceback" not in done.err


def test_no_place_for_temporary_files(mlxctl: Program, tiny: Tiny) -> None:
    done = mlxctl("run", "--model", tiny("stopper"), "hi", env={"TMPDIR": "/nonexistent"})
    assert done.code in (0, 3), done.err
    assert "fault of mlxctl" not in done.err


@pytest.mark.parametrize("file", ["tokenizer.json", "generation_config.json", "chat_template.jinja", "config.json"])
@pytest.mark.parametrize("command", ["run", "inspect-template", "doctor"])
def test_a_pipe_in_a_model_folder(command: str, file: str, mlxctl: Program, tiny: Tiny, work: Path) -> None:
    """Nobody waits for what will never come."""
    shutil.copytree(tiny("stopper"), work / "m")
    (work / "m" / file).unlink(missing_ok=True)
    os.mkfifo(work / "m" / file)
    done = mlxctl(command, "--model", "./m", *(["hi"] if command != "doctor" else []), timeout=30)
    assert done.code == 3 and "Traceback" not in done.err
    assert ("no plain file" if file != "config.json" else "config.json") in done.err + done.out
