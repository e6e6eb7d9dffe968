"""`mlxctl cache save`."""

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlxctl import options, paths, texts
from mlxctl.caches import format, identity, named
from mlxctl.caches.meta import as_parts, describe
from mlxctl.cli import inputs
from mlxctl.cli.app import App
from mlxctl.cli.display import PrefillBar
from mlxctl.cli.inputs import Parts
from mlxctl.cli.options import TableCommand, parameters, profile_option, unset_option
from mlxctl.cli.run import settle
from mlxctl.cli.signals import Interrupted, Signals
from mlxctl.cli.streams import divert_prints
from mlxctl.errors import CacheError, ExitStatus, UsageError
from mlxctl.events import Message, Progress
from mlxctl.history.log import Log
from mlxctl.profiles import Resolved

if TYPE_CHECKING:
    from mlxctl.engine.engine import Engine
    from mlxctl.engine.kv import Prefix

_SECTIONS = ("model", "prompt", "kv")
_LEFT_OUT = {"prompt.prefill_response", "prompt.template"}
_OTHERS = {"generation.prefill_step_size", "request.recursive", "request.prompt", "request.messages",
           "request.chat_template_config", "request.think", "request.escapes", "request.allow_special",
           "request.offline", "request.no_log", "output.log_text"}  # fmt: skip
_ROWS = [row for row in options.options()
         if (row.section in _SECTIONS and row.key not in _LEFT_OUT) or row.key in _OTHERS]  # fmt: skip


@click.command(cls=TableCommand, params=[profile_option(), unset_option(), *parameters(_ROWS)])
@click.argument("name", metavar="CACHE")
@click.argument("words", nargs=-1, metavar="[TEXT]...")
@click.pass_obj
def command(app: App, /, name: str, words: tuple[str, ...], **params: Any) -> int:
    """Process a system prompt, files, stdin and text, and keep the result as CACHE: a name, or a path.

    The text is left open: the question of a later run follows it after a blank line. An older cache of that name is
    replaced when the new one is whole.
    """
    path = named.place(name)
    named.require_room(path)
    if path.exists() and path.parent != named.folder():
        format.require_cache(path)
    resolved = settle(app, **params)
    if resolved.settings.prompt.template is not None:
        app.say("prompt.template of the profile is not applied: a cache holds the beginning of a prompt as it is given")
    parts = inputs.gather(resolved.settings, words, app, asks=False)
    divert_prints()
    return _save(app, resolved, name, path, parts)


def _save(app: App, resolved: Resolved, name: str, path: Path, parts: Parts) -> int:
    from mlxctl.engine.engine import Engine

    settings = resolved.settings
    bar = PrefillBar(app)
    signals = Signals(lambda signal: bar.close(), bar.show_cursor)
    signals.install()
    try:
        engine = Engine.load(settings, app.say, examine=True)
        found = identity.of_engine(engine)
        asked = inputs.beginning(parts, app)
        signals.listening = True
        started = time.perf_counter()
        prefix = _prefill(engine, asked.messages, bar, signals)
    finally:
        bar.close()
    if prefix is None:
        raise Interrupted(signals.asked() or "SIGINT")
    if not prefix.ids:
        raise UsageError("there is nothing to keep: without a chat template a system prompt has no place")
    seconds = time.perf_counter() - started
    instead = ", in place of the older one" if path.exists() else ""
    meta = describe(engine, found, prefix, asked.messages, settings, as_parts(asked.pieces), len(asked.messages) - 1)
    try:
        named.write(path, prefix, meta, cancel=signals.asked)
    except CacheError as error:
        raise Interrupted(signals.asked() or "SIGINT") from error  # it waited for another writer
    size = path.stat().st_size
    called = name if path.parent == named.folder() else paths.short(path)
    count = len(prefix.ids)
    app.say(f"cache {called}: {count} tokens in {seconds:.1f} s ({count / seconds:.0f} tok/s), "
            f"{texts.size(size)}{instead}: mlxctl run --cache {name} \"…\"")  # fmt: skip
    if engine.running is not None:
        Log("cache save", app.say).keep(engine.done(engine.running), engine.running, resolved.values)
    return ExitStatus.OK


def _prefill(engine: "Engine", messages: list[Message], bar: PrefillBar, signals: Signals) -> "Prefix | None":
    prefix: Prefix | None = None

    def whole() -> Any:
        nonlocal prefix
        prefix = yield from engine.prefill(messages, cancel=signals.asked)

    with closing(whole()) as events:
        for event in events:
            if isinstance(event, Progress):
                bar.update(event.done, event.total)
    return prefix
