"""SPEC 3: the parts of a prompt, their order, and what is refused with one line and exit 2."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Program, Result

Tiny = Callable[[str], str]
NOT_UTF8 = b"caf\xe9"
BAD_ARGUMENT = "caf\udce9"  # what Python makes of those bytes in an argument
BYTE = "0xe9"


def chatml(*turns: tuple[str, str], answer: str = "") -> str:
    """The prompt that the template of most tiny models makes."""
    asked = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns)
    return f"{asked}<|im_start|>assistant\n{answer}"


@pytest.fixture
def dry(mlxctl: Program, tiny: Tiny) -> Callable[..., dict[str, Any]]:
    """What a dry run reports."""

    def run(*args: str, input: str | bytes | None = None, kind: str = "llama", **env: str) -> dict[str, Any]:
        flags = ("run", "--model", tiny(kind), "--dry-run", "--format", "json")
        done = mlxctl(*flags, *args, input=input, env=env)
        assert done.code == 0 and "Traceback" not in done.err, done.err
        found: dict[str, Any] = json.loads(done.out)
        return found

    return run


def refused(result: Result, *words: str) -> None:
    """Exit 2, nothing on stdout, one line and perhaps a hint on stderr."""
    lines = result.err.splitlines()
    assert (result.code, result.out) == (2, ""), lines
    assert 1 <= len(lines) <= 2 and "Traceback" not in result.err, lines
    assert [word for word in words if word not in result.err] == [], lines


def test_files_then_stdin_then_the_question(dry: Any, work: Path) -> None:
    """A long document is a stable prefix. Words are joined by spaces, parts by an empty line."""
    (work / "a.txt").write_text("first file")
    (work / "b.txt").write_text("second file")
    found = dry("why", "-f", "a.txt", "is", "it", "-f", "b.txt", "so?", input="piped text")
    text = "first file\n\nsecond file\n\npiped text\n\nwhy is it so?"
    assert found["prompt"] == chatml(("user", text))


def test_a_dash_names_stdin_and_the_flag_a_question(dry: Any) -> None:
    """The dash is no part of the question, wherever it stands."""
    assert dry("-", "what", input="piped")["prompt"] == chatml(("user", "piped\n\nwhat"))
    assert dry("-p", "-", input="piped")["prompt"] == chatml(("user", "piped"))


def test_stdin_alone_is_the_prompt(dry: Any) -> None:
    """Nothing is stripped from it, and backslashes are left alone even with --escapes."""
    text = " a\\n b\r\n日本語 🙂\n\n"
    assert dry("--escapes", input=text)["prompt"] == chatml(("user", text))


def test_an_empty_pipe_adds_nothing(dry: Any) -> None:
    """Where there is a question."""
    assert dry("-p", "hi", input="")["prompt"] == chatml(("user", "hi"))


@pytest.mark.parametrize("flags, text", [((), r"a\nb\tc"), (("--escapes",), "a\nb\tc")])
def test_escapes_are_read_where_asked_for(flags: tuple[str, ...], text: str, dry: Any) -> None:
    """mlx_lm.generate always reads them."""
    assert dry("-p", r"a\nb\tc", *flags)["prompt"] == chatml(("user", text))


def test_text_that_looks_like_options(dry: Any) -> None:
    """After --."""
    assert dry("--", "--temp", "-1")["prompt"] == chatml(("user", "--temp -1"))


def test_system_prompt_and_prefill(dry: Any, work: Path) -> None:
    """As a text and as a file; the answer's beginning comes last."""
    (work / "s.txt").write_text("Be kind.\n")
    turns = (("system", "Be kind.\n"), ("user", "hi"))
    found = dry("--system-file", "s.txt", "--prefill-response", "Well", "hi")
    assert found["prompt"] == chatml(*turns, answer="Well")
    found = dry("--system-prompt", "Be kind.\n", "hi", MLXCTL_SYSTEM_PROMPT="Be rude.")
    assert found["prompt"] == chatml(*turns)


def test_messages(dry: Any, work: Path) -> None:
    """A list, or an object with one, before the question and behind the system prompt."""
    turns = [("user", "hi"), ("assistant", "hello"), ("user", "and?")]
    messages = [{"role": role, "content": text} for role, text in turns]
    (work / "m.json").write_text(json.dumps({"model": "x", "messages": messages}))
    assert dry("--messages", "m.json")["prompt"] == chatml(*turns)
    found = dry("--messages", "m.json", "--system-prompt", "s", "-p", "so?")
    assert found["prompt"] == chatml(("system", "s"), *turns, ("user", "so?"))


def test_messages_that_end_with_an_answer_are_continued(dry: Any, work: Path) -> None:
    """The last message stays open."""
    (work / "m.json").write_text('[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Well, "}]')
    assert dry("--messages", "m.json")["prompt"].rstrip() == chatml(("user", "hi"), answer="Well,")


def test_content_in_parts(dry: Any, work: Path) -> None:
    """OpenAI's lists of text parts mean their text, as in mlx_lm.server."""
    (work / "m.json").write_text('[{"role": "user", "content": [{"type": "text", "text": "hi"}]}]')
    assert dry("--messages", "m.json")["prompt"] == chatml(("user", "hi"))


