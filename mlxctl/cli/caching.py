"""Prompt caches around a run: what it starts from, and what it leaves for the next."""

import hashlib
import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mlxctl import paths
from mlxctl.caches import named
from mlxctl.cli.app import App
from mlxctl.cli.inputs import Asked
from mlxctl.errors import CacheError, MlxctlError, UsageError
from mlxctl.events import Done, Event, Message
from mlxctl.profiles import Resolved
from mlxctl.rules import TEMPLATE_KEYWORDS
from mlxctl.settings import Settings

if TYPE_CHECKING:
    from mlxctl.caches.auto import AutoStore
    from mlxctl.caches.format import Meta
    from mlxctl.engine.engine import Engine
    from mlxctl.engine.kv import Prefix

_WORTH_KEEPING = 64  # tokens that had to be processed
_SLOW_S = 5.0  # from where on a person would like to hear of --auto-cache


@dataclass(frozen=True)
class Named:
    """The cache that a run was told to start from."""

    name: str
    path: Path
    meta: "Meta"
    prefix: "Prefix"


class Caching:
    """One run's dealings with prompt caches. `settings` are the run's, with what its cache was made with filled in."""

    def __init__(self, app: App, resolved: Resolved) -> None:
        self._app = app
        self._named = _named(resolved.settings)
        if resolved.settings.request.cache_update and self._named is None:
            raise UsageError("--cache-update: a file of mlx_lm.cache_prompt, or none, cannot be written back to",
                             hint="mlxctl cache save makes one that can")  # fmt: skip
        self.settings = filled_in(resolved, self._named.meta) if self._named else resolved.settings
        self._store: AutoStore | None = None
        self._start: list[Prefix] = []
        self._kind = ""

    @property
    def keeps(self) -> bool:
        """Whether this run leaves anything for the next."""
        return self.settings.cache.auto or self.settings.request.cache_update

    def begin(self, asked: Asked) -> Asked:
        """What is asked, behind the conversation that the cache holds where it is not given anew."""
        if self._named is None or is_whole(asked, self._named.meta):
            return asked
        for name in _changed(self._named.meta):
            self._app.say(f"cache {self._named.name}: {name} was changed since; the cache holds it as it was")
        return Asked(continued(self._named.meta.messages, asked.messages), shared="")

    def prefixes(self, engine: "Engine", messages: Sequence[Message]) -> "list[Prefix]":
        """What may be processed already. Raises CacheError where the cache that was named cannot serve this run."""
        from mlxctl.caches import format

        if self._named is not None:
            if reason := format.misfit(self._named.meta, engine.identity(), self.settings):
                raise CacheError(f"cache {self._named.name}: {reason}", hint="mlxctl cache save makes another")
            if not engine.fits(self._named.prefix):
                raise CacheError(f"cache {self._named.name}: it does not hold what this model makes")
            named.touch(self._named.path)
            self._start.append(self._named.prefix)
        if self.settings.cache.auto and self.settings.request.prompt_cache_file is None:
            self._start += self._from_store(engine, messages)
        return self._start

    def _from_store(self, engine: "Engine", messages: Sequence[Message]) -> "list[Prefix]":
        from mlxctl.caches import format
        from mlxctl.caches.auto import AutoStore

        self._store = AutoStore(paths.cache_dir() / "auto", self.settings.cache.max_bytes, say=self._app.say)
        self._kind = _kind(engine, self.settings)
        path = self._store.best(self._kind, engine.encode(messages)[:-1])  # one token is always processed
        if path is None:
            return []
        try:
            meta, prefix = format.read(path)
            if format.misfit(meta, engine.identity(), self.settings) or not engine.fits(prefix):
                raise CacheError("of another model")
        except CacheError:
            self._store.drop(path)
            return []
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

    def finish(self, engine: "Engine", messages: Sequence[Message], done: Done) -> Generator[Event, None, None]:
        """Keep what is worth it; a fault here takes nothing from the answer. Yields Progress."""
        if done.finish_reason == "interrupted":
            return  # what is there is not what was asked for
        try:
            if self.settings.request.cache_update and self._named is not None:
                yield from self._write_back(engine, self._named, messages, done)
            if self._store is not None:
                self._keep(engine, self._store, done)
        except MlxctlError as error:
            self._app.say(f"the prompt cache was not written: {error.message}")
        self._hint(done)

    def _write_back(self, engine: "Engine", cache: Named, messages: Sequence[Message],
                    done: Done) -> Generator[Event, None, None]:  # fmt: skip
        said = (self.settings.prompt.prefill_response or "") + done.text
        longer = answered(messages, said)
        known = [prefix for prefix in _held(engine) if prefix is not None]
        prefix = yield from engine.prefill(longer, prefixes=[*known, *self._start])
        if prefix is not None:
            write(engine, cache.path, prefix, longer, self.settings, instead_of=cache.meta)

    def _keep(self, engine: "Engine", store: "AutoStore", done: Done) -> None:
        from mlxctl.caches import format
        from mlxctl.engine import kv

        final, snapshot = _held(engine)
        running = engine.running
        if final is None or running is None:
            return
        prompt = min(running.job.prompt_tokens, len(final.ids))
        kept = kv.cut(final, prompt) or snapshot
        if kept is None or len(kept.ids) - len(running.job.seen) < _WORTH_KEEPING:
            return
        meta = describe(engine, kept, [], self.settings)
        whole = not kv.can_step_back(kept.caches)
        store.put(self._kind, kept.ids, lambda path: format.write(path, kept, meta), whole=whole)

    def _hint(self, done: Done) -> None:
        """After a slow prefill, what would have saved it."""
        spent = (done.timing.prefill_tokens or 0) / (done.timing.prompt_tps or float("inf"))
        if spent > _SLOW_S and self._store is None and self._named is None and not self.settings.upstream_rules:
            self._app.say(f"the prompt took {spent:.0f} s to read; --auto-cache keeps it for the next run")


