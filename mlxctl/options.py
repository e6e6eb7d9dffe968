"""The rows of the option table: what each setting is called, takes and means, derived from `settings`."""

import functools
import math
import operator
import os
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mlxctl.settings import SECTIONS, Settings


@dataclass(frozen=True)
class Option:
    """One row of the table."""

    section: str
    name: str
    type: Any
    default: Any
    flag: str
    short: str
    help: str
    metavar: str
    upstream: bool
    forbid: tuple[int, ...]
    variable: bool
    words: bool
    limits: Mapping[str, float]

    @property
    def key(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def flag_name(self) -> str:
        """The flag's first spelling: "--stats" of "--stats/--no-stats"."""
        return self.flag.split("/")[0]

    @property
    def env(self) -> str | None:
        """The variable that sets it, if one may."""
        return "MLXCTL_" + self.flag_name[2:].upper().replace("-", "_") if self.variable and self.flag else None

    @property
    def is_path(self) -> bool:
        """Whether its text names something in the file system, or may."""
        return self.metavar in ("PATH", "FOLDER", "MODEL", "CACHE")

    @property
    def in_profile(self) -> bool:
        return self.section != "request"

    @property
    def base(self) -> Any:
        """The bare type: bool, int, float, str, list, dict, or a Literal."""
        return _bare(self.type)

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values allowed, when they can be listed."""
        return typing.get_args(self.base) if typing.get_origin(self.base) is Literal else ()


def _bare(hint: Any) -> Any:
    """Strip Annotated and None from a type, and the parameters from list and dict."""
    if typing.get_origin(hint) is Annotated:
        return _bare(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return _bare(next(arg for arg in typing.get_args(hint) if arg is not type(None)))
    origin = typing.get_origin(hint)
    return origin if origin in (list, dict) else hint


def _row(section: str, field: msgspec.structs.FieldInfo) -> Option:
    meta: Meta = next(m for m in field.type.__metadata__ if isinstance(m, Meta))
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    row = (meta.extra or {})["option"]
    return Option(section, field.name, field.type, default, help=meta.description or "", **row)


@functools.cache
def options() -> tuple[Option, ...]:
    """All rows, in the order of the table."""
    return tuple(_row(name, field) for name, cls in SECTIONS.items() for field in msgspec.structs.fields(cls))


@functools.cache
def by_key() -> Mapping[str, Option]:
    return types.MappingProxyType({option.key: option for option in options()})


def describe(option: Option) -> str:
    """What the setting takes, in words: "a number from 0 to 1"."""
    if option.choices:
        return "one of " + ", ".join(str(choice) for choice in option.choices)
    if option.metavar == "SIZE":
        return "a number of bytes, as a flag also 500MB or 2.5GB"
    noun = {bool: "true or false", int: "a whole number", float: "a number", str: "text",
            list: "a list of texts", dict: "a table"}[option.base]  # fmt: skip
    return noun + _range(option)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"gt": operator.gt, "ge": operator.ge, "le": operator.le}


def _range(option: Option) -> str:
    low, above, high = (option.limits.get(name) for name in ("ge", "gt", "le"))
    start = f" from {low}" if low is not None else f" above {above}" if above is not None else ""
    text = f"{start} to {high}" if high is not None else start.replace("from", "of at least")
    return text + "".join(f", not {value}" for value in option.forbid)


def _in_range(option: Option, value: Any) -> bool:
    inside = all(_COMPARE[name](value, limit) for name, limit in option.limits.items())
    return inside and value not in option.forbid


def check(option: Option, value: Any) -> Any:
    """Return the value as its declared type, or raise ValueError("expected …, got …"). Nothing is coerced."""
    try:
        found = msgspec.convert(value, option.type)
        good = found is None or (_finite(found) and (not option.limits or _in_range(option, found)))
    except (msgspec.ValidationError, OverflowError):
        good = False
    if not good:
        raise ValueError(f"expected {describe(option)}, got {shown(value)}")
    return found


def shown(value: Any) -> str:
    """A value as Python writes it, as far as it fits a line."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of too many digits"
    return text if len(text) <= 120 else f"{text[:120]}…"


def named(name: str) -> str:
    """A name as it is, or as Python writes it where that is not one short line."""
    return name if name.isprintable() and len(name) <= 120 else shown(name)


def _finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_finite(item) for item in value.values())
    return not isinstance(value, float) or math.isfinite(value)


TRUE, FALSE = frozenset({"1", "true", "t", "yes", "on"}), frozenset({"0", "false", "f", "no", "off"})


def parse(option: Option, text: str) -> Any:
    """Turn the text of a flag or variable into a checked value; ValueError says what was expected."""
    text = as_text(option, text)
    try:
        return check(option, _read(option, text))
    except (ValueError, RecursionError, msgspec.MsgspecError):
        raise ValueError(f"expected {describe(option)}, got {shown(text)}") from None


def as_text(option: Option, text: str) -> str:
    """An argument or variable as UTF-8, whatever the locale made of its bytes; the name of a file stays as it is."""
    try:
        return text if option.is_path else os.fsencode(text).decode()
    except UnicodeDecodeError as error:
        bad = error.object[error.start]
        raise ValueError(f"not UTF-8 text (byte {error.start} is 0x{bad:02x})") from None


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def size(text: str) -> int:
    """Bytes in a text such as 500000, 500MB or 2.5G. Raises ValueError."""
    found = re.fullmatch(r"([0-9]{1,18})(\.[0-9]{1,9})? ?([kmgt]?)b?", text.lower())
    if not found:
        raise ValueError(f"expected a size such as 500MB or 2GB, got {shown(text)}")
    whole, part, unit = found.groups()
    return int(whole) * _UNITS[unit] + int(float(part or 0) * _UNITS[unit])


def upstream_bool(text: str) -> bool:
    """How mlx_lm.generate reads --verbose: true for anything but false and f."""
    return text.lower() not in ["false", "f"]


def _read(option: Option, text: str) -> Any:
    base = type(option.choices[0]) if option.choices else option.base
    if base is bool:
        if text.lower() not in TRUE | FALSE:
            raise ValueError
        return text.lower() in TRUE
    if option.metavar == "SIZE":
        return size(text)
    if base in (int, float):
        return base(text)
    if base is dict:
        return msgspec.json.decode(text)
    return _texts(text) if base is list else text


def _texts(text: str) -> list[str]:
    """A JSON list of texts, or one text: "[END]" is a likely stop string, and no JSON. ValueError for half a list."""
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError:
        if text.startswith('["'):
            raise
        return [text]


def build(values: Mapping[str, Any], **top: Any) -> Settings:
    """Make Settings from {"sampler.temp": 0.7, …}; keys under "template." are free."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, {})[name] = value
    template = sections.pop("template", {})
    made: dict[str, Any] = {name: SECTIONS[name](**fields) for name, fields in sections.items()}
    return Settings(template=template, **made, **top)
