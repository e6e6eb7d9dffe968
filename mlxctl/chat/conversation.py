"""A conversation with a model: text, and the caches that spare computing it again. No terminal, no files.

The text decides. Each turn is rendered whole, and of the caches only what agrees with it is used: what was undone,
edited or asked again is forgotten by itself.
"""

import zlib
from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from mlxctl.errors import UsageError
from mlxctl.events import Done, Event, Message, Notice, Token
from mlxctl.settings import Settings

if TYPE_CHECKING:
    from mlxctl.engine.engine import Engine
    from mlxctl.engine.job import Cancel
    from mlxctl.engine.kv import Prefix
    from mlxctl.engine.prompt import Rendered

NEAR = 0.9  # of the context: from here on a person is warned
_FREE = 0.25  # of the context: what dropping turns makes room for, so that it is not needed again at once
_STEP, _STEP_S = (
    32,
    2.0,
)  # tokens read at a time on a CPU at first, and seconds that a step may take: Ctrl-C waits for it
_LEAST = 32  # tokens that an answer must have room for


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message. thinking: what the model thought before it. cut: it ended before the model ended it.

    raw: all that it wrote, where it was cut in the middle of its thinking.
    """

    role: str
    content: str
    thinking: str | None = None
    cut: bool = False
    raw: str | None = None


@dataclass(frozen=True)
class Room:
    """Tokens of the conversation as it is, and how many there may be (None: nobody knows)."""

    used: int
    limit: int | None

    @property
    def share(self) -> float:
        """How full it is, from 0 to 1 and beyond."""
        return self.used / self.limit if self.limit else 0.0

    @property
    def is_full(self) -> bool:
        """Whether there is no room for an answer."""
        return self.limit is not None and self.used + _LEAST > self.limit


class Conversation:
    """What was said, with the model that answers."""

    def __init__(self, engine: "Engine", settings: Settings, said: Sequence[Said] = ()) -> None:
        self.engine = engine
        self.settings = settings
        self.said = list(said)
        self.attached = ""  # text that goes before the next message of the user
        self.dropped = 0  # messages at the beginning that the model is not shown any more
        self._held: Prefix | None = None
        self._snapshots: list[Prefix] = []
        self._rate = 0.0  # tokens that are read in a second

    @property
    def messages(self) -> list[Message]:
        """The conversation as a template takes it, the system prompt and what was dropped included."""
        return _messages(self.settings, self.said)

    @property
    def shown(self) -> list[Message]:
        """What the model is shown of it."""
        return _messages(self.settings, self.said[self.dropped :])

    def ask(self, text: str, cancel: "Cancel", *, at: int | None = None) -> Generator[Event, None, None]:
        """Say something and have it answered: yields what `Engine.stream` yields.

        at: in the place of this message and all after it. Raises what the engine raises; then, and when it is cancelled
        before a token came, all is as it was.
        """
        attached, count = self.attached if at is None else "", len(self.said)
        with self._unless_answered():
            self._cut(len(self.said) if at is None else at)
            self.said = [*self.said, Said("user", attached + text)]
            yield from self._make_room()
            yield from self._answer(cancel, self.settings)
        if at is None and len(self.said) > count:
            self.attached = ""

    def again(self, cancel: "Cancel") -> Generator[Event, None, None]:
        """Have the last question answered anew. The old answer stays until a token of the new one came."""
        before = list(self.said)
        asked = before[:-1] if before and before[-1].role == "assistant" else before
        if not asked or asked[-1].role != "user":
            raise UsageError("there is no question to answer")
        with self._unless_answered():
            self.said = asked
            yield from self._make_room()
            yield from self._answer(cancel, _reseeded(self.settings, before))

    def go_on(self, cancel: "Cancel") -> Generator[Event, None, None]:
        """Have the last answer continued where it was cut."""
        if not self.said or self.said[-1].role != "assistant":
            raise UsageError("there is no answer to go on with")
        if not self.said[-1].cut:
            raise UsageError("the last answer was not cut")
        with self._unless_answered():
            yield from self._make_room()
            yield from self._answer(cancel, _unbegun(self.settings))

    def undo(self, turns: int = 1) -> str:
        """Take back the last questions and answers; returns the first question that is gone."""
        asked = [number for number, said in enumerate(self.said) if said.role == "user"]
        if not 1 <= turns <= len(asked):
            raise UsageError(f"there are {len(asked)} questions to take back" if asked else "nothing was asked yet")
        text = self.said[asked[-turns]].content
        self._cut(asked[-turns])
        return text

    def _cut(self, length: int) -> None:
        """Forget all messages but so many; the model is shown what was dropped again, where little else is left."""
        self.said = self.said[:length]
        if self.dropped >= length:
            self.dropped = 0

    @contextmanager
    def _unless_answered(self) -> Iterator[None]:
        """All is as it was, if what is done meanwhile fails, or brings no answer."""
        before, dropped = list(self.said), self.dropped
        try:
            yield
        except BaseException:
            self.said, self.dropped = before, dropped
            raise
        if not self.said or self.said[-1].role == "user":
            self.said, self.dropped = before, dropped

    def clear(self) -> None:
        """Begin anew, with the same system prompt."""
        self.said, self.attached, self.dropped = [], "", 0

    def forget(self) -> None:
        """Compute everything anew from here on: what is held was made in another way, and what the context has room
        for may be more."""
        self._held, self._snapshots, self.dropped = None, [], 0

    def room(self) -> Room:
        """How full the context is."""
        return Room(len(self.rendered().ids) if self.said[self.dropped :] else 0, self.engine.facts.context)

    def rendered(self) -> "Rendered":
        """The conversation as the model is handed it, with no answer begun."""
        return self.engine.render(self.shown, _unbegun(self.settings))

    @property
    def is_full(self) -> bool:
        """Whether no more can be said, as things are."""
        return self._choice != "rotate" and self.room().is_full

    def held(self) -> "Prefix | None":
        """What is in memory of the prompt, to be written or looked at, not to be handed on."""
        return self._held

    def hold(self, prefix: "Prefix") -> None:
        """Begin with what is processed already; the conversation hands it on."""
        self._held = prefix

    def _answer(self, cancel: "Cancel", settings: Settings) -> Generator[Event, None, None]:
        engine, settings = self.engine, self._in_steps(self._bounded(settings))
        continued = self.said[-1] if self.said[-1].role == "assistant" else None
        prefixes = [*([self._held] if self._held else []), *self._snapshots]
        stream = engine.stream(
            _messages(settings, self._turns(continued)), settings=settings, prefixes=prefixes, shared="",
            any_split=self._choice == "rotate", cancel=cancel,
        )  # fmt: skip
        raw = continued.raw or "" if continued else ""
        try:
            for event in stream:
                if isinstance(event, Token):
                    raw += event.raw
                elif isinstance(event, Done):
                    self._rate = event.timing.prompt_tps or self._rate
                    self._keep(event, continued, settings, raw)
                yield event
        finally:
            stream.close()
            running = engine.running
            if running is not None and running.stop is None:
                running.interrupt("SIGINT")  # nobody reads on: what is there is all there will be
            self._take_over()

    def _turns(self, continued: Said | None) -> list[Said]:
        """What the model is shown, the answer that it goes on with as it left it."""
        shown = self.said[self.dropped :]
        if continued is None or continued.raw is None:
            return shown
        return [*shown[:-1], msgspec.structs.replace(continued, content=continued.raw, thinking=None)]

    def _keep(self, done: Done, continued: Said | None, settings: Settings, raw: str) -> None:
        """Put an answer to what was said."""
        running = self.engine.running
        if not done.timing.generation_tokens or running is None:
            return
        begun = continued.content if continued else settings.prompt.prefill_response or ""
        thought = (continued.thinking or "" if continued else "") + (done.thinking or "")
        text, cut = begun + done.text, done.finish_reason != "stop"
        if running.job.opened_thinking and (continued is None or continued.raw is None):
            raw = f"{self.engine.tokenizer.think_start}\n{raw}"  # which the prompt ended with
        inside = cut and bool(thought) and not text
        said = Said("assistant", text, thought or None, cut, raw if inside else None)
        self.said[len(self.said) - bool(continued) :] = [said]

    def _take_over(self) -> None:
        """Keep what the run has left in memory."""
        running = self.engine.running
        if running is None:
            return
        if running.snapshot is not None:
            self._snapshots = [replace(running.snapshot, stays=True)]  # where caches cannot step back, again and again
        self._held = running.hand_over() or (self._held if self._held and self._held.ids else None)

    def _bounded(self, settings: Settings) -> Settings:
        """Settings under which a full cache drops its oldest tokens, where that was chosen."""
        facts = self.engine.facts
        if self._choice != "rotate" or facts.context is None or settings.kv.max_kv_size is not None:
            return settings
        return msgspec.structs.replace(settings, kv=msgspec.structs.replace(settings.kv, max_kv_size=facts.context))

    def _in_steps(self, settings: Settings) -> Settings:
        """Settings under which a prompt is read in steps that can be waited for. Where a cache drops what it has no
        room for, steps decide of the answer, and stay as they are."""
        generation = settings.generation
        if not self.engine.is_on_cpu or settings.kv.max_kv_size is not None:
            return settings
        step = min(generation.prefill_step_size, max(_STEP, int(self._rate * _STEP_S)))
        generation = msgspec.structs.replace(generation, prefill_step_size=step)
        return msgspec.structs.replace(settings, generation=generation)

    @property
    def _choice(self) -> str:
        """What is done when the context is full: not every model can do what was asked for."""
        choice, fixed = self.settings.chat.on_full, self.settings.model.draft_model is not None
        return "drop-oldest" if choice == "rotate" and (fixed or self.engine.facts.own_caches) else choice

    def _make_room(self) -> Generator[Event, None, None]:
        """Do what `chat.on_full` says when the context is full, and warn before."""
        choice = self._choice
        if self.engine.facts.context is None or choice == "rotate":
            return
        if choice != self.settings.chat.on_full:
            why = "with a draft model caches cannot rotate"
            if self.settings.model.draft_model is None:
                why = f"{self.settings.model_id} makes caches that cannot rotate"
            yield Notice(f"{why}: the oldest turns will be dropped")
        room = self.room()
        if room.limit is None or room.share < NEAR:
            return
        if choice == "drop-oldest" and room.is_full:
            yield from self._drop_oldest(room.limit)
        elif room.is_full:
            raise UsageError(f"the context is full: {room.used} of {room.limit} tokens",
                             hint="/undo, /clear or /set on_full drop-oldest; as a flag --on-full")  # fmt: skip
        else:
            yield Notice(f"the context is nearly full: {room.used} of {room.limit} tokens")

    def _drop_oldest(self, limit: int) -> Generator[Event, None, None]:
        """Show the model less of the beginning, whole turns, until a part of the context is free."""
        before = self.dropped
        starts = [number for number, said in enumerate(self.said) if said.role == "user" and number > self.dropped]

        def is_enough(start: int) -> bool:
            self.dropped = start
            return self.room().used <= limit * (1 - _FREE)

        first = bisect_left(starts, True, key=is_enough)
        self.dropped = starts[min(first, len(starts) - 1)] if starts else before
        if (used := self.room().used) + _LEAST > limit:
            self.dropped = before
            raise UsageError(f"this message is too long: {used} of {limit} tokens with nothing before it")
        turns = sum(said.role == "user" for said in self.said[before : self.dropped])
        yield Notice(f"the context is full: the model is not shown the oldest {turns} of the turns any more")


def _unbegun(settings: Settings) -> Settings:
    """Settings under which no answer has begun, or one that is gone on with."""
    return msgspec.structs.replace(settings, prompt=msgspec.structs.replace(settings.prompt, prefill_response=None))


def _messages(settings: Settings, said: Sequence[Said]) -> list[Message]:
    system = [{"role": "system", "content": settings.prompt.system}] if settings.prompt.system is not None else []
    return [*system, *(_message(one) for one in said)]


def _message(said: Said) -> Message:
    """As templates take it: those that show a model its own thinking look for it under this name."""
    message = {"role": said.role, "content": said.content}
    return {**message, "reasoning_content": said.thinking} if said.thinking and said.content else message


def _reseeded(settings: Settings, said: Sequence[Said]) -> Settings:
    """With another seed where one was given: the same one would bring the same answer."""
    if settings.sampler.seed is None:
        return settings
    step = zlib.crc32(said[-1].content.encode("utf-8", "replace")) + 1
    return msgspec.structs.replace(
        settings, sampler=msgspec.structs.replace(settings.sampler, seed=(settings.sampler.seed + step) % 2**31)
    )