def _named(settings: Settings) -> Named | None:
    """The cache to start from: --cache, or --prompt-cache-file where that is a file of ours."""
    from mlxctl.caches import format

    if settings.cache.name is not None:
        return known(settings.cache.name)
    if settings.request.prompt_cache_file is None:
        return None
    path = paths.absolute(settings.request.prompt_cache_file)
    if not paths.is_file(path) or not format.is_ours(path):
        return None
    found = Named(settings.request.prompt_cache_file, path, *format.read(path))
    if settings.upstream_rules and not found.meta.complete:
        raise CacheError(f"{path}: its text is not settled at its end, where mlx_lm's rule would go on",
                         hint="mlxctl run --cache can")  # fmt: skip
    return None if settings.upstream_rules else found  # upstream's rule knows no ids


def known(name: str) -> Named:
    """A cache of ours, given by name or path, read and checked. Raises CacheError."""
    from mlxctl.caches import format
    from mlxctl.engine import device

    path = named.find(name)
    device.require_backend()
    return Named(name, path, *format.read(path))


def filled_in(resolved: Resolved, meta: "Meta") -> Settings:
    """Settings where what nobody has set is as the cache was made."""
    settings = resolved.settings

    def unset(section: str, stored: msgspec.Struct) -> dict[str, Any]:
        names = [name for name in stored.__struct_fields__ if resolved.values[f"{section}.{name}"].layer == "default"]
        return {name: getattr(stored, name) for name in names}

    asked = {**unset("model", meta.made_with), "trust_remote_code": settings.model.trust_remote_code}
    model = msgspec.structs.replace(settings.model, **asked)  # no file lets a model run code of its own
    kv = msgspec.structs.replace(settings.kv, **unset("kv", meta.kv))
    bare = settings.prompt.ignore_chat_template or meta.ignore_chat_template
    prompt = msgspec.structs.replace(settings.prompt, ignore_chat_template=bare)
    # What only the file names is not fetched for it.
    named_there = any(
        getattr(model, name) != getattr(settings.model, name) for name in ("path", "revision", "draft_model")
    )
    offline = settings.request.offline or named_there
    request = msgspec.structs.replace(settings.request, prompt_cache_file=None, offline=offline)
    return msgspec.structs.replace(settings, model=model, kv=kv, prompt=prompt, request=request,
                                   template={**_plain(meta.template), **settings.template})  # fmt: skip


