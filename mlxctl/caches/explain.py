"""Why a prompt is not what a cache holds."""

from collections.abc import Iterator, Sequence
from typing import Any

from mlxctl.caches import identity
from mlxctl.caches.meta import Meta, misfit
from mlxctl.errors import MlxctlError
from mlxctl.events import Message
from mlxctl.settings import Settings

_AROUND = 40  # characters shown on both sides of a difference
_END = "the text goes on at once, and the tokenizer joins its end with what follows: these tokens are computed again"


def causes(meta: Meta, messages: Sequence[Message], settings: Settings, tokenizer: Any) -> list[str]:
    """What makes the ids of a prompt differ from those of a cache, in words; one cause at least."""
    return list(_causes(meta, messages, settings, tokenizer)) or [_END]


def refused(meta: Meta, settings: Settings) -> str | None:
    """Why a run could not use the cache at all, as far as that can be told without loading the model."""
    try:
        return misfit(meta, identity.expected(settings, meta), settings)
    except MlxctlError as error:
        return error.message


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
        exactly = _part(meta, place) if number == meta.parts_of else f", character {place}"
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
