"""Prompt caches around a run: what it starts from, and what it leaves for the next."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlxctl import paths
from mlxctl.caches import named
from mlxctl.caches.named import Named
from mlxctl.cli.app import App
from mlxctl.cli.inputs import Asked
from mlxctl.errors import CacheError, MlxctlError, UsageError
from mlxctl.events import Done, Event, Message
from mlxctl.profiles import Resolved
from mlxctl.settings import Settings

if TYPE_CHECKING:
    from mlxctl.caches.auto import AutoStore
    from mlxctl.engine.engine import Engine
    from mlxctl.engine.job import Cancel
    from mlxctl.engine.kv import Prefix
    from mlxctl.engine.stream import Generation

_WORTH_KEEPING = 64  # tokens that had to be processed
_MISFIT = "where none are given, a run takes the model and settings of its cache; mlxctl cache save makes another"
_SLOW_S = 5.0  # from where on a person would like to hear of --auto-cache


class Caching:
    """One run's dealings with prompt caches. `settings` are the run's, with what its cache was made with filled in."""

    def __init__(self, app: App, resolved: Resolved) -> None:
        from mlxctl.caches.meta import filled_in

        self._app = app
        self._named = _named(resolved.settings)
        if resolved.settings.request.cache_update and self._named is None:
            raise UsageError("--cache-update: a file of mlx_lm.cache_prompt, or none, cannot be written back to",
                             hint="mlxctl cache save makes one that can")  # fmt: skip
        self.settings = filled_in(resolved, self._named.meta) if self._named else resolved.settings
        self._identity: dict[str, Any] = {}
        self._store: AutoStore | None = None
        self.fault: MlxctlError | None = None  # why what was asked for was not written
        self._start: Prefix | None = None  # what the named cache holds, where that may be needed again

    @property
    def keeps(self) -> bool:
        """Whether this run leaves anything for the next."""
        return self.settings.cache.auto or self.settings.request.cache_update

    def begin(self, asked: Asked) -> Asked:
        """What is asked, behind the conversation that the cache holds where it is not given anew."""
        from mlxctl.caches.matching import changed_files, extends, joined

        if self._named is None:
            return asked
        meta = self._named.meta
        messages = joined(asked.messages, asked.pieces, meta)
        if self.settings.request.cache_update and not extends(messages, meta.messages):
            raise UsageError(f"--cache-update: the prompt does not go on with what cache {self._named.name} holds, and "
                             "would take its place", hint="mlxctl cache save makes another")  # fmt: skip
        if messages == asked.messages:
            return asked
        for name in changed_files(meta):
            self._app.say(f"cache {self._named.name}: {name} was changed since; the cache holds it as it was")
        return Asked(messages, shared="")

    def prefixes(self, engine: "Engine", messages: Sequence[Message]) -> "list[Prefix]":
        """What may be processed already. Raises CacheError where the cache that was named cannot serve this run."""
        from mlxctl.caches import identity, meta
        from mlxctl.engine import kv

        automatic = self.settings.cache.auto and self.settings.request.prompt_cache_file is None
        if self._named is None and not automatic:
            return []
        self._identity = identity.of_engine(engine)
        found = []
        if self._named is not None:
            if reason := meta.misfit(self._named.meta, self._identity, self.settings):
                raise CacheError(f"cache {self._named.name}: {reason}", hint=_MISFIT)
            if not engine.fits(self._named.prefix):
                raise CacheError(f"cache {self._named.name}: it does not hold what this model makes")
            named.touch(self._named.path)
            self._start = self._named.prefix
            if self.settings.request.cache_update and not kv.always_steps_back(self._start.caches):
                self._start = replace(self._start, stays=True)
            found.append(self._start)
        if automatic:
            found += self._from_store(engine, messages)
        return found

    def _from_store(self, engine: "Engine", messages: Sequence[Message]) -> "list[Prefix]":
        from mlxctl.caches import auto, format, identity, meta

        self._store = auto.opened(self.settings.cache.max_bytes, say=self._app.say)
        # One token is always processed.
        path = self._store.best(identity.kind(self._identity, self.settings), engine.render(messages).ids[:-1])
        if path is None:
            return []
        try:
            found, prefix = format.read(path)
            if meta.misfit(found, self._identity, self.settings) or not engine.fits(prefix):
                raise CacheError("of another model")
        except CacheError as error:
            if not isinstance(error.__cause__, OSError):
                self._store.drop(path)
            return []
        except MlxctlError:
            return []  # no room for it now, which is no fault of the file
        self._store.touch(path)
        return [prefix]

    def tell(self, engine: "Engine") -> None:
        """Say how much of the named cache is used, where that is less than it holds."""
        if self._named is None or engine.running is None:
            return
        held, used = len(self._named.meta.ids), engine.running.job.cached_tokens
        if used < held - 8 and used < 0.9 * held:
            limit = self.settings.kv.max_kv_size
            if not used and limit is not None and engine.running.job.prompt_tokens > limit:
                self._app.say(f"cache {self._named.name}: it is not used: the prompt is longer than max_kv_size")
                return
            what = f"{used} of its {held} tokens are used" if used else "it is not used"
            self._app.say(f"cache {self._named.name}: {what}, the prompt differs from it after that"
                          f" (mlxctl cache explain {self._named.name} shows where)")  # fmt: skip

    def finish(
        self, engine: "Engine", messages: Sequence[Message], done: Done, cancel: "Cancel"
    ) -> Generator[Event, None, None]:
        """Keep what is worth it; a fault here takes nothing from the answer (see `fault`). Yields Progress."""
        if done.finish_reason == "interrupted":
            return  # what is there is not what was asked for
        running, update = engine.running, self.settings.request.cache_update
        if running is None:
            return
        final = running.hand_over()
        if self._store is not None and final is not None:
            with self._telling():
                self._keep(engine, self._store, running, replace(final, stays=update))
        if update and self._named is not None:
            held = [prefix for prefix in (final, running.snapshot, self._start) if prefix is not None]
            with self._telling(asked_for=True):
                yield from self._write_back(engine, self._named, held, messages, done, cancel)
        self._hint(done)

    @contextmanager
    def _telling(self, *, asked_for: bool = False) -> Iterator[None]:
        try:
            yield
        except MlxctlError as error:
            self._app.say(f"the prompt cache was not written: {error.message}")
            self.fault = error if asked_for else None

    def _write_back(self, engine: "Engine", cache: Named, held: "list[Prefix]", messages: Sequence[Message], done: Done,
                    cancel: "Cancel") -> Generator[Event, None, None]:  # fmt: skip
        from mlxctl.caches.matching import answered
        from mlxctl.caches.meta import describe

        longer = answered(messages, (self.settings.prompt.prefill_response or "") + done.text)
        prefix = yield from engine.prefill(longer, prefixes=held, cancel=cancel)
        if prefix is None:
            raise CacheError("interrupted")
        meta = describe(engine, self._identity, prefix, longer, self.settings, cache.meta.parts, cache.meta.parts_of)
        named.write(cache.path, prefix, meta, instead_of=cache.meta, cancel=cancel)
        cut = ", the last answer as it was cut" if done.finish_reason == "length" else ""
        self._app.say(f"cache {cache.name}: {len(prefix.ids)} tokens now{cut}")

    def _keep(self, engine: "Engine", store: "AutoStore", running: "Generation", final: "Prefix") -> None:
        """Put the prompt in the store, if it took work to process."""
        from mlxctl.caches import format, identity
        from mlxctl.caches.meta import describe
        from mlxctl.engine import kv

        least = len(running.job.seen) + _WORTH_KEEPING
        kept = kv.take(final, min(running.job.prompt_tokens, len(final.ids))) or running.snapshot
        if kept is None or len(kept.ids) < least:
            return
        meta = describe(engine, self._identity, kept, [], self.settings)
        whole = not kv.can_step_back(kept.caches)
        kind = identity.kind(self._identity, self.settings)
        store.put(kind, kept.ids, lambda path: format.write(path, kept, meta), whole=whole)

    def _hint(self, done: Done) -> None:
        """After a slow prefill, what would have saved it."""
        spent = (done.timing.prefill_tokens or 0) / (done.timing.prompt_tps or float("inf"))
        if spent > _SLOW_S and self._store is None and self._named is None and not self.settings.upstream_rules:
            self._app.say(f"the prompt took {spent:.0f} s to read; --auto-cache keeps it for the next run")


def _named(settings: Settings) -> Named | None:
    """The cache to start from: --cache, or --prompt-cache-file where that is a file of ours."""
    if settings.cache.name is not None:
        return named.read(settings.cache.name)
    if settings.request.prompt_cache_file is None:
        return None
    from mlxctl.caches import format

    path = paths.absolute(settings.request.prompt_cache_file)
    if not paths.is_file(path) or not format.is_ours(path):
        return None
    found = named.read_file(settings.request.prompt_cache_file, path)
    if settings.upstream_rules and not found.meta.complete:
        raise CacheError(f"{path}: its text is not settled at its end, where mlx_lm's rule would go on",
                         hint="mlxctl run --cache can")  # fmt: skip
    return None if settings.upstream_rules else found  # upstream's rule knows no ids
