"""Keeping a conversation: its name, the lock on it, its file, and the cache beside that."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

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
        self._known: tuple[Engine, dict[str, Any]] | None = None  # a model, and its identity

    def begin(self, name: str | None) -> None:
        """A new session; one of no name is called by the time."""
        if self._keep:
            self._move(name)

    @contextmanager
    def moving_to(self, name: str, *, automatic: bool = False) -> Iterator[None]:
        """Go on in a session of this name, if what is done meanwhile does not fail."""
        with ExitStack() as lock:
            lock.enter_context(sessions.held(name))
            yield
            self._lock.close()
            self._lock = lock.pop_all()
        self.name, self._automatic, self._cached = name, automatic, []

    def rename(self, name: str) -> None:
        """Call the session so from now on. Raises UsageError where there is one of that name."""
        _require_free(name)
        old = self.name
        with self.moving_to(name):
            if old is not None and sessions.exists(old):
                sessions.rename(old, name)

    def branch(self, name: str | None) -> None:
        """Go on in a copy; the session stays as it is. Raises UsageError where there is one of that name."""
        if name is not None:
            _require_free(name)
        self._move(name)

    def _move(self, name: str | None) -> None:
        """To a session of this name, or of one that nobody has."""
        if name is not None:
            with self.moving_to(name):
                return
        for candidate in sessions.automatic_names():
            with suppress(sessions.InUse), self.moving_to(candidate, automatic=True):
                return

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
            profile=asked.lasting_profile,
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

        if self._known is None or self._known[0] is not engine:
            self._known = engine, identity.of_engine(engine)
        return self._known[1]


def _require_free(name: str) -> None:
    if sessions.exists(name):
        raise UsageError(f"session {name}: there is one already")
