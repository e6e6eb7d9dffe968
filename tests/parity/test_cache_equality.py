"""With a prompt cache, by name or automatic, a run gives the token ids that it gives without one."""

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import Forked
from forked import Server
from models import CHUNK, KINDS, TEXT, WINDOW

from mlxctl.events import Token

TOKENS = 8  # generated
LINES = TEXT.splitlines()
FILES = {
    "doc": LINES[:5],
    "short": LINES[:3],  # the beginning of "doc"
    "other": [*LINES[:3], *LINES[6:4:-1]],  # begins as "doc" does
    "more": LINES[9:12],
}
QUESTION, SECOND, THIRD = "What is it?", "Say how many trains there were.", "And the river?"
GREEDY = ("--temp", "0")
SAMPLED = ("--temp", "0.8", "--seed", "3")
PENALIZED = (*GREEDY, "--repetition-penalty", "1.3", "--repetition-context-size", "200")
QUANTIZED = ("--kv-bits", "8", "--kv-group-size", "32", "--quantized-kv-start", "0")
STEPPING = ("llama", "llama-draft", "stopper", "eos-split", "quant", "spm", "moe", "pairs")  # caches that can be cut


@dataclass(frozen=True)
class Way:
    """A model and what every run of it is told.

    steps: its caches can be cut at the lengths of this file. serves: a cache can be used at all without changing the
    answer. quantizes: there is something to quantize.
    """

    name: str
    kind: str
    steps: bool
    more: tuple[str, ...] = ()
    quantizes: bool = True
    serves: bool = True

    @property
    def tokens(self) -> int:
        """Tokens to generate: "moe" says fixed words before its free text."""
        return 2 * TOKENS if self.kind == "moe" else TOKENS


WAYS = [
    *(Way(kind, kind, kind in STEPPING, (), kind not in ("sliding", "mamba", "lists", "pairs")) for kind in KINDS),
    Way("adapter", "llama", True, ("--adapter-path", "{adapter}")),
    Way("draft", "llama", True, ("--draft-model", "{llama-draft}")),
    Way("bounded", "moe", True, ("--max-kv-size", "1000"), quantizes=False),  # rotating, which no run gets around to
    Way("full", "moe", False, ("--max-kv-size", "16"), quantizes=False, serves=False),  # and one that every run fills
]


@dataclass(frozen=True)
class Answer:
    """What a run gave."""

    ids: list[int]
    text: str
    timing: dict[str, Any]
    err: str

    @property
    def cached(self) -> int:
        """Prompt tokens that came from a cache."""
        return int(self.timing["cached_tokens"])

    @property
    def prompt(self) -> int:
        """Tokens of the prompt."""
        return int(self.timing["prompt_tokens"])


