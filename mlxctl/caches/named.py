"""Prompt caches with a name, or at a path: found, locked, written whole, listed and removed."""

import fcntl
import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlxctl import paths
from mlxctl.errors import CacheError, ResourceError, UsageError, did_you_mean, nearest
from mlxctl.options import shown
from mlxctl.writing import sync

if TYPE_CHECKING:
    from mlxctl.caches.meta import Meta
    from mlxctl.engine.kv import Prefix

_NAME = re.compile(r"[^\W_][\w.+-]{0,99}")
_SUFFIX = ".safetensors"
_LONGEST = 200  # bytes, so that a temporary name of it is one too
_PATIENCE_S = 60.0  # for another writer of the same cache


def _never() -> None:
    return None


@dataclass(frozen=True)
class Entry:
    """A cache with a name. size in bytes; used: when it was last read, in POSIX seconds."""

    name: str
    path: Path
    size: int
    used: float


@dataclass(frozen=True)
class Named:
    """A cache that was given by name or path, with what it holds."""

    name: str
    path: Path
    meta: "Meta"
    prefix: "Prefix"


def folder() -> Path:
    """Where caches with a name lie."""
    return paths.cache_dir() / "prompts"


def locate(name: str) -> Path:
    """The file of a cache, given by name or path, whether it is there or not. Raises UsageError."""
    if _is_path(name):
        path = paths.absolute(name)
        return path if path.suffix == _SUFFIX else path.with_name(path.name + _SUFFIX)
    if not _NAME.fullmatch(name) or len(os.fsencode(name)) > _LONGEST:
        raise UsageError(f"cache {shown(name)}: a name is up to 100 letters, digits and . _ + -"
                         " and begins with a letter or digit")  # fmt: skip
    return folder() / f"{name}{_SUFFIX}"


def place(name: str) -> Path:
    """The file of a cache that shall be written, links followed. Raises UsageError for what is no place for one."""
    path = locate(name)
    given = paths.absolute(name) if _is_path(name) else path
    if name.endswith("/") or any(there.exists() and not there.is_file() for there in (given, path)):
        raise UsageError(f"cache {name}: this is no place for a file")
    try:
        return path.resolve() if _is_path(name) else path
    except (OSError, RuntimeError):
        raise UsageError(f"cache {name}: links lead in a circle there") from None


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith(_SUFFIX)


def find(name: str) -> Path:
    """The file of a cache that is there. Raises CacheError."""
    candidates = ([paths.absolute(name)] if _is_path(name) else []) + [locate(name)]
    for path in candidates:
        if paths.is_file(path):
            return path
    for path in candidates:
        if path.exists():
            raise CacheError(f"cache {name}: {path} is not a file")
    near = did_you_mean(nearest(name, [entry.name for entry in entries()]))
    raise CacheError(f"cache {name}: there is none at {candidates[-1]}{near}",
                     hint="mlxctl cache list shows those with a name")  # fmt: skip


def read(name: str) -> Named:
    """A cache of ours, given by name or path, every byte checked. Raises CacheError."""
    return read_file(name, find(name))


def read_file(name: str, path: Path) -> Named:
    """The same where its file is known. name: what the person called it."""
    from mlxctl.caches import format
    from mlxctl.engine import device

    device.require_backend()
    return Named(name, path, *format.read(path))


@contextmanager
def looking(path: Path) -> Iterator[None]:
    """To look at a cache is not to use it: its last use stays what it was."""
    used = path.stat().st_atime_ns
    try:
        yield
    finally:
        touch(path, used)


def touch(path: Path, used_ns: int | None = None) -> None:
    """Note that a cache was used now, or what its last use was, for `list` and `prune`."""
    with suppress(OSError):
        os.utime(path, ns=(time.time_ns() if used_ns is None else used_ns, path.stat().st_mtime_ns))


def entries() -> list[Entry]:
    """Every cache with a name, by name."""
    found = []
    with suppress(OSError, UsageError):
        for path in sorted(folder().glob(f"[!.]*{_SUFFIX}")):
            with suppress(OSError):  # removed meanwhile
                state = path.stat()
                found.append(Entry(path.name.removesuffix(_SUFFIX), path, state.st_size, state.st_atime))
    return found


