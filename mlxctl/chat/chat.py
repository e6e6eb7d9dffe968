"""One chat: the conversation, its settings, where it is kept, and what a person may do with it."""

import signal
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from mlxctl import texts
from mlxctl.chat.answer import make_view
from mlxctl.chat.asked import Asked
from mlxctl.chat.conversation import Conversation
from mlxctl.chat.interrupt import Interrupts, Leave
from mlxctl.chat.keeping import Keeper
from mlxctl.chat.keys import Keys
from mlxctl.chat.screen import Screen
from mlxctl.errors import ExitStatus, MlxctlError
from mlxctl.events import Done, Event, Notice, Progress, Token
from mlxctl.history import bandwidth
from mlxctl.history.log import Log
from mlxctl.output import stats
from mlxctl.settings import Settings

if TYPE_CHECKING:
    from mlxctl.engine.engine import Engine

_RECALLED = 300  # characters of a message that are shown when it is gone on with
_SLOW_S, _MANY = 1.0, 20  # seconds, or tokens to go, from where on the reading of a prompt is shown


class Chat:
    """What the commands work on. `over`: whether the person has left."""

    def __init__(self, screen: Screen, environ: Mapping[str, str], call: Asked, *, keep: bool = True) -> None:
        self.screen = screen
        self.environ = environ
        self.asked = self._call = call
        self.interrupts = Interrupts()
        self.interrupts.slow = self._tell_slow
        self.keys = Keys()
        self.conversation: Conversation = None  # type: ignore[assignment] # until it is open
        self.last: Done | None = None
        self.thinking: str = "show"
        self.multi = False
        self.over = False
        self.status: int = ExitStatus.OK  # of the process, when the chat is over
        self.draft = ""  # what the next line to edit begins with
        self.keeper = Keeper(screen.say, keep=keep)
        self._log = Log("chat", self.say_once)
        self._told: set[str] = set()  # what was said already
        self._used = 0  # tokens of the conversation

    def open(self, name: str | None) -> None:
        """Load the model, and begin or go on with a session; None: a new one, named by the time. Raises MlxctlError."""
        saved = self.keeper.open(name) if name is not None else None
        if saved is not None:
            self.asked = self._call.over(saved)
        self.resolved = self.asked.resolve(self.environ)
        settings = self.resolved.settings
        self.thinking = settings.output.thinking
        if self.screen.interactive:
            self.screen.say(f"loading {settings.model_id}")
        self.conversation = Conversation(self._load(settings), _with_system(settings))
        if settings.prompt.template is not None:
            self.screen.say("prompt.template of the profile does nothing here: what is said is said as it is")
        if settings.cache.name is not None or settings.cache.auto:
            self.screen.say("[cache] of the profile does nothing here: a session keeps its own")
        if saved is not None:
            self.keeper.take_up(saved, self.conversation)
            self.conversation.attached += _text_of(self._call.values.get("prompt.files", ()))
            self.recall()
            return
        self.conversation.attached = _text_of(settings.prompt.files)
        if name is None:
            self.keeper.begin()
        elif self.screen.interactive:
            self.screen.say(f"a new session, {name}")

    @property
    def engine(self) -> "Engine":
        """The model that answers."""
        return self.conversation.engine

    @property
    def settings(self) -> Settings:
        """Those of the next answer."""
        return self.conversation.settings

    def ask(self, text: str) -> None:
        """Have a text answered; one that was stopped before an answer came stands ready again."""
        begun = self.settings.prompt.prefill_response or ""
        done = self.turn(self.conversation.ask(text, self.interrupts.asked), begun)
        if done is not None and not done.timing.generation_tokens and self.screen.interactive:
            self.draft = text

    def turn(self, events: Generator[Event, None, None], begun: str = "") -> Done | None:
        """Show an answer while it comes, then keep the conversation. begun: what the answer begins with."""
        try:
            with self.interrupts.answering():
                done = self._show(events, begun)
        finally:
            self.interrupts.obey()
        try:
            self.save()
        finally:
            if done is not None:
                self.last = done
                self.measure()
                self._tell(done)
        if done is not None and done.finish_reason == "interrupted" and not self.screen.interactive:
            self.over, self.status = True, 128 + signal.Signals[done.stop["signal"]]
        return done

    def _tell_slow(self) -> None:
        """Said while the model is deep in something, from another thread."""
        if self.screen.movable:
            self.screen.err.write("\r\x1b[Kstopping … (Ctrl-C again leaves the chat)\r")

    def _show(self, events: Generator[Event, None, None], begun: str) -> Done | None:
        view = make_view(self.screen, self.thinking, markdown=self.settings.chat.markdown)
        reading, done = _Reading(self.screen), None
        try:
            with closing(events):
                for event in events:
                    if isinstance(event, Token):
                        reading.clear()
                        view.token(replace(event, text=begun + event.text) if begun and event.text else event)
                        begun = "" if event.text else begun
                    elif isinstance(event, Progress):
                        reading.update(event)
                    elif isinstance(event, Notice):
                        self.say_once(event.message)
                    else:
                        done = bandwidth.with_ceiling(event)
        finally:
            reading.clear()
            view.end()
        return done

    def say_once(self, message: str) -> None:
        """What holds for every answer is said at the first."""
        if message not in self._told:
            self._told.add(message)
            self.screen.say(message)

    def _tell(self, done: Done) -> None:
        """What the person is told after an answer."""
        if done.finish_reason == "length":
            more = "/continue goes on with it" if self.screen.interactive else "--max-tokens raises the limit"
            with suppress(MlxctlError):  # the next answer will tell
                more = "the context is full" if self.conversation.is_full else more
            self.screen.say(f"the answer was cut at {done.stop['max_tokens']} tokens: {more}")
        if done.is_incomplete:
            self.screen.say("the answer is incomplete: it does not satisfy the grammar")
        if done.finish_reason == "interrupted":
            kept = done.timing.generation_tokens > 0
            self.screen.say("stopped; what came is kept" if kept else "stopped before an answer: nothing is changed")
        wanted = self.settings.output.stats
        if wanted == "json":
            self.screen.show(stats.as_json(done))
        elif wanted == "always" or (wanted == "auto" and self.screen.interactive):
            self.screen.say(stats.short(done)[: self.screen.width - 1])
        if self.engine.running is not None:
            self._log.keep(done, self.engine.running, self.resolved.values)
        if self.settings.request.stats_file:
            stats.append(self.settings.request.stats_file, done)

    def summary(self) -> list[str]:
        """Model, tokens of its context, the last rate, and how many tokens are in memory: what a bar has room for."""
        held, limit = self.conversation.held(), self.engine.facts.context
        used = self._used
        rate = self.last.timing.generation_tps if self.last is not None else None
        return [
            self.settings.model_id.rstrip("/").rpartition("/")[2],
            f"{used}/{limit} tokens" if limit else f"{used} tokens",
            f"{len(held.ids)} cached" if held else "no cache",
            f"{rate:.1f} tok/s" if rate else "",
            self.keeper.name or "not kept",
        ]

    def measure(self) -> None:
        """Count the tokens of the conversation, after a command that may have changed it."""
        with suppress(MlxctlError):  # the next answer will tell
            self._used = self.conversation.room().used

    def begin_anew(self) -> None:
        """An empty conversation, in a session of its own."""
        if self.conversation.said:
            self.save(last=True)
            self.keeper.begin()
        self.conversation.clear()
        self.conversation.forget()
        self.conversation.attached = _text_of(self.settings.prompt.files)
        if "request.image" in self.asked.values:
            self.set({}, unset=["request.image"])
        self.last, self._used = None, 0

    # Settings

    def change(self, asked: Asked) -> None:
        """Go on under other settings. Raises MlxctlError, and all is as it was, unless it is that of `save`."""
        self._apply(asked)
        self.save()

    def _apply(self, asked: Asked) -> None:
        resolved = asked.resolve(self.environ)
        new, old = _with_system(resolved.settings), self.settings
        if _of_model(new) == _of_model(old):
            self.engine.check(new, self.screen.say)
        else:
            self._exchange(new)
        if (new.kv, new.chat.on_full) != (old.kv, old.chat.on_full):
            self.conversation.forget()
        self.conversation.settings, self.asked, self.resolved = new, asked, resolved
        self._told.clear()

    def set(self, values: Mapping[str, Any], *, unset: Sequence[str] = ()) -> None:
        """Change some settings; those of `unset` are as if nobody had set them here."""
        kept = {key: value for key, value in {**self.asked.values, **values}.items() if key not in unset}
        self.change(Asked(kept, self.asked.profile, self.asked.unset))

    def _load(self, settings: Settings) -> "Engine":
        from mlxctl.engine.engine import Engine

        return Engine.load(settings, self.screen.say, examine=True)

    def _exchange(self, settings: Settings) -> None:
        """Another model in the place of this one: there is hardly room for two."""
        from mlxctl.engine.loader import open_source

        open_source(settings, self.screen.say)  # what can be told without its weights
        self.conversation.forget()
        self.conversation.engine = None  # type: ignore[assignment] # for a moment
        fault: BaseException | None = None
        try:
            self.conversation.engine = self._load(settings)
        except Leave:
            self.over = True
            raise
        except BaseException as error:  # Ctrl-C among them
            fault = error.with_traceback(None)  # whose frames hold what was loaded
        if fault is None:
            return
        self.screen.say(f"loading {self.settings.model_id} again")
        try:
            self.conversation.engine = self._load(self.settings)
        except BaseException as error:
            self.over, self.status = True, ExitStatus.MODEL  # what was said is on the disk
            if isinstance(error, Leave):
                raise
            raise MlxctlError(f"the model before could not be loaded again: {error or type(error).__name__}") from fault
        raise fault

    # Keeping

    def save(self, *, last: bool = False) -> None:
        """Keep the conversation. last: the chat ends, so that a large cache is written, too."""
        self.keeper.save(self.conversation, self.asked, last=last)

    def load(self, name: str) -> None:
        """Leave this session and go on with another. Raises MlxctlError, and all is as it was."""
        self.save(last=True)
        with self.keeper.going_to(name) as saved:
            self._apply(self.asked.passing().over(saved))
        self.keeper.take_up(saved, self.conversation)
        self.recall()

    def recall(self) -> None:
        """Show a person where a conversation stands that is gone on with."""
        self.measure()
        if not self.screen.interactive:
            return
        said = self.conversation.said
        asked = sum(one.role == "user" for one in said)
        self.screen.say(f"session {self.keeper.name}: {asked} question{'' if asked == 1 else 's'} so far")
        for one in said[-2:]:
            text = " ".join(one.content.split())
            self.screen.say(f"{one.role}: {text if len(text) <= _RECALLED else text[:_RECALLED] + '…'}")

    def leave(self) -> None:
        """The chat ends."""
        self.over = True
        if self.conversation is not None and self.conversation.engine is not None:
            self.save(last=True)


class _Reading:
    """Tells on a terminal how far the prompt is processed, when that takes long."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._started = time.monotonic()
        self._shown = False

    def update(self, event: Progress) -> None:
        long = event.total - event.done > _MANY or time.monotonic() - self._started > _SLOW_S
        if self._screen.movable and event.total > 1 and (long or self._shown):
            self._screen.err.write(f"\rreading {event.total} tokens … {100 * event.done // event.total} %")
            self._shown = True

    def clear(self) -> None:
        if self._shown:
            self._screen.err.write("\r\x1b[K")
            self._shown = False


def _text_of(files: Sequence[str]) -> str:
    """What files say, as it stands before a question."""
    return "".join(map(texts.before, map(texts.read_file, files)))


def _of_model(settings: Settings) -> Any:
    """What a change of needs the model to be loaded again."""
    return msgspec.structs.replace(settings.model, num_draft_tokens=1)


def _with_system(settings: Settings) -> Settings:
    """Settings whose system prompt is text."""
    if settings.prompt.system_file is None:
        return settings
    prompt = msgspec.structs.replace(
        settings.prompt, system=texts.read_file(settings.prompt.system_file), system_file=None
    )
    return msgspec.structs.replace(settings, prompt=prompt)
