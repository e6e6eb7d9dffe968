"""Keeping a conversation: its name, the lock on it, its file, and the cache beside that."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import ref

from mlxctl.chat import sessions
from mlxctl.chat.asked import Asked
from mlxctl.chat.conversation import Conversation
from mlxctl.chat.sessions import Saved
from mlxctl.errors import CacheError, MlxctlError, UsageError

if TYPE_CHECKING:
    from mlxctl.engine.engine import Engine

_SMALL = 256_000_000  # bytes of a cache that is written after each turn; larger ones when the chat ends


class Keeper:
    """The session that a conversation is kept in. name: None where nothing is kept (yet)."""

    def __init__(self, say: Callable[[str], None], *, keep: bool) -> None:
        self.name: str | None = None
        self._say = say
        self._keep = keep
        self._automatic = False
        self._lock = ExitStack()
        self._fault = ""
        self._cached: list[int] = []  # the tokens in the cache file
        self._known: tuple[ref[Engine], dict[str, Any]] | None = None  # a model, and its identity

    def open(self, name: str) -> Saved | None:
        """Take the session of a name, and read it; None where it is new. Raises UsageError."""
        with self._moving_to(name) as saved:
            return saved

    def begin(self) -> None:
        """A new session, called by the time; none where nothing is kept."""
        self._lock.close()
        self.name, self._automatic, self._cached = None, False, []
        if self._keep:
            self._move_to_new()

    @contextmanager
    def going_to(self, name: str) -> Iterator[Saved]:
        """Go on in a session that there is, if what is done meanwhile does not fail. Raises UsageError."""
        self._require_keeping("/load")
        if name == self.name:
            raise UsageError(f"session {name}: it is open already")
        if not sessions.exists(name):
            sessions.read(name)  # which tells what is near
        with self._moving_to(name) as saved:
            if saved is None:
                raise UsageError(f"session {name}: it is gone")
            yield saved

    def rename(self, name: str) -> None:
        """Call the session so from now on, and keep it. Raises UsageError where there is one of that name."""
        old = self.name
        with self._moving_to(name, new=True):
            if old is not None and sessions.exists(old):
                sessions.rename(old, name)
        self._keep = True

    def branch(self, name: str | None) -> None:
        """Go on in a copy; the session stays as it is. Raises UsageError where there is one of that name."""
        self._require_keeping("/branch")
        if name is None:
            self._move_to_new()
            return
        with self._moving_to(name, new=True):
            pass

    @contextmanager
    def _moving_to(self, name: str, *, new: bool = False) -> Iterator[Saved | None]:
        """Hold a session, with what is in it; the one before is let go of if what is done meanwhile does not fail."""
        if name == self.name:
            raise UsageError(f"session {name}: this one is called so")
        with ExitStack() as lock:
            lock.enter_context(sessions.held(name))
            saved = sessions.read(name) if sessions.exists(name) else None
            if new and saved is not None:
                raise UsageError(f"session {name}: there is one already")
            yield saved
            self._lock.close()
            self._lock = lock.pop_all()
        self.name, self._automatic, self._cached = name, saved is not None and saved.automatic, []

    def _move_to_new(self) -> None:
        for candidate in sessions.automatic_names():
            with suppress(UsageError), self._moving_to(candidate, new=True):
                break
        self._automatic = True

    def _require_keeping(self, command: str) -> None:
        if not self._keep:
            raise UsageError(f"{command}: nothing is kept here (--no-save); /save NAME begins to keep this chat")

    def save(self, conversation: Conversation, asked: Asked, *, last: bool = False) -> None:
        """Write what was said, and a cache that is small, or when it is the last time. Raises ResourceError."""
        if self.name is None or not (conversation.said or sessions.exists(self.name)):
            return
        settings = conversation.settings
        sessions.write(Saved(
            name=self.name,
            said=conversation.said,
            attached=conversation.attached,
            dropped=conversation.dropped,
            profile=asked.profile,
            values=asked.lasting(settings),
            unset=list(asked.unset),
            model=settings.model_id,
            fingerprint=conversation.engine.fingerprint,
            automatic=self._automatic,
        ))  # fmt: skip
        try:
            self._save_cache(self.name, conversation, last)
        except MlxctlError as error:
            if error.message != self._fault:  # once is enough
                self._fault = error.message
                self._say(f"the cache of this session is not kept: {error.message}")

    def take_up(self, saved: Saved, conversation: Conversation) -> None:
        """What was said in a session, and its cache where that holds; else it is computed anew."""
        conversation.forget()
        conversation.said, conversation.dropped = list(saved.said), saved.dropped
        conversation.attached = saved.attached
        if saved.fingerprint != conversation.engine.fingerprint:
            self._say(f"this session was begun with {saved.model}, or another version of it")
        try:
            self._restore(saved.name, conversation)
        except CacheError as error:
            self._say(f"the cache of this session is not used: {error.message}")

    def _restore(self, name: str, conversation: Conversation) -> None:
        from mlxctl.caches import named
        from mlxctl.caches.meta import misfit

        path, engine = sessions.cache_of(name), conversation.engine
        if not path.exists():
            return
        found = named.read_file(name, path)
        reason = misfit(found.meta, self._identity(engine), conversation.settings)
        if reason or not engine.fits(found.prefix):
            raise CacheError(reason or "it does not hold what this model makes")
        self._cached = found.meta.ids
        conversation.hold(found.prefix)

    def _save_cache(self, name: str, conversation: Conversation, last: bool) -> None:
        from mlxctl.caches import named
        from mlxctl.caches.meta import describe
        from mlxctl.engine import kv

        prefix, engine = conversation.held(), conversation.engine
        if prefix is None or not prefix.ids or prefix.ids == self._cached:
            return
        if kv.measure(prefix.caches)[0] > _SMALL and not last:
            return
        meta = describe(engine, self._identity(engine), prefix, [], conversation.settings)
        named.write(sessions.cache_of(name), prefix, meta)
        self._cached = [*prefix.ids]

    def _identity(self, engine: "Engine") -> dict[str, Any]:
        from mlxctl.caches import identity

        if self._known is None or self._known[0]() is not engine:
            self._known = ref(engine), identity.of_engine(engine)
        return self._known[1]