class Lab:
    """Runs one way of a model; what several tests need is made once."""

    def __init__(self, way: Way, program: Forked, tiny: Callable[[str], str]) -> None:
        self.way = way
        self.more = tuple(tiny(word[1:-1]) if word[0] == "{" else word for word in way.more)
        self.model = ("--model", tiny(way.kind), *self.more)
        self.folder = program.cwd
        self._program = program
        self._plain: dict[tuple[str, ...], Answer] = {}
        for name, lines in FILES.items():
            (self.folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def run(self, *args: str, store: Path | None = None) -> Answer:
        """One answer. store: the cache directory, and with it the automatic store."""
        env = {"XDG_CACHE_HOME": str(store)} if store else {}
        done = self._program("run", *self.model, "-m", str(self.way.tokens), "--format", "jsonl", *args, env=env)
        assert done.code == 0, done.err
        assert "Traceback" not in done.err
        events = [json.loads(line) for line in done.out.splitlines()]
        answer = Answer(
            [event["id"] for event in events if event["event"] == "token"],
            events[-1]["text"], events[-1]["timing"], done.err,
        )  # fmt: skip
        assert answer.cached + answer.timing["prefill_tokens"] == answer.prompt
        return answer

    def plain(self, *args: str) -> Answer:
        """The answer without any cache."""
        if args not in self._plain:
            self._plain[args] = self.run(*args)
            assert self._plain[args].cached == 0
        return self._plain[args]

    def auto(self, store: Path, *args: str) -> Answer:
        """The answer with the automatic store, which must be there to use."""
        answer = self.run("--auto-cache", *args, store=store)
        assert "automatic cache:" not in answer.err
        assert "not written" not in answer.err
        return answer

    def save(self, name: str, *args: str) -> str:
        """The path of a cache, saved if it was not yet."""
        path = self.folder / f"{name}.safetensors"
        if not path.exists():
            done = self._program("cache", "save", str(path), *self.model, *args)
            assert done.code == 0, done.err
        return str(path)

    def filled(self) -> Path:
        """A copy of an automatic store in which QUESTION about "doc" was asked."""
        filled = self.folder / "filled"
        if not filled.exists():
            same(self.auto(filled, *GREEDY, *about("doc"), QUESTION), self.plain(*GREEDY, *about("doc"), QUESTION))
        return self.copy(filled)

    @property
    def document(self) -> str:
        """The text of "doc" as it stands before a question."""
        return (self.folder / "doc.txt").read_text(encoding="utf-8") + "\n"

    def used(self, answer: Answer, share: float) -> bool:
        """Whether more than a share of the prompt came from a cache; nothing is asked where none can serve."""
        return answer.cached > share * answer.prompt or not self.way.serves

    def copy(self, store: Path) -> Path:
        """A copy for one test."""
        number = len(list(self.folder.glob("store-*")))
        return Path(shutil.copytree(store, self.folder / f"store-{number}"))


def about(*names: str) -> tuple[str, ...]:
    """The flags that put files before the question."""
    return tuple(word for name in names for word in ("-f", f"{name}.txt"))


def grouped(ways: Iterable[Way]) -> list[Any]:
    """The ways as parameters; one worker runs all tests of a way, which share its lab."""
    return [pytest.param(way, id=way.name, marks=pytest.mark.xdist_group(f"cache-{way.name}")) for way in ways]


def same(cached: Answer, plain: Answer) -> None:
    """A cache changed nothing but the time."""
    assert cached.ids == plain.ids
    assert (cached.text, cached.prompt) == (plain.text, plain.prompt)


@pytest.fixture(scope="module", params=grouped(WAYS))
def lab(
    request: pytest.FixtureRequest,
    server: Server,
    tiny: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Lab:
    """Each model in each way."""
    folder = tmp_path_factory.mktemp(request.param.name)
    (folder / ".git").mkdir()
    return Lab(request.param, Forked("mlxctl", server, folder), tiny)


# The rest have the caches of "llama": what is told apart by those alone, they are spared.
DISTINCT = pytest.mark.parametrize(
    "lab",
    grouped(way for way in WAYS if way.name not in ("llama-draft", "stopper", "eos-split")),
    indirect=True,
    scope="module",
)
MODES = pytest.mark.parametrize("mode", [GREEDY, SAMPLED, PENALIZED], ids=["greedy", "sampled", "penalized"])


# Caches with a name


@MODES
def test_saved_and_loaded(lab: Lab, mode: tuple[str, ...]) -> None:
    path = lab.save("doc", *about("doc"))
    answer = lab.run("--cache", path, *mode, QUESTION)
    same(answer, lab.plain(*mode, *about("doc"), QUESTION))
    assert lab.used(answer, 0.7)


def test_cache_of_a_part_of_the_document(lab: Lab) -> None:
    path = lab.save("short", *about("short"))
    answer = lab.run("--cache", path, *GREEDY, *about("more"), QUESTION)
    same(answer, lab.plain(*GREEDY, *about("short", "more"), QUESTION))
    assert lab.used(answer, 0.3)


@DISTINCT
def test_question_that_changes_the_last_tokens_of_the_cache(lab: Lab) -> None:
    """The text ends with a blank line, which is other tokens where a third newline follows."""
    path = lab.save("doc", *about("doc"))
    answer = lab.run("--cache", path, *GREEDY, "\n What?")
    same(answer, lab.plain(*GREEDY, *about("doc"), "\n What?"))
    assert answer.cached > 0 or not lab.way.steps


@DISTINCT
def test_cache_that_holds_more_than_the_prompt(lab: Lab) -> None:
    """Bare, the prompt is another from its first token on: nothing may be used of the cache, or what is the same."""
    path = lab.save("doc", *about("doc"))
    answer = lab.run("--cache", path, *GREEDY, "--ignore-chat-template", QUESTION)
    same(answer, lab.plain(*GREEDY, "--ignore-chat-template", *about("doc"), QUESTION))


@pytest.mark.parametrize(
    ("mode", "questions"),
    [(GREEDY, (QUESTION, SECOND, THIRD)), (SAMPLED, (QUESTION, SECOND))],
    ids=["greedy", "sampled"],
)
def test_conversation_that_is_written_back(lab: Lab, mode: tuple[str, ...], questions: tuple[str, ...]) -> None:
    path = lab.folder / f"conversation-{len(questions)}.safetensors"
    shutil.copy(lab.save("doc", *about("doc")), path)
    messages, cached, text = [], [], lab.document
    for question in questions:
        messages.append({"role": "user", "content": text + question})
        (lab.folder / "messages.json").write_text(json.dumps(messages), encoding="utf-8")
        update = () if question == questions[-1] else ("--cache-update",)
        answer = lab.run("--cache", str(path), *update, *mode, question)
        assert "not written" not in answer.err
        same(
            answer,
            lab.run(*mode, "--messages", "messages.json") if cached else lab.plain(*mode, *about("doc"), question),
        )
        cached.append(answer.cached)
        messages.append({"role": "assistant", "content": answer.text})
        text = ""
    assert cached == sorted(set(cached)) or not lab.way.serves, "an update added nothing"


@DISTINCT
def test_run_without_update_leaves_the_file_alone(lab: Lab) -> None:
    path = Path(lab.save("doc", *about("doc")))
    before = path.read_bytes()
    lab.run("--cache", str(path), "--auto-cache", *GREEDY, SECOND, store=lab.folder / "both")
    assert path.read_bytes() == before


# The automatic store

SEEDED = pytest.mark.parametrize("mode", [GREEDY, SAMPLED], ids=["greedy", "sampled"])


@SEEDED
def test_exact_question_again(lab: Lab, mode: tuple[str, ...]) -> None:
    store = lab.filled()
    again = lab.auto(store, *mode, *about("doc"), QUESTION)
    same(again, lab.plain(*mode, *about("doc"), QUESTION))
    assert again.cached == again.prompt - 1 if lab.way.steps else lab.used(again, 0.7)


@MODES
def test_another_question(lab: Lab, mode: tuple[str, ...]) -> None:
    answer = lab.auto(lab.filled(), *mode, *about("doc"), SECOND)
    same(answer, lab.plain(*mode, *about("doc"), SECOND))
    assert lab.used(answer, 0.7)


@DISTINCT
def test_another_question_without_a_template(lab: Lab) -> None:
    store, bare = lab.folder / "bare", (*GREEDY, "--ignore-chat-template", *about("doc"))
    same(lab.auto(store, *bare, QUESTION), lab.plain(*bare, QUESTION))
    answer = lab.auto(store, *bare, SECOND)
    same(answer, lab.plain(*bare, SECOND))
    assert lab.used(answer, 0.7)


@DISTINCT
@SEEDED
def test_longer_document(lab: Lab, mode: tuple[str, ...]) -> None:
    store, longer = lab.filled(), (*mode, *about("doc", "more"))
    third = lab.auto(store, *longer, SECOND)
    same(third, lab.plain(*longer, SECOND))
    assert lab.used(third, 0.4)
    fourth = lab.auto(store, *longer, QUESTION)
    same(fourth, lab.plain(*longer, QUESTION))
    assert lab.used(fourth, 0.8), "the longer one was not kept"


@SEEDED
def test_documents_that_part_in_the_middle(lab: Lab, mode: tuple[str, ...]) -> None:
    answer = lab.auto(lab.filled(), *mode, *about("other"), QUESTION)
    same(answer, lab.plain(*mode, *about("other"), QUESTION))
    assert lab.used(answer, 0.3) or not lab.way.steps


@DISTINCT
@SEEDED
def test_document_that_is_the_beginning_of_one_that_was_kept(lab: Lab, mode: tuple[str, ...]) -> None:
    answer = lab.auto(lab.filled(), *mode, *about("short"), QUESTION)
    same(answer, lab.plain(*mode, *about("short"), QUESTION))
    assert lab.used(answer, 0.6) or not lab.way.steps


@DISTINCT
def test_second_turn_of_a_conversation(lab: Lab) -> None:
    store = lab.filled()
    asked = lab.document + QUESTION
    said = lab.plain(*GREEDY, *about("doc"), QUESTION).text
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]
    (lab.folder / "turn.json").write_text(json.dumps(messages), encoding="utf-8")
    answer = lab.auto(store, *GREEDY, "--messages", "turn.json", THIRD)
    same(answer, lab.plain(*GREEDY, "--messages", "turn.json", THIRD))
    assert lab.used(answer, 0.6)


# In one process


class Engines:
    """The model of a lab in this process: what a file is compared with where no uncached run can be."""

    def __init__(self, lab: Lab, values: dict[str, Any]) -> None:
        from mlxctl import options
        from mlxctl.engine.engine import Engine

        flags = dict(zip(lab.more[::2], lab.more[1::2], strict=True))
        bound = flags.get("--max-kv-size")
        self.engine = Engine.load(options.build({
            "model.path": lab.model[1], "model.adapter_path": flags.get("--adapter-path"),
            "model.draft_model": flags.get("--draft-model"), "kv.max_kv_size": int(bound) if bound else None,
            "generation.max_tokens": lab.way.tokens, **values,
        }))  # fmt: skip

    def answer(self, text: str, prefixes: Sequence[Any] = (), shared: str = "") -> list[int]:
        """The token ids that a text is answered with; the prefixes stay as they are."""
        from mlxctl.engine import kv

        copies = [kv.copied(prefix) for prefix in prefixes]
        stream = self.engine.stream(asked(text), prefixes=copies, shared=shared)
        return [event.id for event in stream if isinstance(event, Token)]

    def prefill(self, text: str) -> Any:
        """A text, processed and left open."""
        generator = self.engine.prefill(asked(text))
        while True:
            try:
                next(generator)
            except StopIteration as end:
                return end.value

    @property
    def cached(self) -> int:
        """Prompt tokens that the last answer took from a prefix."""
        assert self.engine.running is not None
        return self.engine.running.job.cached_tokens


def asked(text: str) -> list[dict[str, str]]:
    """Messages of one text."""
    return [{"role": "user", "content": text}]


@pytest.fixture(scope="module")
def quantized(lab: Lab) -> Engines:
    """With quantized caches."""
    return Engines(lab, {"kv.kv_bits": 8, "kv.kv_group_size": 32, "kv.quantized_kv_start": 0})


WHERE_QUANTIZED = pytest.mark.parametrize(
    "lab",
    grouped(way for way in WAYS if way.quantizes and way.name not in ("stopper", "eos-split")),
    indirect=True,
    scope="module",
)


@WHERE_QUANTIZED
def test_quantized_and_saved(lab: Lab, quantized: Engines) -> None:
    path = lab.save("quantized", *QUANTIZED, *about("doc"))
    prefix = quantized.prefill(lab.document)
    for question in (QUESTION, SECOND):
        answer = lab.run("--cache", path, *GREEDY, question)
        assert answer.ids == quantized.answer(lab.document + question, [prefix])
        assert answer.cached == quantized.cached
        assert lab.used(answer, 0.7)
        assert answer.timing["kv_layers_quantized"] > 0


@WHERE_QUANTIZED
def test_quantized_in_the_automatic_store(lab: Lab, quantized: Engines) -> None:
    from mlxctl.engine import kv

    store, flags = lab.folder / "quantized", (*GREEDY, *QUANTIZED)
    first = lab.auto(store, *flags, *about("doc"), QUESTION)
    assert first.ids == quantized.answer(lab.document + QUESTION, shared=lab.document)
    running = quantized.engine.running
    kept = kv.take(running.hand_over(), first.prompt) or running.snapshot
    for question in (SECOND, THIRD):
        answer = lab.auto(lab.copy(store), *flags, *about("doc"), question)
        assert answer.ids == quantized.answer(lab.document + question, [kept])
        assert answer.cached == quantized.cached
        assert lab.used(answer, 0.7)


# Shorter and longer than a window, a chunk and the least that the store keeps

WORDS = TEXT.split()
SPECIAL = ("llama", "draft", "sliding", "mamba", "hybrid", "chunked", "lists", "pairs", "bounded", "full")


@pytest.fixture(scope="module")
def bare(lab: Lab) -> Engines:
    """Without a template, so that prompts can be short."""
    return Engines(lab, {"prompt.ignore_chat_template": True, "generation.max_tokens": 4})


@pytest.mark.parametrize("length", [WINDOW - 6, WINDOW - 2, WINDOW + 3, CHUNK + 5])
@pytest.mark.parametrize("lab", grouped(way for way in WAYS if way.name in SPECIAL), indirect=True, scope="module")
def test_any_length(lab: Lab, bare: Engines, length: int) -> None:
    """What was held at the end of a run, and a beginning that was prefilled, both through a file."""
    before = " ".join(WORDS[:length])
    begun = filed(lab, bare.prefill(before))
    said = bare.answer(before)[:2]
    held = filed(lab, bare.engine.running.hand_over())
    for text in (
        f"{before} count again",
        before + bare.engine.tokenizer.decode(said) + " count again",
        " ".join(WORDS[: length - 2]) + " count again",
        " ".join(WORDS[: length + 30]),
    ):
        plain = bare.answer(text)
        for prefix in (begun, held):
            assert bare.answer(text, [prefix]) == plain, f"{bare.cached} of {len(prefix.ids)} tokens were used"


def filed(lab: Lab, prefix: Any) -> Any:
    """A prefix, written and read."""
    from mlxctl.engine import kv, kv_file

    path = lab.folder / "state.safetensors"
    kv_file.write(path, prefix, {"model": "m"})
    with path.open("rb") as file:
        caches, _ = kv_file.read(file)
    return kv.Prefix(prefix.ids, caches)


@pytest.mark.parametrize("lab", grouped(WAYS[:1]), indirect=True, scope="module")
def test_penalties_reach_into_the_document(lab: Lab) -> None:
    """Else their tests above would compare like with like."""
    short = (*PENALIZED[:-1], "5")
    assert lab.plain(*short, *about("doc"), QUESTION).ids != lab.plain(*PENALIZED, *about("doc"), QUESTION).ids


@pytest.mark.parametrize("lab", grouped(way for way in WAYS if way.name == "full"), indirect=True, scope="module")
@pytest.mark.parametrize(("words", "question"), [(9, "a"), (14, "count"), (20, "Why"), (30, "one two")])
def test_full_cache_of_a_bounded_size(lab: Lab, words: int, question: str) -> None:
    """It keeps its first tokens, which the ones that follow see or not as the prompt is cut into steps."""
    (lab.folder / "words.txt").write_text(" ".join(WORDS[:words]) + "\n", encoding="utf-8")
    bare = (*GREEDY, "--ignore-chat-template")
    path = lab.save(f"words-{words}", "--ignore-chat-template", *about("words"))
    same(lab.run("--cache", path, *bare, question), lab.plain(*bare, *about("words"), question))
