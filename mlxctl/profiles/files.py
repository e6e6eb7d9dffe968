"""One profile's file: parsed, checked to the line, every value with its origin."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlxctl import options
from mlxctl.errors import ProfileError, did_you_mean, first_line, nearest
from mlxctl.options import Option
from mlxctl.profiles import places
from mlxctl.profiles.toml_lines import line_of, lines_of
from mlxctl.profiles.values import Value
from mlxctl.settings import SECTIONS

# What stands outside the tables.
TOP = {
    "extends": "A profile to build on: its name, or its path from here",
    "description": "One line for `mlxctl profile list`",
}
TABLES = [name for name in SECTIONS if name != "request"] + ["template"]
_KEYS = [option.key for option in options.options() if option.in_profile]
_LARGEST = 1 << 20  # bytes; a system prompt of this size would not fit a model
_DEEPEST = 64  # tables and lists in each other: what comes after recurses


@dataclass(frozen=True)
class Profile:
    """A parsed and checked file. values: by key, such as "sampler.temp"; keys under "template." are free.

    extends_place: where it says what it extends, "demo.toml:1".
    """

    name: str
    path: Path
    description: str = ""
    extends: str | None = None
    extends_place: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)


def examine(path: Path, text: str | None = None) -> tuple[Profile, list[str]]:
    """What is good in a file, and every fault of it as "file:line: key: what is wrong". text: what it would hold."""
    try:
        text = _decoded(path, _bytes(path) if text is None else text.encode())
        data = _parsed(path, text)
    except ProfileError as error:
        return Profile(path.stem, path), [error.message]
    lines = lines_of(text)
    faults: list[tuple[int, str]] = []
    top: dict[str, str] = {}
    values: dict[str, Value] = {}
    for where, key, value, fault in _entries(data):
        line = line_of(lines, where)
        if fault is not None:
            faults.append((line, fault))
        elif key in TOP:
            top[key] = value
        else:
            found = Value(value, "profile", f"{path}:{line}")
            outside = [f"{key}: {options.shown(name)} names no file in the profile's folder"
                       for name in places.outside(key, found, path.parent)]  # fmt: skip
            faults += [(line, fault) for fault in outside]
            values |= {} if outside else {key: places.anchor(key, found, path.parent)}
    profile = Profile(path.stem, path, **top, extends_place=f"{path}:{line_of(lines, ('extends',))}", values=values)
    return profile, [f"{path}:{line}: {fault}" for line, fault in sorted(faults)]


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST + 1)
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}") from error


def _decoded(path: Path, data: bytes) -> str:
    if len(data) > _LARGEST:
        raise ProfileError(f"{path}: larger than {_LARGEST} bytes: this is no profile")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ProfileError(f"{path}:{line}: not UTF-8 (byte {error.start} is 0x{data[error.start]:02x})") from error


def _parsed(path: Path, text: str) -> dict[str, Any]:
    import tomli

    try:
        data = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise ProfileError(f"{path}:{error.lineno}:{error.colno}: {error.msg}") from error
    except ValueError as error:  # a number with too many digits
        raise ProfileError(f"{path}: {first_line(error)}") from error
    except RecursionError as error:
        raise ProfileError(f"{path}: nested too deeply") from error
    if _deep(data):
        raise ProfileError(f"{path}: nested too deeply")
    return data


def _deep(data: Any) -> bool:
    """Whether tables and lists lie in each other beyond what we take."""
    level = [data]
    for _ in range(_DEEPEST):
        level = [inner for item in level for inner in _inner(item) if isinstance(inner, dict | list)]
    return bool(level)


def _inner(value: Any) -> list[Any]:
    """What lies in a table or a list."""
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _unfit(value: Any) -> str | None:
    """Why a free value cannot be an argument of a template: it must be able to be JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return "a number that is not finite"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "a whole number beyond 64 bits"
    return next(filter(None, map(_unfit, _inner(value))), None)


def _entries(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str, Any, str | None]]:
    """(path in the file, key, value, fault) of everything in a parsed profile."""
    for name, table in data.items():
        if name in TOP:
            fault = None if isinstance(table, str) else f"{name}: expected text, got {options.shown(table)}"
            yield (name,), name, table, fault
        elif name not in TABLES:
            yield (name,), name, None, unknown_key(name, [*TABLES, *TOP, *_KEYS])
        elif not isinstance(table, dict):
            yield (name,), name, None, f"{name}: expected a table, got {options.shown(table)}"
        else:
            yield from _section(name, table)


def _section(name: str, table: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str, Any, str | None]]:
    for own, value in table.items():
        key, where = f"{name}.{own}", (name, own)
        option = options.by_key().get(key)
        if name == "template":
            reason = _unfit(value)
            yield where, key, value, reason and f"{options.named(key)}: {reason}"
        elif option is None:
            yield where, key, None, unknown_key(key, _KEYS)
        else:
            checked, fault = _checked(option, value)
            yield where, key, checked, fault


def _checked(option: Option, value: Any) -> tuple[Any, str | None]:
    try:
        return options.check(option, value), None
    except ValueError as error:
        return None, f"{option.key}: {error}"


def unknown_key(key: str, known: Sequence[str]) -> str:
    """Say that a key does not exist, and the nearest that does: by its own name first, wherever it stands."""
    section, _, name = key.rpartition(".")
    here = {k.rpartition(".")[2] for k in known if k.rpartition(".")[0] == section}
    anywhere = {k.rpartition(".")[2]: k for k in known}
    meant = nearest(name, here) or anywhere.get(nearest(name, anywhere, 0.75) or "")
    return f"{options.named(key)}: no such key{did_you_mean(anywhere.get(name, meant))}"