def _plain(template: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a template that a file may set: not the template itself, nor what a model is told it can do."""
    return {name: value for name, value in template.items() if name not in TEMPLATE_KEYWORDS}


def answered(messages: Sequence[Message], text: str) -> list[Message]:
    """A conversation with its answer, which may go on with one that was begun."""
    if messages[-1]["role"] == "assistant":
        return [*messages[:-1], {**messages[-1], "content": messages[-1]["content"] + text}]
    return [*messages, {"role": "assistant", "content": text}]


def is_whole(asked: Asked, meta: "Meta") -> bool:
    """Whether a prompt brings the beginning itself that a cache holds (a system prompt, the same files, the same first
    message), rather than what comes after it."""
    first = asked.messages[0]
    if first["role"] == "system" or not meta.messages:
        return True
    stored = meta.messages[0]
    again = first["role"] == stored["role"] and stored["content"] and first["content"].startswith(stored["content"])
    files = {Path(part.name).name for part in meta.parts} - {"stdin", "the text", "the question"}
    return bool(again) or any(Path(name).name in files for name, _ in asked.parts)


def _changed(meta: "Meta") -> Iterator[str]:
    """Files in the open text of a cache that are there and hold another text by now."""
    start, text = 0, meta.messages[-1]["content"] if meta.messages else ""
    for part in meta.parts:
        stored, start = text[start : start + part.characters], start + part.characters
        with suppress(OSError, ValueError):
            path = Path(part.name)
            if path.is_file() and path.read_text(encoding="utf-8").rstrip("\n") + "\n\n" != stored:
                yield part.name


def continued(beginning: Sequence[Message], more: Sequence[Message]) -> list[Message]:
    """A conversation and what comes after it; an open text of the user goes on."""
    *before, last = beginning or [{"role": ""}]
    if last["role"] == "user" and more[0]["role"] == "user":
        return [*before, {**last, "content": last["content"] + more[0]["content"]}, *more[1:]]
    return [*beginning, *more]


def _held(engine: "Engine") -> "tuple[Prefix | None, Prefix | None]":
    """(what the caches hold at the end of the run, the snapshot that was taken on the way)."""
    return (engine.running.prefix(), engine.running.snapshot) if engine.running else (None, None)


def _kind(engine: "Engine", settings: Settings) -> str:
    """What must be the same for one run's state to serve another, as a hash."""
    text = json.dumps([engine.identity(), msgspec.to_builtins(settings.kv)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def describe(engine: "Engine", prefix: "Prefix", messages: Sequence[Message], settings: Settings,
             parts: Sequence[tuple[str, str]] = ()) -> "Meta":  # fmt: skip
    """What a file is to say of the state it holds."""
    from mlxctl.caches import format
    from mlxctl.engine import device

    return format.Meta(
        ids=prefix.ids,
        messages=list(messages),
        parts=[format.Part(name, len(text.rstrip("\n")) + 2) for name, text in parts],
        template=settings.template_arguments,
        template_hash=engine.template_hash(),
        ignore_chat_template=settings.prompt.ignore_chat_template,
        kv=settings.kv,
        made_with=settings.model,
        upstream_model=engine.model_path if settings.model_id.startswith("builtin:") else settings.model_id,
        identity=engine.identity(),
        created=format.now(),
        complete=bool(messages) and engine.open_turn(messages).ids == prefix.ids,
        versions=device.versions(),
    )


def write(engine: "Engine", path: Path, prefix: "Prefix", messages: Sequence[Message], settings: Settings,
          parts: Sequence[tuple[str, str]] = (), instead_of: "Meta | None" = None) -> None:  # fmt: skip
    """Write a cache file in its place. Raises ResourceError.

    instead_of: what the file must still be: another run may have written back meanwhile.
    """
    from mlxctl.caches import format

    def check() -> None:
        if instead_of is not None and format.read_meta(path) != instead_of:
            raise CacheError(f"{path}: another run has written to it meanwhile, and that is kept")

    meta = describe(engine, prefix, messages, settings, parts)
    named.save(path, lambda aside: format.write(aside, prefix, meta), check)
