"""One chat: the conversation, its settings, where it is kept, and what a person may do with it."""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from mlxctl import texts
from mlxctl.chat import sessions
from mlxctl.chat.answer import make_view
from mlxctl.chat.asked import Asked
from mlxctl.chat.conversation import Conversation
from mlxctl.chat.interrupt import Interrupts
from mlxctl.chat.keeping import Keeper
from mlxctl.chat.keys import Keys
from mlxctl.chat.screen import Screen
from mlxctl.chat.sessions import Saved
from mlxctl.errors import MlxctlError, UsageError
from mlxctl.events import Done, Event, Notice, Progress, Token
from mlxctl.output import stats
from mlxctl.settings import Settings

if TYPE_CHECKING:
    from mlxctl.engine.engine import Engine

_RECALLED = 300  # characters of a message that are shown when it is gone on with
_SLOW_S = 1.0  # from where on the reading of a prompt is shown


class Chat:
    """What the commands work on. `over`: whether the person has left."""

    def __init__(self, screen: Screen, environ: Mapping[str, str], asked: Asked, *, keep: bool = True) -> None:
        self.screen = screen
        self.environ = environ
        self.asked = asked
        self.interrupts = Interrupts()
        self.keys = Keys()
        self.last: Done | None = None
        self.thinking = "show"
        self.multi = False
        self.over = False
        self.interrupted: str | None = None  # the signal that ended a chat without a terminal
        self.draft = ""  # what the next line to edit begins with
        self.keeper = Keeper(screen.say, keep=keep)
        self._told: set[str] = set()  # what was said already
        self._used = 0  # tokens of the conversation

    def open(self, saved: Saved | None, name: str | None) -> None:
        """Load the model, and go on with what was saved. name: of a session that is new."""
        self.resolved = self.asked.resolve(self.environ)
        settings = self.resolved.settings
        self.thinking = {"show": "show", "hide": "hide", "stderr": "hide"}[settings.output.thinking]
        if self.screen.interactive:
            self.screen.say(f"loading {settings.model_id}")
        self.conversation = Conversation(self._load(settings), _with_system(settings))
        if settings.cache.name is not None or settings.cache.auto:
            self.screen.say("[cache] of the profile does nothing here: a session keeps its own")
        if saved is not None:
            with self.keeper.moving_to(saved.name, automatic=saved.automatic):
                pass
            self.keeper.take_up(saved, self.conversation)
            self.recall()
            return
        self.conversation.attached = "".join(map(texts.before, map(texts.read_file, settings.prompt.files)))
        self.keeper.begin(name)
        if name is not None and self.screen.interactive:
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
        """Have a text answered."""
        self.turn(self.conversation.ask(text, self.interrupts.asked))

    def turn(self, events: Generator[Event, None, None]) -> None:
        """Show an answer while it comes, then keep the conversation."""
        with self.interrupts.answering():
            done = self._show(events)
        try:
            self.save()
        finally:
            if done is not None:
                self.last = done
                self.measure()
                self._tell(done)
        if done is not None and done.finish_reason == "interrupted" and not self.screen.interactive:
            self.over, self.interrupted = True, done.stop["signal"]
        self.interrupts.obey()

    def _show(self, events: Generator[Event, None, None]) -> Done | None:
        view = make_view(self.screen, self.thinking, markdown=self.settings.chat.markdown)
        reading, done = _Reading(self.screen), None
        try:
            with closing(events):
                for event in events:
                    if isinstance(event, Token):
                        reading.clear()
                        view.token(event)
                    elif isinstance(event, Progress):
                        reading.update(event)
                    elif isinstance(event, Notice):
                        self._say_once(event.message)
                    else:
                        done = event
        finally:
            reading.clear()
            view.end()
        return done

    def _say_once(self, message: str) -> None:
        """What holds for every answer is said at the first."""
        if message not in self._told:
            self._told.add(message)
            self.screen.say(message)

    def _tell(self, done: Done) -> None:
        """What the person is told after an answer."""
        if done.finish_reason == "length":
            more = "/continue goes on with it" if self.screen.interactive else "--max-tokens raises the limit"
            if self.conversation.is_full:
                more = "the context is full"
            self.screen.say(f"the answer was cut at {done.stop['max_tokens']} tokens: {more}")
        if done.finish_reason == "interrupted":
            self.screen.say("stopped; what came is kept" if done.timing.generation_tokens else "stopped")
        wanted = self.settings.output.stats
        if wanted == "json":
            self.screen.show(stats.as_json(done))
        elif wanted == "always" or (wanted == "auto" and self.screen.interactive):
            self.screen.say(stats.short(done)[: self.screen.width - 1])
        if self.settings.request.stats_file:
            stats.append(self.settings.request.stats_file, done)

    def summary(self) -> list[str]:
        """Model, tokens of its context, the last rate, and how many tokens are in memory: what a bar has room for."""
        if self.conversation.engine is None:
            return [self.settings.model_id]
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
            self.keeper.begin(None)
        self.conversation.clear()
        self.conversation.forget()
        if "request.image" in self.asked.values:
            self.set({}, unset=["request.image"])
        self.last, self._used = None, 0

    # Settings

    def change(self, asked: Asked) -> None:
        """Go on under other settings. Raises MlxctlError, and all is as it was."""
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

        return Engine.load(settings, self.screen.say)

    def _exchange(self, settings: Settings) -> None:
        """Another model in the place of this one: there is hardly room for two."""
        from mlxctl.engine.loader import open_source

        open_source(settings, self.screen.say)  # what can be told without its weights
        self.conversation.forget()
        self.conversation.engine = None  # type: ignore[assignment] # for a moment
        fault: BaseException | None = None
        try:
            self.conversation.engine = self._load(settings)
        except BaseException as error:  # Ctrl-C among them
            fault = error.with_traceback(None)  # whose frames hold what was loaded
        if fault is None:
            return
        self.screen.say(f"loading {self.settings.model_id} again")
        try:
            self.conversation.engine = self._load(self.settings)
        except BaseException as error:
            self.over = True  # what was said is on the disk
            raise MlxctlError(f"the model before could not be loaded again: {error or type(error).__name__}") from fault
        raise fault

    # Keeping

    def save(self, *, last: bool = False) -> None:
        """Keep the conversation. last: the chat ends, so that a large cache is written, too."""
        self.keeper.save(self.conversation, self.asked, last=last)

    def load(self, name: str) -> None:
        """Leave this session and go on with another. Raises MlxctlError, and all is as it was."""
        saved = sessions.read(name)
        if name == self.keeper.name:
            raise UsageError(f"session {name}: it is open already")
        self.save(last=True)
        with self.keeper.moving_to(saved.name, automatic=saved.automatic):
            self._apply(Asked.of(saved))
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
        if self.conversation.engine is not None:
            self.save(last=True)


class _Reading:
    """Tells on a terminal how far the prompt is processed, when that takes long."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._started = time.monotonic()
        self._shown = False

    def update(self, event: Progress) -> None:
        if self._screen.movable and event.total > 1 and time.monotonic() - self._started > _SLOW_S:
            self._screen.err.write(f"\rreading … {100 * event.done // event.total} %")
            self._shown = True

    def clear(self) -> None:
        if self._shown:
            self._screen.err.write("\r\x1b[K")
            self._shown = False


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
