"""Prompt caches between `mlxctl` and the real `mlx_lm`: files of either continued by the other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Forked, Result
from forked import Server
from models import TEXT

KINDS = ("llama", "quant", "sliding", "hybrid", "mamba", "moe", "pairs", "lists", "chunked")
STEPPING = ("llama", "quant", "moe", "pairs")  # caches that can be cut
QUANTIZED = ("--kv-bits", "8", "--kv-group-size", "32", "--quantized-kv-start", "0")
CASES = [(kind, ()) for kind in KINDS] + [(kind, QUANTIZED) for kind in ("llama", "quant", "moe", "hybrid", "chunked")]
QUESTIONS = ("The train was late", "Count them.")
COMMON = ("--temp", "0", "-m", "16")  # "moe" says fixed words before free text
DOCUMENT = "".join(f"{line}\n" for line in TEXT.splitlines()[:5])
SYSTEM = "You are a brief poet of the north."


class Lab:
    """Both programs in one folder, on one model, with or without quantized caches."""

    def __init__(
        self, kind: str, kv: tuple[str, ...], server: Server, folder: Path, tiny: Callable[[str], str]
    ) -> None:
        self.kind = kind
        self.kv = kv
        self.folder = folder
        self.model = ("--model", tiny(kind))
        self.tiny = tiny
        self.mlxctl = Forked("mlxctl", server, folder)
        self.generate = Forked("mlx_lm.generate", server, folder)
        self.cache_prompt = Forked("mlx_lm.cache_prompt", server, folder)
        (folder / "doc.txt").write_text(DOCUMENT, encoding="utf-8")

    def upstream(self, path: str, question: str, *more: str) -> Result:
        """What mlx_lm.generate makes of a file and a question."""
        args = ("--prompt-cache-file", path, "-p", question, *COMMON, *self.kv, *more, "--verbose", "False")
        return self.generate(*args)

    @property
    def beginning(self) -> tuple[str, ...]:
        """What can be kept: without a template a system prompt has no place."""
        return ("-f", "doc.txt") if self.kind == "mamba" else ("--system-prompt", SYSTEM)

    def ours(self, *args: str) -> str:
        """The text of a run, in the type that upstream computes in."""
        done = self.mlxctl("run", "--dtype", "native", *COMMON, *args)
        assert done.code == 0, done.err
        return done.out

    def save(self, name: str, *args: str) -> str:
        """The path of a cache of ours."""
        path = f"{name}.safetensors"
        if not (self.folder / path).exists():
            done = self.mlxctl("cache", "save", f"./{path}", *self.model, "--dtype", "native", *self.kv, *args)
            assert done.code == 0, done.err
        return path

    def made_by_upstream(self, *args: str, text: str = DOCUMENT) -> str:
        """The path of a file that mlx_lm.cache_prompt wrote."""
        path = "upstream.safetensors"
        done = self.cache_prompt(*self.model, "--prompt", text, "--prompt-cache-file", path, *self.kv, *args)
        assert done.code == 0, done.err
        return path


def grouped(cases: list[tuple[str, tuple[str, ...]]]) -> list[Any]:
    """Parameters of `lab`; one worker runs all tests of a case."""
    names = [f"{kind}-quantized" if kv else kind for kind, kv in cases]
    return [pytest.param(case, id=name, marks=pytest.mark.xdist_group(f"interchange-{name}"))
            for case, name in zip(cases, names, strict=True)]  # fmt: skip


def only(*kinds: str) -> pytest.MarkDecorator:
    """Run a test with unquantized caches of some kinds alone."""
    return pytest.mark.parametrize("lab", grouped([(kind, ()) for kind in kinds]), indirect=True, scope="module")


@pytest.fixture(scope="module", params=grouped(CASES))
def lab(
    request: pytest.FixtureRequest,
    server: Server,
    tiny: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Lab:
    """Each kind of cache, and those that can be quantized so too."""
    folder = tmp_path_factory.mktemp("interchange")
    (folder / ".git").mkdir()
    return Lab(*request.param, server, folder, tiny)


def same_text(lab: Lab, theirs: str, ours: str) -> None:
    """Without a template the answer continues a text: upstream drops a space at its start, `run` does not."""
    assert theirs == (ours.removeprefix(" ") if lab.kind == "mamba" else ours)


def refused(theirs: Result) -> bool:
    """Whether upstream gave no answer at all."""
    return theirs.code != 0 and theirs.out == ""


# Theirs to ours


def test_file_of_upstream(lab: Lab) -> None:
    path = lab.made_by_upstream()
    for question in QUESTIONS:
        theirs = lab.upstream(path, question)
        assert theirs.code == 0, theirs.err
        args = ("--prompt-cache-file", path, "-p", question, *COMMON, *lab.kv, "--verbose", "False")
        assert lab.mlxctl("generate", *args).out == theirs.out
        same_text(lab, theirs.out, lab.ours("--prompt-cache-file", path, *lab.kv, question))


@only("llama")
def test_file_of_upstream_with_an_adapter(lab: Lab) -> None:
    adapter = ("--adapter-path", lab.tiny("adapter"))
    path = lab.made_by_upstream(*adapter)
    theirs = lab.upstream(path, QUESTIONS[0], *adapter)
    assert theirs.code == 0, theirs.err
    assert lab.ours("--prompt-cache-file", path, *adapter, QUESTIONS[0]) == theirs.out


# Ours to theirs


@pytest.mark.parametrize("question", QUESTIONS)
def test_saved_document(lab: Lab, question: str) -> None:
    path = lab.save("document", "-f", "doc.txt")
    theirs, ours = lab.upstream(path, question), lab.ours("--cache", f"./{path}", question)
    if not lab.kv:
        assert ours == lab.ours(*lab.model, "-f", "doc.txt", question)
    if not refused(theirs) or lab.kind in STEPPING:
        assert theirs.code == 0, theirs.err
        same_text(lab, theirs.out, ours)


def test_saved_system_prompt(lab: Lab) -> None:
    question = QUESTIONS[0]
    path = lab.save("system", *lab.beginning)
    theirs, ours = lab.upstream(path, question), lab.ours("--cache", f"./{path}", question)
    assert theirs.code == 0, theirs.err
    same_text(lab, theirs.out, ours)


def test_conversation_that_was_written_back(lab: Lab) -> None:
    path = "conversation.safetensors"
    (lab.folder / path).write_bytes((lab.folder / lab.save("document", "-f", "doc.txt")).read_bytes())
    first = lab.ours("--cache", f"./{path}", "--cache-update", "--format", "json", QUESTIONS[0])
    messages = [
        {"role": "user", "content": f"{DOCUMENT}\n{QUESTIONS[0]}"},
        {"role": "assistant", "content": json.loads(first)["text"]},
    ]
    (lab.folder / "messages.json").write_text(json.dumps(messages), encoding="utf-8")
    for question in QUESTIONS:
        theirs, ours = lab.upstream(path, question), lab.ours("--cache", f"./{path}", question)
        if not lab.kv:
            assert ours == lab.ours(*lab.model, "--messages", "messages.json", question)
        if not refused(theirs) or lab.kind != "mamba":  # bare texts end in a blank line
            assert theirs.code == 0, theirs.err
            same_text(lab, theirs.out, ours)


@only("llama")
def test_saved_with_an_adapter(lab: Lab) -> None:
    adapter = ("--adapter-path", lab.tiny("adapter"))
    path = lab.save("adapted", *adapter, "--system-prompt", SYSTEM)
    theirs = lab.upstream(path, QUESTIONS[0], *adapter)
    assert (theirs.out, theirs.code) == (lab.ours("--cache", f"./{path}", QUESTIONS[0]), 0), theirs.err


@only("llama")
def test_saved_with_a_draft_model(lab: Lab) -> None:
    draft = ("--draft-model", lab.tiny("llama-draft"))
    path = lab.save("drafted", *draft, "--system-prompt", SYSTEM)
    ours = lab.ours("--cache", f"./{path}", QUESTIONS[0])
    for more in (draft, ()):
        theirs = lab.upstream(path, QUESTIONS[0], *more)
        assert refused(theirs) or theirs.out == ours


@only("spm")
@pytest.mark.parametrize("question", QUESTIONS)
def test_tokenizer_that_puts_a_space_before_the_question(lab: Lab, question: str) -> None:
    """Upstream does so behind our file as behind its own."""
    path = lab.save("document", "-f", "doc.txt")
    own = lab.upstream(lab.made_by_upstream(text=DOCUMENT.rstrip("\n") + "\n\n"), question)
    assert lab.upstream(path, question).out == own.out != ""


def test_our_file_where_upstreams_is_expected(lab: Lab) -> None:
    """`generate` does with it what mlx_lm.generate does; `run` knows it for one of ours."""
    path, question = lab.save("system", *lab.beginning), QUESTIONS[1]
    args = ("--prompt-cache-file", path, "-p", question, *COMMON, *lab.kv, "--verbose", "False")
    assert lab.mlxctl("generate", *args).out == lab.upstream(path, question).out
    assert lab.ours("--prompt-cache-file", path, question) == lab.ours("--cache", f"./{path}", question)


@only("sliding", "mamba")
def test_file_that_upstream_refuses_is_refused_by_generate_in_one_line(lab: Lab) -> None:
    path = lab.save("document", "-f", "doc.txt")
    if refused(lab.upstream(path, QUESTIONS[0])):
        done = lab.mlxctl("generate", "--prompt-cache-file", path, "-p", QUESTIONS[0], *COMMON)
        assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1), done.err
