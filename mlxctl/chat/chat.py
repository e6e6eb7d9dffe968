"""One chat: the conversation, its settings, where it is kept, and what a person may do with it."""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from mlxctl import profiles, texts
from mlxctl.chat import sessions
from mlxctl.chat.answer import make_view
from mlxctl.chat.conversation import Conversation
from mlxctl.chat.interrupt import Interrupts
from mlxctl.chat.screen import Screen
from mlxctl.chat.sessions import Saved
from mlxctl.errors import CacheError, MlxctlError, UsageError
from mlxctl.events import Done, Event, Notice, Progress, Token
from mlxctl.output import stats
from mlxctl.profiles import Resolved
from mlxctl.settings import Settings

if TYPE_CHECKING:
    from mlxctl.engine.engine import Engine

_SMALL = 256_000_000  # bytes of a cache that is written after each turn; larger ones when the chat ends
_SLOW_S = 1.0  # from where on the reading of a prompt is shown


@dataclass(frozen=True)
class Asked:
    """What settings were asked for: flags by key, a profile, and keys that shall not count in it."""

    values: Mapping[str, Any]
    profile: str | None
    unset: Sequence[str] = ()

    def resolve(self, environ: Mapping[str, str]) -> Resolved:
        """The settings, layered and checked. Raises UsageError."""
        resolved = profiles.resolve(self.values, environ, self.profile, self.unset)
        list(profiles.enforce(resolved))  # what it warns of is said when the model is there
        return resolved


