"""The lines of a batch: a prompt each, or an object with messages and settings of its own."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mlxctl import options
from mlxctl.errors import UsageError, did_you_mean, first_line, nearest
from mlxctl.settings import SECTIONS, Settings

_OWN = ("id", "prompt", "messages", "template")
_SECTIONS = ("sampler", "logits", "generation")  # what may differ from answer to answer
_FIXED = ("sampler.seed", "generation.prefill_step_size")  # there is one for the whole batch


@dataclass(frozen=True)
class Line:
    """One line. id: as it was given, else the line's number. prompt, messages: one of them, or `fault` says why not."""

    number: int
    id: str | int
    prompt: str | None = None
    messages: Any = None
    values: Mapping[str, Any] = field(default_factory=dict)
    template: Mapping[str, Any] = field(default_factory=dict)
    fault: UsageError | None = None


def read(text: str) -> Iterator[Line]:
    """The lines that are not empty, in their order."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _line(number, line.removesuffix("\r"))


def over(settings: Settings, line: Line) -> Settings:
    """Settings with a line's own."""
    for key, value in line.values.items():
        section, _, name = key.partition(".")
        changed = msgspec.structs.replace(getattr(settings, section), **{name: value})
        settings = msgspec.structs.replace(settings, **{section: changed})
    return msgspec.structs.replace(settings, template={**settings.template, **line.template})


def keys() -> dict[str, str]:
    """What an object may set: by its name and in full, the key that is meant."""
    rows = [row for row in options.options() if row.section in _SECTIONS and row.key not in _FIXED]
    return {**{row.name: row.key for row in rows}, **{row.key: row.key for row in rows}}


def _line(number: int, text: str) -> Line:
    if not text.lstrip().startswith(("{", '"')):
        return Line(number, number, prompt=text)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Line(number, number, fault=UsageError(f"line {number}: not JSON: {first_line(error)}"))
    if isinstance(found, str):
        return Line(number, number, prompt=found)
    id = found.get("id", number)
    if not isinstance(id, str | int) or isinstance(id, bool):
        return Line(number, number, fault=UsageError(f"line {number}: id: expected text or a whole number"))
    try:
        return _object(number, id, found)
    except UsageError as error:
        return Line(number, id, fault=UsageError(f"line {number}: {error.message}"))


def _object(number: int, id: str | int, found: dict[str, Any]) -> Line:
    prompt, messages = found.get("prompt"), found.get("messages")
    if (prompt is None) == (messages is None):
        raise UsageError('expected "prompt" or "messages", one of them')
    if prompt is not None and not isinstance(prompt, str):
        raise UsageError("prompt: expected text")
    template = found.get("template", {})
    if not isinstance(template, dict):
        raise UsageError("template: expected an object")
    values = dict(_value(name, value) for name, value in found.items() if name not in _OWN)
    return Line(number, id, prompt, messages, values, template)


def _value(name: str, value: Any) -> tuple[str, Any]:
    known = keys()
    if name not in known:
        if name in SECTIONS or name in options.by_key() or name in ("seed", "prefill_step_size"):
            raise UsageError(f"{options.named(name)}: a line cannot set this, only the whole batch")
        raise UsageError(f"{options.named(name)}: no such key{did_you_mean(nearest(name, (*known, *_OWN)))}")
    row = options.by_key()[known[name]]
    try:
        return row.key, options.check(row, float(value) if row.base is float and type(value) is int else value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
