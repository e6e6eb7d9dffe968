"""Grammars that answers are held to: JSON schemas, regular expressions, Lark and GBNF, checked before a model loads."""

import functools
import json
import re
from contextlib import suppress
from typing import Any

from mlxctl import texts
from mlxctl.errors import UsageError, first_line
from mlxctl.paths import expand
from mlxctl.settings import Generation

KEYS = ("json_schema", "regex", "grammar")  # of [generation]; at most one of them
# Between the parts of JSON a space, or a line end and an indent: a model may not fill its answer with blanks.
_BLANKS = r" ?|\n {0,32}"
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_TYPES |= {name: name for name in _TYPES.values()}  # as JSON Schema has them
_FIELD = re.compile(r"\s*(?P<name>\w+)(?:\s+(?P<type>[a-z]+))?\s*(?::\s*(?P<text>.*?))?\s*", re.DOTALL)
_PATH = re.compile(r"[^\s,:]+")
_START = re.compile(r"\s*(?:start|root)\s*:")


def asked_for(generation: Generation) -> str | None:
    """The key of the grammar that the settings ask for. Raises UsageError for more than one."""
    found = [key for key in KEYS if getattr(generation, key) is not None]
    if len(found) > 1:
        raise UsageError(f"{found[0]} and {found[1]}: an answer can be held to one of them")
    return found[0] if found else None


def compiled(generation: Generation) -> str | None:
    """The grammar that the settings ask for, as llguidance takes it; None for none.

    Raises UsageError, which names the place of a fault.
    """
    key = asked_for(generation)
    if key is None:
        return None
    _require()
    value: str = getattr(generation, key)
    if key == "json_schema":
        return _schema(json.dumps(schema(value)))
    if key == "regex":
        return _regex(value)
    return _grammar("", value) if is_inline(value) else _grammar(f" {value}", _file(value))


def notices(generation: Generation) -> list[str]:
    """What of a grammar is not held to as it says. Raises UsageError."""
    if generation.json_schema is None or not _has_key(schema(generation.json_schema), "oneOf"):
        return []
    return ["json_schema: oneOf is held to as anyOf: an answer may be of several of its parts"]


def _has_key(value: Any, key: str) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, dict) and key in value) or any(_has_key(item, key) for item in inner)


def names_file(text: str) -> bool:
    """Whether a schema is given as the path of a file."""
    if _is_json(text) or "\n" in text:
        return False
    return text.endswith((".json", ".jsn")) or ("/" in text and _PATH.fullmatch(text) is not None)


def is_inline(text: str) -> bool:
    """Whether a grammar is given as it is, rather than the path of a file."""
    return "::=" in text or "\n" in text or _START.match(text) is not None


def schema(text: str) -> dict[str, Any] | bool:
    """The JSON schema that a text means: JSON, the path of a file with some, or fields as "name, age int".

    Raises UsageError.
    """
    if _is_json(text):
        return _json(text, "json_schema")
    if names_file(text):
        return _json(_file(text), text)
    with suppress(OSError, ValueError):
        if expand(text).is_file():
            raise UsageError(f"json_schema: {text} is a file here, and could be a field",
                             hint=f"write ./{text} for the file, or '{text} str' for the field")  # fmt: skip
    return _fields(text)


def _file(name: str) -> str:
    """The text of a file, which is read once: a pipe gives what it holds a single time."""
    about = expand(name).stat() if expand(name).exists() else None
    return _text(name, None if about is None else (about.st_ino, about.st_mtime_ns, about.st_size))


@functools.lru_cache(maxsize=8)
def _text(name: str, version: tuple[int, ...] | None) -> str:
    return texts.read_file(name)


def _is_json(text: str) -> bool:
    return text.lstrip().startswith(("{", "["))


def _require() -> None:
    try:
        import jsonschema  # noqa: F401
        import llguidance  # noqa: F401
    except ImportError:
        raise UsageError("llguidance is not installed, which holds answers to a grammar",
                         hint='pip install "mlxctl[grammar]"') from None  # fmt: skip


@functools.lru_cache(maxsize=8)
def _schema(text: str) -> str:
    from llguidance import LLMatcher

    _check(json.loads(text))
    try:
        grammar = LLMatcher.grammar_from_json_schema(
            text, defaults={"whitespace_pattern": _BLANKS, "whitespace_flexible": True, "coerce_one_of": True}
        )
    except ValueError as error:
        raise UsageError(f"json_schema: {first_line(error)}") from None
    return _valid("json_schema", grammar)


@functools.lru_cache(maxsize=8)
def _regex(text: str) -> str:
    from llguidance import LLMatcher

    return _valid("regex", LLMatcher.grammar_from_regex(text))


@functools.lru_cache(maxsize=8)
def _grammar(name: str, text: str) -> str:
    from llguidance import grammar_from

    try:
        return _valid(f"grammar{name}", grammar_from("grammar", text))
    except ValueError as error:
        raise UsageError(f"grammar{name}: {first_line(error)}") from None


def _valid(what: str, grammar: str) -> str:
    from llguidance import LLMatcher, LLTokenizer

    wrong, messages = LLMatcher.validate_grammar_with_warnings(grammar)
    if wrong:
        raise UsageError(f"{what}: {_reason(messages[0])}")
    matcher = LLMatcher(LLTokenizer("byte"), grammar, log_level=0)
    if not matcher.is_error():
        matcher.compute_bitmask()
    if matcher.is_error():  # it can be read, and asks for what cannot be
        reason = _reason(matcher.get_error())
        raise UsageError(f"{what}: " + ("no text is of it" if reason.startswith("NoExtension") else reason))
    return grammar


def _reason(message: str) -> str:
    """What llguidance has against a grammar: of a regular expression the last line, which has the word for it."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    last = next((line.removeprefix("error: ") for line in reversed(lines) if line.startswith("error: ")), None)
    return last or (lines[0] if lines else "it cannot be read")


def _json(text: str, where: str) -> dict[str, Any] | bool:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{where}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON: {first_line(error)}") from None
    if not isinstance(found, dict | bool):
        raise UsageError(f"{where}: a JSON schema is an object, this is a {type(found).__name__}")
    return found


def _check(found: dict[str, Any] | bool) -> None:
    """See that it is a schema, by the draft it names. Raises UsageError with the place in it."""
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(found).check_schema(found)
    except SchemaError as error:
        raise UsageError(f"json_schema: {error.json_path}: {first_line(ValueError(error.message))[:200]}") from None
    except RecursionError:
        raise UsageError("json_schema: nested too deeply") from None


def _fields(text: str) -> dict[str, Any]:
    """The schema of "name, age int, bio: what they did": an object with these fields, text where no type is named."""
    properties: dict[str, Any] = {}
    for part in re.split(r"\n" if "\n" in text.strip() else ",", text.strip()):
        found = _FIELD.fullmatch(part)
        if not found or (found["type"] or "str") not in _TYPES:
            known = "str, int, float, bool"
            raise UsageError(f"json_schema: {part.strip()[:60]!r} is no field: give NAME, or NAME and one of {known}",
                             hint="or a JSON schema, or the path of a file with one")  # fmt: skip
        described = {"description": found["text"]} if found["text"] else {}
        if found["text"] in _TYPES or found["name"] in (*properties, "true", "false", "null"):
            why = (
                f"write {found['name']} {found['text']}" if found["text"] in _TYPES else "it is named twice, or is none"
            )
            raise UsageError(f"json_schema: {part.strip()[:60]!r}: {why}")
        properties[found["name"]] = {"type": _TYPES[found["type"] or "str"], **described}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
