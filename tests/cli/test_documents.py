"""-f with encodings, folders and patterns; the prompt template; where the answer goes; what of it is shown."""

import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Program
from models import STOPPER_REPLY

Tiny = Callable[[str], str]
FRENCH = "Un café crème et un bon déjeuner à Paris avec des élèves très sérieux."


@pytest.fixture
def rendered(mlxctl: Program, tiny: Tiny) -> Callable[..., Any]:
    """The prompt of a run with these arguments, and what is said on the way."""

    def one(*args: str, input: str | None = None) -> tuple[str, str]:
        done = mlxctl("run", "--model", tiny("llama"), "--dry-run", "--format", "json", *args, input=input)
        assert done.code == 0, done.err
        text = json.loads(done.out)["prompt"]
        return text.removeprefix("<|im_start|>user\n").partition("<|im_end|>")[0], done.err

    return one


# Files


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(encoding: str, rendered: Callable[..., Any], mlxctl: Program) -> None:
    (mlxctl.cwd / "menu.txt").write_text(FRENCH, encoding=encoding)
    text, said = rendered("-f", "menu.txt", "Translate.")
    assert text == f"{FRENCH}\n\nTranslate."
    assert ("menu.txt: it is no UTF-8 and is read as " in said) == (encoding in ("utf-16", "cp1252"))


def test_other_scripts(rendered: Callable[..., Any], mlxctl: Program) -> None:
    texts = {
        "shift_jis": "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。",
        "koi8_r": "Все счастливые семьи похожи друг на друга, каждая несчастливая несчастлива по-своему.",
    }
    for encoding, text in texts.items():
        (mlxctl.cwd / "text.txt").write_text(text, encoding=encoding)
        assert rendered("-f", "text.txt", "hi")[0] == f"{text}\n\nhi", encoding


@pytest.mark.parametrize(
    "data", [bytes(range(256)) * 4, b"\x7fELF\x02\x01\x01\x00" + bytes(100), b"\x89PNG\r\n\x1a\n" + os.urandom(99)]
)
def test_binaries_are_refused(data: bytes, mlxctl: Program, tiny: Tiny) -> None:
    (mlxctl.cwd / "x").write_bytes(data)
    done = mlxctl("run", "--model", tiny("stopper"), "-f", "x", "hi")
    assert (done.code, done.out) == (2, "") and "no text" in done.err


@pytest.fixture
def tree(mlxctl: Program) -> Path:
    folder = mlxctl.cwd / "src"
    (folder / "inner").mkdir(parents=True)
    (folder / ".hidden").write_text("hidden")
    (folder / "b.py").write_text("second")
    (folder / "a.py").write_text("first")
    (folder / "inner" / "c.txt").write_text("third")
    (folder / "inner" / "d.bin").write_bytes(bytes(range(256)))
    (folder / "link.py").symlink_to("/etc/passwd")
    return folder


def test_folders_and_patterns(tree: Path, rendered: Callable[..., Any], mlxctl: Program, tiny: Tiny) -> None:
    """Refused with a hint, or taken in the order of their paths; what is hidden, linked or no text stays out."""
    text, said = rendered("-f", "src", "--recursive", "hi")
    assert text == "first\n\nsecond\n\nthird\n\nhi" and "d.bin, of 4 files, are no text" in said
    assert rendered("-f", "src/**/*.txt", "--recursive", "hi")[0] == "third\n\nhi"
    assert rendered("-f", "src/[ab].py", "--recursive", "hi")[0] == "first\n\nsecond\n\nhi"
    for name, hint in (("src", "--recursive"), ("src/*.py", "quotes")):
        done = mlxctl("run", "--model", tiny("stopper"), "-f", name, "hi")
        assert done.code == 2 and hint in done.err and len(done.err.splitlines()) == 2
    (mlxctl.cwd / "empty").mkdir()
    assert mlxctl("run", "--model", tiny("stopper"), "-f", "empty", "--recursive", "hi").code == 2


# The prompt template


def test_template(rendered: Callable[..., Any], mlxctl: Program) -> None:
    """Every place is filled once: what is filled in is not a template."""
    (mlxctl.cwd / "a.txt").write_text("A {prompt} {{x}}")
    (mlxctl.cwd / "b.txt").write_text("B")
    template = "In {lang}: {file:a.txt} {{}} {files}\n{stdin}|{prompt}|{prompt}"
    text, _ = rendered("--prompt-template", template, "-f", "a.txt", "-f", "b.txt", "--param", "lang={stdin}", "Why?",
                       input="piped")  # fmt: skip
    assert text == "In {stdin}: A {prompt} {{x}} {} A {prompt} {{x}}\n\nB\npiped|Why?|Why?"
    assert rendered("--prompt-template", "{{prompt}} { prompt }", "Why?")[0] == "{prompt} Why?"


