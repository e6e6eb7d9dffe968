"""A conversation when something goes wrong in the middle."""

import gc
import io
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from weakref import ref

import msgspec
import pytest

from mlxctl import options
from mlxctl.chat.asked import Asked
from mlxctl.chat.chat import Chat
from mlxctl.chat.conversation import Conversation, Said
from mlxctl.chat.interrupt import Leave
from mlxctl.chat.screen import Screen
from mlxctl.errors import MlxctlError, ReaderGone, UsageError

Tiny = Callable[[str], str]
LONG = "The ferry leaves at nine from the northern pier, and nobody knows when it comes back. " * 2


def talk(tiny: Tiny, kind: str, **values: Any) -> Conversation:
    """A conversation with a tiny model."""
    from mlxctl.engine.engine import Engine

    settings = options.build({"model.path": tiny(kind), "generation.max_tokens": 6, **values})
    return Conversation(Engine.load(settings), settings)


def a_chat(tiny: Tiny) -> Chat:
    """One that nobody sees, and that keeps nothing of itself."""
    screen = Screen(io.StringIO(), io.StringIO(), interactive=False, drawn=False, styled=False)
    return Chat(screen, {}, Asked({"model.path": tiny("llama"), "generation.max_tokens": 4}, None), keep=False)


def never() -> None:
    return None


def ask(talk: Conversation, text: str) -> list[int]:
    """The token ids of the answer."""
    for _ in talk.ask(text, never):
        pass
    return list(talk.engine.running.ids)  # type: ignore[union-attr]


def anew(talk: Conversation) -> list[int]:
    """The ids of the last answer, computed from nothing."""
    for _ in talk.engine.stream(talk.messages[:-1], settings=talk.settings):
        pass
    return list(talk.engine.running.ids)  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["mamba", "hybrid", "llama", "sliding"])
