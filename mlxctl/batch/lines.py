"""The lines of a batch: a prompt each, or an object with messages and settings of its own."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mlxctl import grammars, options
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

    @property
    def digest(self) -> str:
        """Tells two lines apart, whatever their ids."""
        own = [self.prompt, self.messages, dict(self.values), dict(self.template)]
        text = json.dumps(own, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(text: str) -> Iterator[Line]:
    """The lines that are not empty, in their order; bytes that are no text are told in theirs."""
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
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


def is_id(value: Any) -> bool:
    """Whether a value may tell lines apart."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def _line(number: int, text: str) -> Line:
    try:
        text.encode()
    except UnicodeEncodeError:
        return Line(number, number, fault=UsageError(f"line {number}: not UTF-8 text"))
    if not text.lstrip().startswith("{"):
        return _bare(number, text)
    try:
        found = json.loads(text)
        json.dumps(found, ensure_ascii=False).encode()  # an escape may spell half a character
    except UnicodeEncodeError:
        return Line(number, number, fault=UsageError(f"line {number}: holds half a character (a lone surrogate)"))
    except (ValueError, RecursionError) as error:
        return Line(number, number, fault=UsageError(f"line {number}: not JSON: {first_line(error)}"))
    id = found.get("id", number)
    if not is_id(id):
        return Line(number, number, fault=UsageError(f"line {number}: id: expected text or a whole number"))
    try:
        return _object(number, id, found)
    except UsageError as error:
        return Line(number, id, fault=UsageError(f"line {number}: {error.message}"))


def _bare(number: int, text: str) -> Line:
    """A prompt as it is, or as a JSON string."""
    try:
        found = json.loads(text) if text.lstrip().startswith(('"', "[")) else text
        str(found).encode()
    except (ValueError, RecursionError):
        found = text  # it begins with a quotation, say
    if isinstance(found, list) and found and all(isinstance(one, str | dict) for one in found):
        fault = UsageError(f"line {number}: this is a JSON list: give one prompt a line, or an object")
        return Line(number, number, fault=fault)
    return Line(number, number, prompt=found if isinstance(found, str) else text)


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
    _require_inline(values)
    return Line(number, id, prompt, messages, values, template)


def _require_inline(values: Mapping[str, Any]) -> None:
    """A line is data, which names no files of this machine."""
    schema, grammar = values.get("generation.json_schema"), values.get("generation.grammar")
    if (schema is not None and grammars.names_file(schema)) or (
        grammar is not None and not grammars.is_inline(grammar)
    ):
        raise UsageError("a line gives its schema or grammar as it is, not the path of a file")


def _value(name: str, value: Any) -> tuple[str, Any]:
    known = keys()
    if name not in known:
        if name in SECTIONS or name in options.by_key() or name in ("seed", "prefill_step_size"):
            raise UsageError(f"{options.named(name)}: a line cannot set this, only the whole batch")
        raise UsageError(f"{options.named(name)}: no such key{did_you_mean(nearest(name, (*known, *_OWN)))}")
    row = options.by_key()[known[name]]
    if row.key == "generation.json_schema" and isinstance(value, dict):
        value = json.dumps(value)
    try:
        return row.key, options.check(row, float(value) if row.base is float and type(value) is int else value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