BROKEN_MESSAGES = {
    "empty": "",
    "no JSON": "{",
    "a number": "1",
    "a text": '"hi"',
    "an empty list": "[]",
    "an object without messages": '{"role": "user", "content": "hi"}',
    "messages is no list": '{"messages": "hi"}',
    "texts": '["hi"]',
    "no role": '[{"content": "hi"}]',
    "role is no text": '[{"role": 1, "content": "hi"}]',
    "no content": '[{"role": "user"}]',
    "content is null": '[{"role": "user", "content": null}]',
    "content is a number": '[{"role": "user", "content": 5}]',
    "content is an object": '[{"role": "user", "content": {"text": "hi"}}]',
    "the second is broken": '[{"role": "user", "content": "hi"}, {"role": "user"}]',
    "too deep": "[" * 100_000,
    "half a character": '[{"role": "user", "content": "\\ud800"}]',
}


@pytest.mark.parametrize("name", BROKEN_MESSAGES)
def test_broken_messages(name: str, mlxctl: Program, work: Path) -> None:
    """The file is named, and the message where one is at fault. The model is not looked at."""
    (work / "m.json").write_text(BROKEN_MESSAGES[name])
    words = ["message 2"] if name.startswith("the second") else []
    refused(mlxctl("run", "--model", "/nonexistent", "--messages", "m.json"), "m.json", *words)


def test_messages_and_a_second_system_prompt(mlxctl: Program, tiny: Tiny, work: Path) -> None:
    """One of them has to go."""
    (work / "m.json").write_text('[{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]')
    done = mlxctl("run", "--model", tiny("llama"), "--dry-run", "--messages", "m.json", "--system-prompt", "c")
    refused(done, "system")


@pytest.mark.parametrize(
    "args, words",
    [
        ((), ["no prompt"]),
        (("",), ["empty"]),
        (("  \n ",), ["empty"]),
        (("-p", ""), ["prompt"]),
        (("-f", "empty.txt"), ["empty"]),
        (("-f", "missing.txt", "hi"), ["missing.txt", "No such file"]),
        (("-f", ".", "hi"), ["folder"]),
        (("-f", "noise.bin", "hi"), ["noise.bin", "no text"]),
        (("--system-file", "missing.txt", "hi"), ["missing.txt"]),
        (("--system-file", "latin1.txt", "hi"), ["latin1.txt", "UTF-8"]),
        (("--messages", "missing.json"), ["missing.json"]),
        (("--messages", "latin1.txt"), ["latin1.txt", "UTF-8"]),
        ((BAD_ARGUMENT,), ["UTF-8", BYTE]),
        (("-p", BAD_ARGUMENT), ["UTF-8", BYTE]),
        (("--system-prompt", BAD_ARGUMENT, "hi"), ["--system-prompt", "UTF-8"]),
        (("--prefill-response", BAD_ARGUMENT, "hi"), ["--prefill-response", "UTF-8"]),
        (("--stop", BAD_ARGUMENT, "hi"), ["--stop", "UTF-8"]),
        (("--ban", BAD_ARGUMENT, "hi"), ["--ban", "UTF-8"]),
        (("--extra-eos-token", BAD_ARGUMENT, "hi"), ["--extra-eos-token", "UTF-8"]),
        (("--image", "missing.png", "hi"), ["missing.png"]),
    ],
)
def test_bad_input_is_refused_before_the_model(
    args: tuple[str, ...], words: list[str], mlxctl: Program, work: Path
) -> None:
    """It costs no second to hear of it: the model that does not exist is not missed."""
    (work / "empty.txt").write_text("\n")
    (work / "latin1.txt").write_bytes(NOT_UTF8)
    (work / "noise.bin").write_bytes(bytes(range(256)) * 4)
    refused(mlxctl("run", "--model", "/nonexistent", *args), *words)


@pytest.mark.parametrize("input, words", [(b"", ["empty"]), (b" \n", ["empty"]), (NOT_UTF8, ["stdin", "UTF-8", BYTE])])
def test_bad_stdin(input: bytes, words: list[str], mlxctl: Program, tiny: Tiny) -> None:
    """The library makes an empty user turn of nothing, and a TypeError of bad bytes."""
    refused(mlxctl("run", "--model", tiny("stopper"), input=input), *words)


def test_an_empty_stdin_that_was_named(mlxctl: Program, tiny: Tiny) -> None:
    """By the dash."""
    refused(mlxctl("run", "--model", tiny("stopper"), "-", input=b""), "empty")


def test_bytes_of_a_locale_that_is_not_utf_8(mlxctl: Program, tiny: Tiny) -> None:
    """Text is UTF-8 whatever the locale: in the C locale the question arrives whole and so does the answer."""
    env = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = mlxctl("run", "--model", tiny("llama"), "--dry-run", "--format", "json", "wörld 🙂", env=env)
    assert json.loads(done.out)["prompt"] == chatml(("user", "wörld 🙂"))


def test_an_empty_pipe_is_told_of(mlxctl: Program, tiny: Callable[[str], str]) -> None:
    """`git diff | mlxctl run "Explain"` with no diff: the question is asked, and stderr says what was missing."""
    done = mlxctl("run", "--model", tiny("stopper"), "--dry-run", "Explain", input="")
    assert (done.code, "stdin was empty" in done.err) == (0, True)
    named = mlxctl("run", "--model", tiny("stopper"), "--dry-run", "-", "Explain", input="")
    assert (named.code, named.out) == (2, "") and "nothing on stdin" in named.err