@pytest.mark.parametrize("failing", [1, 3])
def test_a_step_that_fails_half_way(kind: str, failing: int, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has changed is not taken for what it was: the question counts as not asked, the next answer is right."""
    from mlxctl.engine import kv

    one = talk(tiny, kind, **{"generation.prefill_step_size": 8})
    ask(one, "Hello")
    feed, calls = kv.feed, 0

    def fails(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        found = feed(*args)
        if calls == failing:
            raise RuntimeError("[malloc] Unable to allocate 1 bytes.")
        return found

    before = list(one.said)
    monkeypatch.setattr(kv, "feed", fails)
    with pytest.raises(MlxctlError):
        ask(one, LONG)
    monkeypatch.setattr(kv, "feed", feed)
    assert one.said == before
    assert ask(one, LONG) == anew(one)


def test_a_refusal_after_another_kind_of_cache(tiny: Tiny) -> None:
    """What was forgotten stays forgotten, whatever the engine still knows of the run before."""
    one = talk(tiny, "llama")
    ask(one, LONG)
    plain, kv = (
        one.settings,
        msgspec.structs.replace(one.settings.kv, kv_bits=8, kv_group_size=32, quantized_kv_start=0),
    )
    one.forget()
    refused = msgspec.structs.replace(one.settings.logits, ban=["no single token at all"])
    one.settings = msgspec.structs.replace(plain, kv=kv, logits=refused)
    with pytest.raises(UsageError):
        ask(one, "Why?")
    assert one.held() is None
    one.settings = msgspec.structs.replace(plain, kv=kv)
    ask(one, "Why?")
    assert one.engine.running.job.cached_tokens == 0  # type: ignore[union-attr]


def test_caches_of_other_settings_are_not_used(tiny: Tiny) -> None:
    """Even if nobody says that they shall be forgotten."""
    one = talk(tiny, "llama")
    ask(one, LONG)
    quantized = msgspec.structs.replace(one.settings.kv, kv_bits=8, kv_group_size=32, quantized_kv_start=0)
    one.settings = msgspec.structs.replace(one.settings, kv=quantized)
    ask(one, "Why?")
    assert one.engine.running.job.cached_tokens == 0  # type: ignore[union-attr]


def test_left_in_the_middle(tiny: Tiny) -> None:
    """Who stops reading has what came, and the next answer is right."""
    one = talk(tiny, "mamba")
    stream: Iterator[Any] = one.ask(LONG, never)
    for number, _ in enumerate(stream):
        if number == 3:
            break
    stream.close()  # type: ignore[attr-defined]
    assert one.said == []
    assert ask(one, LONG) == anew(one)


def test_regen_of_a_question_without_an_answer(tiny: Tiny) -> None:
    one = talk(tiny, "llama")
    with pytest.raises(UsageError, match="there is no question"):
        list(one.again(never))
    one.said = [Said("user", "Hello")]
    list(one.again(never))
    assert [said.role for said in one.said] == ["user", "assistant"]


def test_model_that_cannot_be_loaded_is_not_missed(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends the loading, Ctrl-C too: the one before answers."""
    chat = a_chat(tiny)
    chat.open(None)
    load = chat._load
    for fault in (KeyboardInterrupt(), MlxctlError("no"), RuntimeError("deep inside")):
        faults = [fault]

        def once(settings: Any, faults: list[BaseException] = faults) -> Any:
            if faults:
                raise faults.pop()
            return load(settings)

        monkeypatch.setattr(chat, "_load", once)
        with pytest.raises(type(fault)):
            chat.set({"model.path": tiny("quant")})
        assert chat.settings.model.path == tiny("llama") and not chat.over
        chat.ask("Hello")
    assert len(chat.conversation.said) == 6


def test_dropped_turns_are_shown_again(tiny: Tiny) -> None:
    """When what was kept of the end is taken back; and an answer anew makes room as a new one does."""
    one = talk(tiny, "llama", **{"chat.on_full": "drop-oldest"})
    for number in range(30):
        ask(one, LONG * 2 + str(number))
    assert one.dropped > 4
    assert list(one.again(never)) and not one.room().is_full
    one.undo(25)
    assert one.dropped == 0 and len(one.shown) == 10 and one.room().used > 100
    ask(one, "And now?")
    assert len(one.shown) == 12


def test_an_exchange_frees_the_first_model(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """There is hardly room for two: the one before is gone when the next is loaded."""
    from mlxctl.engine.engine import Engine

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    chat = a_chat(tiny)
    chat.open("one")
    chat.ask("Hello")
    before, load, alive = ref(chat.engine), Engine.load, []

    def watched(*args: Any, **kwargs: Any) -> Any:
        gc.collect()
        alive.append(before() is not None)
        return load(*args, **kwargs)

    monkeypatch.setattr(Engine, "load", watched)
    chat.set({"model.path": tiny("quant")})
    assert alive == [False]
    chat.leave()


@pytest.mark.parametrize("signal_first", [False, True])
def test_told_to_end_in_an_answer_that_fails(signal_first: bool, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end is not missed for the fault."""
    chat = a_chat(tiny)
    chat.open(None)

    def fails(*args: Any, **kwargs: Any) -> Iterator[Any]:
        if signal_first:
            chat.interrupts._end(signal.SIGTERM, None)
        raise UsageError("no")
        yield

    monkeypatch.setattr(chat.engine, "stream", fails)
    with pytest.raises(Leave if signal_first else UsageError):
        chat.ask("Hello")


def test_told_to_end_while_another_model_loads(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is not loaded again for that."""
    from mlxctl.engine.engine import Engine

    chat = a_chat(tiny)
    chat.open(None)
    loads: list[Any] = []

    def left(*args: Any, **kwargs: Any) -> Any:
        loads.append(args)
        raise Leave(signal.SIGTERM)

    monkeypatch.setattr(Engine, "load", left)
    with pytest.raises(Leave):
        chat.set({"model.path": tiny("quant")})
    assert len(loads) == 1 and chat.over


def test_who_reads_the_answers_goes_away(tiny: Tiny) -> None:
    """Then a chat on a terminal ends, too."""
    from mlxctl.chat.repl import handle

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise ReaderGone("nobody reads")

    chat = a_chat(tiny)
    chat.open(None)
    chat.screen.out = Gone()
    with pytest.raises(ReaderGone):
        handle(chat, "Hello")
