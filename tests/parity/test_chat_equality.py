"""The turns of a chat at temperature 0, beside the same messages computed from nothing."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import seal

KINDS = ("llama", "quant", "sliding", "hybrid", "mamba", "moe", "pairs", "lists", "chunked", "spm", "eos-split")
STEPPING = ("llama", "quant", "moe", "pairs", "spm", "eos-split", "draft", "kv-bits")
LONG = "The ferry leaves at nine from the northern pier, and nobody knows when it comes back. " * 2


class Lab:
    """A chat, and another engine of the same model that never starts from anything."""

    def __init__(self, chat: Any, other: Any) -> None:
        self.chat = chat
        self.other = other
        self.cached: list[int] = []
        self.refuses = "nothing"  # what the model is known to refuse

    def say(self, line: str) -> None:
        """Do what a line says; where it is answered, the answer must be the one from nothing."""
        from mlxctl.chat.repl import handle

        before, was = self.chat.engine.running, list(self.chat.conversation.said)
        heard = io.StringIO()
        self.chat.screen.err = heard  # type: ignore[assignment]
        handle(self.chat, line)
        running = self.chat.engine.running
        if running is before:
            assert line.startswith("/") or self.refuses in heard.getvalue(), f"{line}: {heard.getvalue()}"
            return
        self.cached.append(running.job.cached_tokens)
        *asked, answered = self.chat.conversation.messages
        assert answered["role"] == "assistant"
        messages = [*asked, begun(was[-1])] if line == "/continue" else asked
        for _ in self.other.stream(messages):
            pass
        assert running.ids == self.other.running.ids, f"{line}: {running.job.cached_tokens} tokens were cached"


def begun(said: Any) -> dict[str, str]:
    """An answer that is to go on, as the model left it: perhaps in the middle of its thinking."""
    return {"role": "assistant", "content": said.raw or said.content}


@pytest.fixture(params=[*KINDS, "draft", "kv-bits"])
def lab(request: pytest.FixtureRequest, tiny: Callable[[str], str], tmp_path: Path) -> Iterator[Lab]:
    """Each kind of cache."""
    from mlxctl.chat.asked import Asked
    from mlxctl.chat.chat import Chat
    from mlxctl.chat.screen import Screen
    from mlxctl.engine.engine import Engine

    draft = request.param == "draft"
    kind = request.param if request.param in KINDS else "llama"
    values: dict[str, Any] = {"model.path": tiny(kind), "generation.max_tokens": 6}
    if request.param == "kv-bits":
        values |= {"kv.kv_bits": 8, "kv.kv_group_size": 32, "kv.quantized_kv_start": 0}
    if draft:
        values["model.draft_model"] = tiny("llama-draft")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in seal(tmp_path).items():
            patch.setenv(name, value)
        screen = Screen(io.StringIO(), io.StringIO(), interactive=False, drawn=False, styled=False)
        chat = Chat(screen, {}, Asked(values, None))
        chat.open("one")
        yield Lab(chat, Engine.load(chat.settings))
        chat.leave()


def test_turns(lab: Lab, request: pytest.FixtureRequest) -> None:
    """Six turns with an undo, a regen, a branch, a cut answer that goes on, and an older session."""
    for line in (LONG + "When?", "Why then?", "/undo", "And where from?", "/regen", "/continue", LONG + "Who?",
                 "/branch two", "Is that so?", "/undo 2", "Then what?", "/load one", "Last?"):  # fmt: skip
        lab.say(line)
    assert [said.role for said in lab.chat.conversation.said] == ["user", "assistant"] * 4
    assert len(lab.cached) in (8, 9)  # an answer that was not cut is not gone on with
    kind = request.node.callspec.params["lab"]
    if kind in STEPPING:
        assert all(cached > 20 for cached in lab.cached[1:]), lab.cached
    else:
        assert sum(cached > 20 for cached in lab.cached[1:]) >= 3, lab.cached


def test_settings_in_between(lab: Lab) -> None:
    """What changes the beginning, or the caches, is computed anew."""
    lab.refuses = "knows no system role"  # of one kind
    lab.say(LONG + "When?")
    lab.chat.set({"prompt.system": "You are brief."})
    lab.other.settings = lab.chat.settings
    lab.say("Why then?")
    lab.chat.set({"prompt.system": "You are not."})
    lab.other.settings = lab.chat.settings
    lab.say("Where?")
