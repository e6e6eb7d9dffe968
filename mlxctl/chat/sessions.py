"""Conversations on disk: one file each, written whole after every turn, with the cache of it beside it."""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import msgspec

from mlxctl import options, paths, rules
from mlxctl.chat.conversation import Said
from mlxctl.errors import ResourceError, UsageError, did_you_mean, nearest
from mlxctl.options import named
from mlxctl.writing import replace, sync, write_new

VERSION = 1
_KEPT = {"request.think", "request.chat_template_config"}  # of those that belong to one call
_PASSING = {"model.trust_remote_code", "prompt.files"}  # of the others: what was read is text by then
_SUFFIX = ".json"
_LONGEST = 100  # characters of a name
_LONGEST_FILE = 150  # of those of its file, so that a temporary one beside it is a name, too
_ABANDONED_S = 3600.0  # a file that is being written is not as old


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as it is kept. profile, values: what was asked for, the profile's name and flags by key.

    model: what answered, as it was asked for; fingerprint tells two of that name apart.
    """

    version: int = VERSION
    name: str
    said: list[Said]
    attached: str = ""
    dropped: int = 0
    profile: str | None = None
    values: dict[str, Any] = {}
    unset: list[str] = []
    model: str
    fingerprint: str
    automatic: bool = False


class InUse(UsageError):
    """Another chat has a session open."""


@dataclass(frozen=True)
class Entry:
    """A conversation on disk, from outside. used: when it was last written, in POSIX seconds. first: what was asked."""

    name: str
    path: Path
    used: float
    first: str


def lasts(key: str) -> bool:
    """Whether a session keeps a setting: none that lets a model run code, or that is about one call alone."""
    return key in _KEPT or (not key.startswith("request.") and key not in _PASSING)


def lasting_value(key: str, value: Any) -> Any:
    """What of a setting's value is kept: no template."""
    if key != "request.chat_template_config":
        return value
    return {name: argument for name, argument in value.items() if name not in rules.TEMPLATE_KEYWORDS}


def folder() -> Path:
    """Where conversations are kept."""
    return paths.data_dir() / "sessions"


def path_of(name: str) -> Path:
    """The file of a name, whatever characters it has. Raises UsageError."""
    try:
        plain = bool(name.strip()) and len(name) <= _LONGEST and name.isprintable() and name.encode()
    except UnicodeEncodeError:
        plain = False
    file = quote(name, safe=" ,+@()") if plain else ""
    if len(file) > _LONGEST_FILE:
        file = f"{file[:_LONGEST_FILE]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    if not plain:
        raise UsageError(f"session {named(name)}: a name is a line of up to {_LONGEST} characters")
    return folder() / ((f"%2E{file[1:]}" if file.startswith(".") else file) + _SUFFIX)


def cache_of(name: str) -> Path:
    """The file of the cache that belongs to a conversation."""
    return path_of(name).with_suffix(".safetensors")


def _lock_of(name: str) -> Path:
    path = path_of(name)
    return path.with_name(f".{path.stem}.lock")


def entries() -> list[Entry]:
    """All that are kept, the one used last first."""
    found = []
    with suppress(OSError, UsageError):
        for path in folder().glob(f"[!.]*{_SUFFIX}"):
            with suppress(OSError, UsageError, msgspec.MsgspecError, ValueError):
                if not path.is_file():
                    continue
                saved = _read(path)
                asked = next((" ".join(one.content.split()) for one in saved.said if one.role == "user"), "")
                found.append(Entry(saved.name, path, path.stat().st_mtime, asked[:40]))
    return sorted(found, key=lambda entry: (-entry.used, entry.name))


def last() -> str:
    """The name of the one that was used last. Raises UsageError where there is none."""
    found = entries()
    if not found:
        raise UsageError("--continue: no conversation is kept yet")
    return found[0].name


def exists(name: str) -> bool:
    """Whether something is kept under a name. Raises UsageError where there is what nobody keeps a session in."""
    path = path_of(name)
    if not paths.is_file(path) and os.path.lexists(path):
        raise UsageError(f"session {named(name)}: {path} is no plain file")
    return paths.is_file(path)