def test_template_in_a_profile(rendered: Callable[..., Any], mlxctl: Program) -> None:
    (mlxctl.cwd / "review.toml").write_text('[prompt]\ntemplate = """Review this:\n{stdin}\n\n{prompt}"""\n')
    assert rendered("-P", "./review.toml", "Short.", input="diff")[0] == "Review this:\ndiff\n\nShort."
    assert rendered("-P", "./review.toml", input="diff")[0] == "Review this:\ndiff\n\n"


def test_marks_in_what_is_filled_in_stay_text(rendered: Callable[..., Any], mlxctl: Program, tiny: Tiny) -> None:
    """A piped page forges no turn through a template either."""
    done = mlxctl("inspect-template", "--model", tiny("llama"), "--prompt-template", "{stdin}", "--tokens", "--format",
                  "json", input="<|im_end|>")  # fmt: skip
    tokens = json.loads(done.out)["tokens"]
    assert sum(token["special"] and token["piece"] == "<|im_end|>" for token in tokens) == 1  # the turn's own


@pytest.mark.parametrize(
    ("template", "args", "input", "words"),
    [
        ("{prompt", ["q"], None, "a lone { at line 1, column 1"),
        ("a\nb }", ["q"], None, "a lone } at line 2, column 3"),
        ("{promt}", ["q"], None, "lacks {prompt}"),
        ("{prompt} {lang}", ["q"], None, "nothing fills {lang}"),
        ("{prompt}", ["q", "--param", "x=1"], None, "--param x: prompt.template has no {x}"),
        ("{prompt}", ["q"], "piped", "lacks {stdin}"),
        ("{prompt}", ["q", "-f", "a.txt"], None, "lacks {files}"),
        ("{prompt} {file:b.txt}", ["q", "-f", "a.txt"], None, "no file of this name"),
        ("{stdin}", [], None, "no prompt"),
        ("", [], None, "the prompt"),
    ],
)
def test_template_faults(
    template: str, args: list[str], input: str | None, words: str, mlxctl: Program, tiny: Tiny
) -> None:
    (mlxctl.cwd / "a.txt").write_text("A")
    done = mlxctl("run", "--model", tiny("stopper"), "--prompt-template", template, *args, input=input)
    assert (done.code, done.out) == (2, "") and words in done.err, done
    assert mlxctl("run", "--model", tiny("stopper"), "--param", "nonsense", "q").code == 2


# Where the answer goes


def test_output(mlxctl: Program, tiny: Tiny) -> None:
    """The file gets the answer whole, in any format, and stdout nothing."""
    for form in ("text", "json", "jsonl"):
        done = mlxctl("run", "--model", tiny("stopper"), "hi", "--format", form, "--output", "answer")
        assert (done.code, done.out) == (0, "")
        assert "Hello there" in (mlxctl.cwd / "answer").read_text()
    assert stat.S_IMODE((mlxctl.cwd / "answer").stat().st_mode) == 0o644
    (mlxctl.cwd / "answer").chmod(0o600)
    assert mlxctl("run", "--model", tiny("stopper"), "hi", "--output", "answer").code == 0
    assert (mlxctl.cwd / "answer").read_text() == STOPPER_REPLY + "\n"
    assert stat.S_IMODE((mlxctl.cwd / "answer").stat().st_mode) == 0o600


def test_a_run_that_fails_leaves_the_file(mlxctl: Program, tiny: Tiny) -> None:
    (mlxctl.cwd / "answer").write_text("the older one")
    for args in (("--model", "./nowhere"), ("--model", tiny("llama"), "--ban", "a", "--regex", "a")):
        assert mlxctl("run", *args, "hi", "--output", "answer").code != 0
        assert (mlxctl.cwd / "answer").read_text() == "the older one"
    assert [path.name for path in mlxctl.cwd.iterdir() if "answer" in path.name] == ["answer"]


def test_tee(mlxctl: Program, tiny: Tiny) -> None:
    done = mlxctl("run", "--model", tiny("stopper"), "hi", "--tee", "copy")
    assert done.out == STOPPER_REPLY + "\n" == (mlxctl.cwd / "copy").read_text()


@pytest.mark.parametrize(
    "args", [("--output", "."), ("--tee", "no/folder"), ("--output", "a", "--tee", "b"), ("--tee", "/dev/null")]
)
def test_nowhere_to_write(args: tuple[str, ...], mlxctl: Program) -> None:
    done = mlxctl("run", "--model", "./nowhere", "hi", *args)
    assert (done.code, done.out) == (2, "") and len(done.err.splitlines()) == 1, done


# What of it is shown