class Chat:
    """What the commands work on. `over`: whether the person has left."""

    def __init__(self, screen: Screen, environ: Mapping[str, str], asked: Asked, *, keep: bool = True) -> None:
        self.screen = screen
        self.environ = environ
        self.asked = asked
        self.interrupts = Interrupts()
        self.last: Done | None = None
        self.thinking = "show"
        self.multi = False
        self.over = False
        self.interrupted: str | None = None  # the signal that ended a chat without a terminal
        self.draft = ""  # what the next line to edit begins with
        self.name: str | None = None  # of the session; None where nothing is kept
        self.automatic = False
        self._keep = keep
        self._lock = ExitStack()
        self._identity: dict[str, Any] = {}
        self._cached: list[int] = []  # the tokens in the cache file
        self._told: set[str] = set()  # what was said already
        self._used = 0  # tokens of the conversation

    def open(self, saved: Saved | None, name: str | None) -> None:
        """Load the model, and go on with what was saved. name: of a session that is new."""
        self.resolved = self.asked.resolve(self.environ)
        settings = self.resolved.settings
        self.thinking = {"show": "show", "hide": "hide", "stderr": "hide"}[settings.output.thinking]
        self.conversation = Conversation(self._load(settings), _with_system(settings))
        if settings.cache.name is not None or settings.cache.auto:
            self.screen.say("[cache] of the profile does nothing here: a session keeps its own")
        if saved is not None:
            self._go_on_with(saved)
            return
        self.conversation.attached = "".join(map(texts.before, map(texts.read_file, settings.prompt.files)))
        if self._keep:
            self.name, self.automatic = name or sessions.automatic_name(), name is None
            self._hold(self.name)

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
        self.save()
        if done is not None:
            self.last = done
            self._used = (done.timing.prompt_tokens or 0) + done.timing.generation_tokens
            self._tell(done)
            if done.finish_reason == "interrupted" and not self.screen.interactive:
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
        held, limit = self.conversation.held(), self.engine.facts.context
        used = self._used
        rate = self.last.timing.generation_tps if self.last is not None else None
        return [
            self.settings.model_id.rstrip("/").rpartition("/")[2],
            f"{used}/{limit} tokens" if limit else f"{used} tokens",
            f"{len(held.ids)} cached" if held else "no cache",
            f"{rate:.1f} tok/s" if rate else "",
            self.name or "not kept",
        ]

    def measure(self) -> None:
        """Count the tokens of the conversation, after a command that may have changed it."""
        with suppress(MlxctlError):  # the next answer will tell
            self._used = self.conversation.room().used

    def begin_anew(self) -> None:
        """An empty conversation, in a session of its own."""
        self.save(last=True)
        self.conversation.clear()
        self.conversation.forget()
        self.last, self._used, self._cached = None, 0, []
        if self.name is not None:
            self.name, self.automatic = sessions.automatic_name(), True
            self._hold(self.name)

    # Settings

    def change(self, asked: Asked) -> None:
        """Go on under other settings. Raises MlxctlError, and all is as it was."""
        resolved = asked.resolve(self.environ)
        new, old = _with_system(resolved.settings), self.settings
        if _of_model(new) == _of_model(old):
            self.engine.check(new, self.screen.say)
        else:
            self._exchange(new)
        if (new.kv, new.chat.on_full) != (old.kv, old.chat.on_full):
            self.conversation.forget()
        self.conversation.settings, self.asked, self.resolved = new, asked, resolved
        self.save()

    def set(self, values: Mapping[str, Any], *, unset: Sequence[str] = ()) -> None:
        """Change some settings; those of `unset` are as if nobody had set them here."""
        kept = {key: value for key, value in {**self.asked.values, **values}.items() if key not in unset}
        self.change(Asked(kept, self.asked.profile, self.asked.unset))

    def _load(self, settings: Settings) -> "Engine":
        from mlxctl.engine.engine import Engine

        self._identity = {}
        return Engine.load(settings, self.screen.say)

    def _exchange(self, settings: Settings) -> None:
        """Another model in the place of this one: there is hardly room for two."""
        from mlxctl.engine.loader import open_source

        open_source(settings, self.screen.say)  # what can be told without its weights
        old = self.conversation
        before, said, attached, dropped = old.settings, old.said, old.attached, old.dropped
        del self.conversation, old
        try:
            self._begin(settings, said, attached, dropped)
        except BaseException:
            self._begin(before, said, attached, dropped)
            raise

    def _begin(self, settings: Settings, said: list[Any], attached: str, dropped: int) -> None:
        self.conversation = Conversation(self._load(settings), settings, said)
        self.conversation.attached, self.conversation.dropped = attached, dropped

    # Keeping

    def save(self, *, last: bool = False) -> None:
        """Keep the conversation. last: the chat ends, so that a large cache is written, too."""
        if self.name is None or not (self.conversation.said or sessions.exists(self.name)):
            return
        sessions.write(self._saved(self.name))
        try:
            self._save_cache(self.name, last)
        except MlxctlError as error:
            self.screen.say(f"the cache of this session was not written: {error.message}")

    def keep_as(self, name: str) -> None:
        """Call this session so from now on. Raises UsageError where there is one of that name."""
        if sessions.exists(name):
            raise UsageError(f"session {name}: there is one already")
        old = self.name
        self._hold(name)
        self.name, self.automatic = name, False
        if old is not None and sessions.exists(old):
            sessions.rename(old, name)
        self.save()

    def branch(self, name: str | None) -> None:
        """Go on in a copy; this session stays as it is."""
        if name is not None and sessions.exists(name):
            raise UsageError(f"session {name}: there is one already")
        name, self.automatic = name or sessions.automatic_name(), name is None
        self._hold(name)
        self.name, self._cached = name, []
        self.save()

    def load(self, name: str) -> None:
        """Leave this session and go on with another."""
        saved = sessions.read(name)
        if name == self.name:
            raise UsageError(f"session {name}: it is open already")
        self.save(last=True)
        before = self.asked
        self.change(Asked(saved.values, saved.profile, saved.unset))
        try:
            self._go_on_with(saved)
        except MlxctlError:
            self.change(before)
            raise

    def leave(self) -> None:
        """The chat ends."""
        self.over = True
        self.save(last=True)
        self._lock.close()

    def _saved(self, name: str) -> Saved:
        conversation = self.conversation
        return Saved(
            name=name,
            said=conversation.said,
            attached=conversation.attached,
            dropped=conversation.dropped,
            profile=self.asked.profile,
            values=dict(self.asked.values),
            unset=list(self.asked.unset),
            model=self.settings.model_id,
            fingerprint=self.engine.fingerprint,
            automatic=self.automatic,
        )

    def _hold(self, name: str) -> None:
        """Keep other chats from this session, and let go of the one before."""
        lock = ExitStack()
        lock.enter_context(sessions.held(name))
        self._lock.close()
        self._lock = lock

    def _go_on_with(self, saved: Saved) -> None:
        if self._keep:
            self._hold(saved.name)
            self.name, self.automatic = saved.name, saved.automatic
        conversation = self.conversation
        conversation.forget()
        conversation.said, conversation.dropped = list(saved.said), saved.dropped
        conversation.attached = saved.attached
        self._cached = []
        if saved.fingerprint != self.engine.fingerprint:
            self.screen.say(f"this session was begun with {saved.model}, or another version of it")
        self._restore(saved.name)

    def _restore(self, name: str) -> None:
        """Take the cache from the disk, where there is one that holds; else it is computed anew."""
        from mlxctl.caches import identity, named
        from mlxctl.caches.meta import misfit

        path = sessions.cache_of(name)
        if not path.exists():
            return
        try:
            found = named.read_file(name, path)
            self._identity = self._identity or identity.of_engine(self.engine)
            reason = misfit(found.meta, self._identity, self.settings)
            if reason or not self.engine.fits(found.prefix):
                raise CacheError(reason or "it does not hold what this model makes")
        except CacheError as error:
            self.screen.say(f"the cache of this session is not used: {error.message}")
            return
        self._cached = found.meta.ids
        self.conversation.hold(found.prefix)

    def _save_cache(self, name: str, last: bool) -> None:
        from mlxctl.caches import identity, named
        from mlxctl.caches.meta import describe
        from mlxctl.engine import kv

        prefix = self.conversation.held()
        if prefix is None or not prefix.ids or prefix.ids == self._cached:
            return
        if kv.measure(prefix.caches)[0] > _SMALL and not last:
            return
        self._identity = self._identity or identity.of_engine(self.engine)
        meta = describe(self.engine, self._identity, prefix, [], self.settings)
        named.write(sessions.cache_of(name), prefix, meta)
        self._cached = [*prefix.ids]


class _Reading:
    """Tells on a terminal how far the prompt is processed, when that takes long."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._started = time.monotonic()
        self._shown = False

    def update(self, event: Progress) -> None:
        if self._screen.interactive and event.total > 1 and time.monotonic() - self._started > _SLOW_S:
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
