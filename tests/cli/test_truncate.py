"""--truncate: documents that are too long lose a part, the question never does."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Program

Tiny = Callable[[str], str]
CONTEXT = 2048  # of the tiny models
NUMBERS = [f"line {number}\n" for number in range(5000)]


@pytest.fixture
def shown(mlxctl: Program, tiny: Tiny) -> Callable[..., Any]:
    """(prompt, its tokens, what is said) of a run with these arguments."""

    def one(*args: str, input: str | None = None) -> tuple[str, int, str]:
        done = mlxctl("run", "--model", tiny("llama"), "--dry-run", "--format", "json", *args, input=input)
        assert done.code == 0, done.err
        report = json.loads(done.out)
        return report["prompt"], report["prompt_tokens"], done.err

    return one


@pytest.mark.parametrize(
    ("side", "first", "last"),
    [("tail", True, False), ("head", False, True), ("middle", True, True)],
)
def test_what_is_left_out(side: str, first: bool, last: bool, shown: Callable[..., Any]) -> None:
    """The part that is named, and no more than must be; the question and the note stay."""
    text, tokens, said = shown("--truncate", side, "What is it?", input="".join(NUMBERS))
    assert (NUMBERS[0] in text, NUMBERS[-1] in text) == (first, last)
    assert "What is it?<|im_end|>" in text and "characters left out ...]" in text
    assert CONTEXT * 0.6 < tokens <= CONTEXT * 0.75, tokens  # a quarter is for the answer
    total, kept = sum(map(len, NUMBERS)), text.count("line ")
    assert f"stdin: {int(said.split('stdin: ')[1].split()[0])} of {total} characters are left out" in said
    assert f"of {CONTEXT} tokens" not in said and f"has {CONTEXT} tokens" in said and 0 < kept < 5000


def test_what_fits_is_left_alone(shown: Callable[..., Any]) -> None:
    for side in ("head", "middle", "tail"):
        text, _, said = shown("--truncate", side, "What?", input="".join(NUMBERS[:100]))
        assert "".join(NUMBERS[:100]) in text and not said


def test_the_answer_has_its_room(mlxctl: Program, tiny: Tiny) -> None:
    """So many tokens as it may have, and not a word more is cut than by that."""
    done = mlxctl("run", "--model", tiny("llama"), "-m", "600", "--format", "json", "--truncate", "tail", "What?",
                  input="".join(NUMBERS))  # fmt: skip
    run = json.loads(done.out)
    assert done.code == 0 and run["timing"]["generation_tokens"] == 600, done.err
    assert run["timing"]["prompt_tokens"] <= CONTEXT - 600 < run["timing"]["prompt_tokens"] * 1.25


def test_the_longest_lose(shown: Callable[..., Any], mlxctl: Program) -> None:
    """A short file beside a long one stays whole; the order stays."""
    (mlxctl.cwd / "short.txt").write_text("Mind the ferry.")
    (mlxctl.cwd / "long.txt").write_text("".join(NUMBERS))
    text, _, said = shown("-f", "long.txt", "-f", "short.txt", "--truncate", "head", "What?")
    assert "short.txt" not in said and "long.txt: " in said
    assert text.index(NUMBERS[-1]) < text.index("Mind the ferry.") < text.index("What?")


def test_with_a_prompt_template(shown: Callable[..., Any]) -> None:
    text, tokens, _ = shown("--prompt-template", "Read <{stdin}> and say: {prompt}", "--truncate", "middle", "why",
                            input="".join(NUMBERS))  # fmt: skip
    assert "Read <line 0\n" in text and "line 4999\n> and say: why" in text and tokens < CONTEXT


def test_no_room_without_documents(mlxctl: Program, tiny: Tiny) -> None:
    """The question alone is too long, or there is no document: nothing is cut, and that is said."""
    question = "".join(NUMBERS)
    done = mlxctl("run", "--model", tiny("llama"), "--truncate", "tail", question, input="A short one.")
    assert (done.code, done.out) == (2, "") and "--truncate: the prompt has " in done.err, done.err
    done = mlxctl("run", "--model", tiny("llama"), "--truncate", "tail", question)
    assert done.code == 2 and f"the context of {tiny('llama')} {CONTEXT}" in done.err


def test_twenty_megabytes(mlxctl: Program, tiny: Tiny) -> None:
    done = mlxctl("run", "--model", tiny("llama"), "-m", "1", "--truncate", "tail", "q", input="".join(NUMBERS) * 400)
    assert done.code == 0 and "characters are left out" in done.err, done.err


def test_refused(mlxctl: Program, tiny: Tiny) -> None:
    """Where it could not do what it says."""
    model = tiny("llama")
    assert mlxctl("run", "--model", model, "--truncate", "front", "q").code == 2
    assert mlxctl("cache", "save", "kept", "--model", model, "Hello").code == 0
    for args in (["--cache", "kept", "q"], ["--batch", "-"]):
        done = mlxctl("run", "--model", model, "--truncate", "tail", *args, input="text")
        assert (done.code, done.out) == (2, "") and "--truncate" in done.err, done
    without = mlxctl("run", "--model", model, "q", input="".join(NUMBERS))
    assert without.code == 2 and "--truncate" in without.err, without.err


def test_a_model_that_tells_no_context(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    shutil.copytree(tiny("llama"), tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    del config["max_position_embeddings"]
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    done = mlxctl("run", "--model", str(tmp_path / "model"), "-m", "1", "--truncate", "tail", "q", input="text")
    assert done.code == 0 and "nothing tells the context" in done.err, done.err


def test_replayed(mlxctl: Program, tiny: Tiny) -> None:
    """The same words are shortened the same again."""
    words, document = ("q", "-"), "".join(NUMBERS)
    args = ("--model", tiny("llama"), "-m", "5", "--temp", "0.9", "--truncate", "middle")
    assert mlxctl("run", *args, *words, input=document).code == 0
    done = mlxctl("stats", "replay", "1", *words, input=document)
    assert (done.code, done.out) == (0, "run 1: the same 5 tokens\n"), done.err