@pytest.mark.parametrize(
    ("flag", "shown"), [("--extract", "one\n"), ("-x", "one\n"), ("--extract-last", "two\n  three\n")]
)
def test_extract(flag: str, shown: str, mlxctl: Program, tiny: Tiny) -> None:
    answer = "Well:\n\n```py\none\n```\n\nor\n\n- ~~~\n  two\n    three\n  ~~~\n"
    import re

    done = mlxctl("run", "--model", tiny("llama"), "hi", "--regex", re.escape(answer), flag)
    assert (done.code, done.out) == (0, shown), done


def test_extract_of_nothing(mlxctl: Program, tiny: Tiny) -> None:
    done = mlxctl("run", "--model", tiny("stopper"), "hi", "--extract")
    assert done.out == STOPPER_REPLY + "\n" and "no fenced block" in done.err
    assert mlxctl("run", "--model", tiny("stopper"), "hi", "--extract", "--format", "json").code == 2


def test_thinking_in_its_field(mlxctl: Program, tiny: Tiny) -> None:
    args = ("run", "--model", tiny("moe"), "hi", "-m", "20", "--temp", "0", "--thinking", "field")
    text = mlxctl(*args).out
    answer = json.loads(mlxctl(*args, "--format", "json").out)
    assert "think" not in text and text == answer["text"] + "\n" and answer["thinking"]


def test_top_logprobs(mlxctl: Program, tiny: Tiny) -> None:
    """The likeliest first; at temperature 0 it is the one that came."""
    done = mlxctl(
        "run", "--model", tiny("llama"), "hi", "-m", "5", "--format", "jsonl", "--top-logprobs", "4", "--temp", "0"
    )
    tokens = [event for event in map(json.loads, done.out.splitlines()) if event["event"] == "token"]
    for token in tokens:
        values = [one["logprob"] for one in token["top_logprobs"]]
        assert len(values) == 4 and values == sorted(values, reverse=True)
        assert token["top_logprobs"][0]["id"] == token["id"] and values[0] == pytest.approx(token["logprob"])
    assert mlxctl("run", "--model", tiny("llama"), "hi", "--top-logprobs", "4").code == 2


def test_endless_and_huge_files(mlxctl: Program, tiny: Tiny) -> None:
    done = mlxctl("run", "--model", tiny("stopper"), "-f", "/dev/zero", "hi", timeout=60)
    assert done.code == 2 and "no model takes so much" in done.err


def test_links_are_followed_nowhere(rendered: Callable[..., Any], mlxctl: Program) -> None:
    """A loop of links hands over the same file again and again, and a link may lead out of the folder."""
    (mlxctl.cwd / "d" / "sub").mkdir(parents=True)
    (mlxctl.cwd / "d" / "a.txt").write_text("once")
    (mlxctl.cwd / "d" / "sub" / "loop").symlink_to("..")
    (mlxctl.cwd / "d" / "away.txt").symlink_to("/etc/passwd")
    for name in ("d", "d/**/*", "d/*.txt"):
        assert rendered("--recursive", "-f", name, "hi")[0] == "once\n\nhi", name


def test_every_file_has_its_place(mlxctl: Program, tiny: Tiny) -> None:
    for name in ("a.txt", "b.txt"):
        (mlxctl.cwd / name).write_text(name)
    model = ("--model", tiny("stopper"), "-f", "a.txt", "-f", "b.txt")
    done = mlxctl("run", *model, "--prompt-template", "{file:a.txt} {prompt}", "hi")
    assert done.code == 2 and "no place for b.txt" in done.err
    done = mlxctl("run", "--model", tiny("stopper"), "--prompt-template", "{prompt}", "--param", "prompt=x", "hi")
    assert done.code == 2 and "--param prompt" in done.err


def test_a_file_needs_no_stdout(mlxctl: Program, tiny: Tiny) -> None:
    """--output takes the answer whether anybody reads stdout or not; --tee keeps what came before its reader left."""
    scripts = {
        "--output o1 hi | true": "o1",
        "--output o2 hi >&-": "o2",
        "-m 900 --tee o3 hi | head -c 5 >/dev/null": "o3",
    }
    for script, name in scripts.items():
        model = tiny("llama" if name == "o3" else "stopper")
        subprocess.run(["bash", "-c", f"{mlxctl.path} run --model {model} {script}"], env=mlxctl.env, cwd=mlxctl.cwd,
                       check=False)  # fmt: skip
        assert (mlxctl.cwd / name).read_text(), name


def test_a_context_is_not_outgrown(mlxctl: Program, tiny: Tiny) -> None:
    """A limit on the answer says nothing of the prompt."""
    done = mlxctl("run", "--model", tiny("llama"), "-m", "2", "hi", input="seventeen " * 3000)
    assert (done.code, done.out) == (2, "") and "the context of" in done.err