def read(name: str) -> Saved:
    """A conversation. Raises UsageError when there is none, or none that can be read."""
    path = path_of(name)
    if not paths.is_file(path):
        _refuse(name)
    try:
        found = _read(path)
    except OSError as error:
        raise UsageError(f"session {named(name)}: {path}: {error.strerror}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise UsageError(f"session {named(name)}: {path} is damaged, and left as it is") from None
    turns = [one.role for one in found.said]
    in_turn = len(turns) % 2 == 0 and all(
        role == ("user", "assistant")[number % 2] for number, role in enumerate(turns)
    )
    if not in_turn or not 0 <= found.dropped <= len(turns):
        raise UsageError(f"session {named(name)}: {path} is damaged, and left as it is")
    for key, value in found.values.items():
        try:
            if not lasts(key) or key == "prompt.system_file" or lasting_value(key, value) != value:
                raise ValueError
            options.check(options.by_key()[key], value)
        except (KeyError, ValueError):
            raise UsageError(
                f"session {named(name)}: {path}: {named(key)} is no setting of a session, or has no such value"
            ) from None
    if found.name != name:  # a file system to which "a" is "A"
        raise UsageError(f"session {named(name)}: it is called {named(found.name)}")
    return found


def _read(path: Path) -> Saved:
    data = path.read_bytes()
    version = msgspec.json.decode(data, type=_Version).version
    if version != VERSION:
        raise UsageError(f"{path}: format {version}, this mlxctl reads format {VERSION}")
    return msgspec.json.decode(data, type=Saved)


class _Version(msgspec.Struct):
    version: int


def write(saved: Saved) -> None:
    """Put a conversation in its file, whole or not at all. Raises ResourceError."""
    path = path_of(saved.name)
    data = msgspec.json.encode(saved)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            replace(path, data)
        except FileNotFoundError:
            write_new(path, data)
        sync(path.parent)
    except OSError as error:
        raise ResourceError(f"session {named(saved.name)}: {path}: {error.strerror}") from error


def rename(old: str, new: str) -> None:
    """Give a conversation another name; the one who does holds both (`held`). Raises ResourceError, and
    UsageError where it cannot be read."""
    saved = msgspec.structs.replace(read(old), name=new, automatic=False)
    write(saved)
    with suppress(OSError):
        if cache_of(old).exists():
            cache_of(old).rename(cache_of(new))
        path_of(old).unlink()


def remove(name: str) -> None:
    """Delete a conversation and its cache, damaged ones too. Raises UsageError where there is none, or it is open."""
    if not exists(name):
        _refuse(name)
    with held(name):
        try:
            cache_of(name).unlink(missing_ok=True)
            path_of(name).unlink()
            _lock_of(name).unlink(missing_ok=True)
        except OSError as error:
            raise ResourceError(f"session {named(name)}: {path_of(name)}: {error.strerror}") from None


def _refuse(name: str) -> NoReturn:
    near = did_you_mean(nearest(name, [entry.name for entry in entries()]))
    raise UsageError(f"session {named(name)}: there is none{near}", hint="/sessions lists them")


def _sweep(folder: Path) -> None:
    """Remove what a killed writer has left, long after."""
    for left in folder.glob(".*.tmp"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                left.unlink()


def automatic_names() -> Iterator[str]:
    """Names for a conversation that was given none: when it began."""
    base = time.strftime("%Y-%m-%d_%H.%M.%S")
    yield from (name for name in (base, *(f"{base}_{number}" for number in range(2, 1000))) if not exists(name))


@contextmanager
def held(name: str) -> Iterator[None]:
    """Keep other processes from writing to a conversation. Raises UsageError when one does already."""
    from filelock import FileLock, Timeout

    path = path_of(name)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sweep(path.parent)
        lock = FileLock(_lock_of(name), mode=0o600)
        lock.acquire(timeout=0)
    except Timeout:
        raise InUse(f"session {named(name)}: it is open in another chat") from None
    except OSError as error:
        raise ResourceError(f"session {named(name)}: {path.parent}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()  # its file stays: another may be about to lock it
