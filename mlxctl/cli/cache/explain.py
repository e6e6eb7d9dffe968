"""`mlxctl cache explain`."""

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from mlxctl import options
from mlxctl.caches.format import Meta
from mlxctl.cli import inputs
from mlxctl.cli.app import App
from mlxctl.cli.caching import continued, filled_in, is_whole, known
from mlxctl.cli.options import TableCommand, parameters, profile_option, unset_option
from mlxctl.cli.run import settle
from mlxctl.events import Message
from mlxctl.settings import Settings

_AROUND = 40  # characters shown on both sides of a difference
_SECTIONS = ("model", "prompt")
_OTHERS = {"request.prompt", "request.messages", "request.chat_template_config", "request.think", "request.escapes",
           "request.allow_special", "request.offline"}  # fmt: skip
_ROWS = [row for row in options.options() if row.section in _SECTIONS or row.key in _OTHERS]


@click.command(cls=TableCommand, params=[profile_option(), unset_option(), *parameters(_ROWS)])
@click.argument("name", metavar="CACHE")
@click.argument("words", nargs=-1, metavar="[PROMPT]...")
@click.pass_obj
def command(app: App, /, name: str, words: tuple[str, ...], **params: Any) -> None:
    """Show where a prompt, given as to `run`, first differs from a cache, and what causes it. Loads no weights.

    As in a run from the cache, what does not bring its beginning again is taken as what comes after it.
    """
    from mlxctl.engine.loader import open_source
    from mlxctl.engine.prompt import common, render

    cache = known(name)
    resolved = settle(app, **params)
    settings = filled_in(resolved, cache.meta)
    settings = msgspec.structs.replace(settings, template=resolved.settings.template or settings.template)
    asked = inputs.finish(inputs.gather(settings, words, app), app)
    source = open_source(settings, app.say)
    messages = asked.messages if is_whole(asked, cache.meta) else continued(cache.meta.messages, asked.messages)
    ids = render(source.tokenizer, messages, settings).ids
    shared, held = common([ids, cache.meta.ids]), len(cache.meta.ids)
    app.stdout.write(f"{shared} of the {held} tokens of {name} are the beginning of this prompt of {len(ids)} tokens\n")
    if shared < held:
        decode = source.tokenizer.decode
        app.stdout.write(f"token {shared} and after it:\n  cache:  {decode(cache.meta.ids[shared:shared + 12])!r}\n"
                         f"  prompt: {decode(ids[shared:shared + 12])!r}\n")  # fmt: skip
        causes = list(_causes(cache.meta, messages, settings, source.tokenizer))
        app.stdout.write("".join(f"cause: {cause}\n" for cause in causes or [_END]))


_END = "the text goes on at once, and the tokenizer joins its end with what follows: these tokens are computed again"


def _causes(meta: Meta, messages: Sequence[Message], settings: Settings, tokenizer: Any) -> Iterator[str]:
    from mlxctl.engine.prompt import template_hash, unread_arguments

    arguments = {**meta.template, **settings.template_arguments}
    if meta.template_hash != template_hash(tokenizer):
        yield "the chat template is another than when the cache was made"
    for name in sorted(arguments.keys() - set(unread_arguments(tokenizer, arguments))):
        stored, asked = meta.template.get(name, "not set"), settings.template_arguments.get(name, "not set")
        if stored != asked:
            yield f"template argument {name}: {stored} in the cache, {asked} here"
    if meta.ignore_chat_template != settings.prompt.ignore_chat_template:
        yield "--ignore-chat-template differs"
    if (cause := _first_difference(meta, messages)) is not None:
        yield cause


def _first_difference(meta: Meta, messages: Sequence[Message]) -> str | None:
    """The first message, and the place in it, where a prompt is not what the cache holds."""
    for number, stored in enumerate(meta.messages):
        where = f"message {number + 1} ({stored['role']})"
        if number >= len(messages):
            return f"{where} is missing"
        asked = messages[number]
        if asked["role"] != stored["role"]:
            return f"{where} is one of the {asked['role']} here"
        one, other = stored["content"], asked["content"]
        last = number == len(meta.messages) - 1 and stored["role"] == "user"
        if (one == other) or (last and other.startswith(one)):
            continue
        place = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        exactly = _part(meta, place) if last else f", character {place}"
        return f"{where}{exactly}: {_around(one, place)} in the cache, {_around(other, place)} here"
    return None


def _part(meta: Meta, place: int) -> str:
    """Which file or the like a place in the open text belongs to."""
    start = 0
    for part in meta.parts:
        if place < start + part.characters:
            return f", {part.name}, character {place - start}"
        start += part.characters
    return f", character {place}"


def _around(text: str, place: int) -> str:
    return repr(text[max(place - _AROUND, 0) : place + _AROUND])