def write(path: Path, prefix: "Prefix", meta: "Meta", *, instead_of: "Meta | None" = None,
          cancel: Callable[[], str | None] = _never) -> None:  # fmt: skip
    """Write a cache file in its place. Raises ResourceError.

    instead_of: what the file must still be: another run may have written to it meanwhile, and that is kept.
    cancel: asked while another writer is waited for.
    """
    from mlxctl.caches import format

    def check() -> None:
        if instead_of is not None and format.read_meta(path) != instead_of:
            raise CacheError(f"{path}: another run has written to it meanwhile, and that is kept")

    save(path, lambda aside: format.write(aside, prefix, meta), check, cancel)


def save(path: Path, write: Callable[[Path], None], check: Callable[[], object] = _never,
         cancel: Callable[[], str | None] = _never) -> None:  # fmt: skip
    """Have a cache written and put in its place in one step. Raises ResourceError.

    write: makes the file at the path that it is given. check: may refuse, when no other writer can change anything any
    more. One writer at a time; whoever reads meanwhile has the old file.
    """
    try:
        path = path.resolve()  # a link stays a link
        aside = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.tmp{_SUFFIX}")
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(path, cancel):
            _sweep(path)
            require_room(path)  # a link may lead to a device, whose place no file shall take
            check()
            with _being_written(aside):
                _told_of(path, aside, write)
                aside.chmod(0o600)
                aside.rename(path)
                sync(path.parent)
    except RuntimeError as error:
        raise ResourceError(f"{path}: links lead in a circle") from error
    except OSError as error:
        raise ResourceError(f"{path}: {error.strerror}") from error


def _told_of(path: Path, aside: Path, write: Callable[[Path], None]) -> None:
    """Write, and tell of the file that is meant when that fails."""
    try:
        write(aside)
    except ResourceError as error:
        raise ResourceError(error.message.replace(str(aside), str(path))) from error


@contextmanager
def _being_written(aside: Path) -> Iterator[None]:
    """A temporary file that is locked as long as its writer lives: `_sweep` tells by that what is left over."""
    descriptor = os.open(aside, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)  # the library keeps the mode
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        aside.unlink(missing_ok=True)
        os.close(descriptor)


def require_room(path: Path) -> None:
    """See that a cache can be written before a long prefill. Raises ResourceError."""
    if path.exists() and not path.is_file():
        raise ResourceError(f"{path}: is not a file")
    there = next(folder for folder in path.parents if os.path.lexists(folder))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise ResourceError(f"{path}: nothing can be written in {there}")


def remove(path: Path) -> None:
    """Remove a cache. Raises ResourceError."""
    try:
        with _locked(path):
            path.unlink()
    except FileNotFoundError:
        raise CacheError(f"{path}: no such prompt cache") from None
    except OSError as error:
        raise ResourceError(f"{path}: {error.strerror}") from error


@contextmanager
def _locked(path: Path, cancel: Callable[[], str | None] = _never) -> Iterator[None]:
    """Keep other writers of this file waiting; the locks lie apart, for a lock's file cannot be removed safely."""
    from filelock import FileLock, Timeout

    locks = paths.cache_dir() / "locks"
    locks.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    lock = FileLock(locks / f"{name}.lock")
    end = time.monotonic() + _PATIENCE_S
    while not lock.is_locked:
        with suppress(Timeout):
            lock.acquire(timeout=0.2)
        if cancel() is not None:
            lock.release()
            raise CacheError("interrupted")
        if not lock.is_locked and time.monotonic() > end:
            raise ResourceError(f"{path}: somebody else has been writing it for {_PATIENCE_S:.0f} seconds")
    try:
        yield
    finally:
        lock.release()


def _sweep(path: Path) -> None:
    """Remove what killed writers left behind in the folder: nobody has it locked any more."""
    for left in path.parent.glob(f".*.tmp{_SUFFIX}"):
        with suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink(missing_ok=True)
            finally:
                os.close(descriptor)
