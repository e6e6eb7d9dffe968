"""The automatic prompt caches: a folder of files, found by the longest beginning that a prompt shares with them.

Files come and go only while the index is locked for writing: they agree with its rows, but for a run that was killed.
"""

import os
import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from mlxctl.caches import index
from mlxctl.errors import first_line
from mlxctl.paths import cache_dir, is_file

BUSY_S = 3.0  # how long to wait for another process
ABANDONED_S = 3600.0  # who began to write a file so long ago was killed
_OURS = re.compile(r"(\.?)([0-9a-f]{32})(\.[0-9a-f]+)?\.safetensors")
T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """One cache of the store; size in bytes, created and used in POSIX seconds."""

    path: Path
    kind: str
    tokens: int
    size: int
    created: float
    used: float


def folder() -> Path:
    """Where the person's automatic caches lie."""
    return cache_dir() / "auto"


def opened(max_bytes: int = 0, *, say: Callable[[str], None] = lambda line: None) -> "AutoStore":
    """The person's own store; `max_bytes` matters where something is put in."""
    return AutoStore(folder(), max_bytes, say=say)


class AutoStore:
    """Caches by their tokens, at most `max_bytes` of them; `say` gets a line when the store cannot be used."""

    def __init__(
        self, folder: Path, max_bytes: int, *, say: Callable[[str], None] = lambda line: None,
        now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._folder = folder
        self._index = folder / "index.db"
        self._max_bytes = max_bytes
        self._say = say
        self._now = now

    def best(self, kind: str, ids: Sequence[int]) -> Path | None:
        """The file whose tokens share the longest beginning with `ids`, or None when none shares at least MINIMUM."""
        key = index.Key(kind, ids)
        match = self._run(lambda db: index.best(db, key), None, begin="BEGIN")
        if match and not is_file(self._file(match.row.name)):
            match = self._run(lambda db: self._present(db, index.best, key), None)
        return self._file(match.row.name) if match else None

    def put(self, kind: str, ids: Sequence[int], write: Callable[[Path], None], *, whole: bool = False) -> bool:
        """Keep a cache of these tokens: `write` makes the file at the path it is given. False when it is not kept.

        It need not be when another entry holds as much, which then was used now. A `whole` cache cannot be trimmed: it
        serves only prompts that begin with all its tokens. What `write` raises passes; the store's own trouble is said.
        """
        key = index.Key(kind, ids, whole)
        temporary = self._folder / f".{key.name.hex()}.{secrets.token_hex(4)}.safetensors"
        try:
            begin = partial(self._begin, key=key, file=temporary)
            if key.tokens < index.MINIMUM or not self._run(begin, False, create=True):
                return False
            write(temporary)
            with self._noting():
                return self._keep(key, temporary)
            return False
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def touch(self, path: Path) -> None:
        """It was used now."""
        self._run(lambda db: self._use(db, _named(db, path)), None)

    def drop(self, path: Path) -> None:
        """It turned out to be damaged: remove the file and what the index says of it."""
        self._run(lambda db: self._remove(db, _named(db, path)), None)

    def entries(self) -> list[Entry]:
        """All there is, the newest used first."""
        rows: list[index.Row] = self._run(lambda db: index.rows(db, "ORDER BY used DESC, id DESC"), [], begin="BEGIN")
        entries = [self._entry(row) for row in rows]
        there = [entry for entry in entries if is_file(entry.path)]
        if len(there) < len(entries):
            self._run(
                lambda db: index.delete(db, [row for row in index.rows(db) if not is_file(self._file(row.name))]), None
            )
        return there

    def _begin(self, db: sqlite3.Connection, key: index.Key, file: Path) -> bool:
        """Make the temporary file for a cache; False if that need not be written."""
        self._sweep(db)
        covered, _ = self._rival(db, key)
        if not covered:
            db.execute("INSERT INTO pending VALUES (?, ?)", (file.name, self._now()))
            file.touch(mode=0o600)
        return not covered

    def _keep(self, key: index.Key, temporary: Path) -> bool:
        """Take a file that was written into the store."""
        temporary.chmod(0o600)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        size = temporary.stat().st_size
        if size > self._max_bytes:
            self._say(f"automatic cache: {size} bytes are more than its limit of {self._max_bytes}; not kept")
            return False
        kept = self._run(partial(self._enter, key=key, temporary=temporary, size=size), False)
        if not kept and not temporary.exists():  # renamed, but its row could not be committed: a full disk
            self._file(key.name).unlink(missing_ok=True)
        return kept

    def _enter(self, db: sqlite3.Connection, key: index.Key, temporary: Path, size: int) -> bool:
        """The file and its rows in, what it replaces and what is too much out; False if it is needed no more."""
        covered, replaced = self._rival(db, key)
        if covered:
            return False
        db.execute("DELETE FROM pending WHERE temporary = ?", (temporary.name,))
        number = index.insert(db, key, size, self._now())
        index.delete(db, replaced)
        surplus = index.surplus(db, self._max_bytes, keep=number)
        index.delete(db, surplus)
        temporary.replace(self._file(key.name))  # after everything that may find the index damaged
        for row in replaced + surplus:
            self._file(row.name).unlink(missing_ok=True)
        return True

    def _rival(self, db: sqlite3.Connection, key: index.Key) -> tuple[bool, list[index.Row]]:
        """Whether another entry holds all of these tokens, which then was used now; and the one they would replace."""
        match = self._present(db, index.same if key.whole else index.nearest, key)
        if match and match.shared == key.tokens:
            self._use(db, [match.row])
            return True, []
        return False, [match.row] if match and match.shared == match.row.tokens else []

    def _present(
        self,
        db: sqlite3.Connection,
        search: Callable[[sqlite3.Connection, index.Key], index.Match | None],
        key: index.Key,
    ) -> index.Match | None:
        """What a search finds once the rows whose file is gone are out of its way."""
        while (match := search(db, key)) and not is_file(self._file(match.row.name)):
            index.delete(db, [match.row])
        return match

    def _use(self, db: sqlite3.Connection, rows: list[index.Row]) -> None:
        db.executemany("UPDATE entries SET used = ? WHERE id = ?", [(self._now(), row.id) for row in rows])

    def _remove(self, db: sqlite3.Connection, rows: list[index.Row]) -> None:
        index.delete(db, rows)
        for row in rows:
            self._file(row.name).unlink(missing_ok=True)

    def _sweep(self, db: sqlite3.Connection) -> None:
        """Remove what runs that were killed have left: a temporary file, or one that was renamed but got no row."""
        # Listing the folder would take longer than all the rest, so the index knows who began to write.
        old = (self._now() - ABANDONED_S,)
        for (name,) in db.execute("SELECT temporary FROM pending WHERE since < ?", old).fetchall():
            if ours := _OURS.fullmatch(str(name)):
                (self._folder / name).unlink(missing_ok=True)
                if not _named(db, self._folder / name):
                    self._file(bytes.fromhex(ours[2])).unlink(missing_ok=True)
        db.execute("DELETE FROM pending WHERE since < ?", old)

    def _clear(self) -> None:
        """Remove the files of an index that is gone: nothing can find them any more."""
        for file in self._folder.iterdir():
            ours = _OURS.fullmatch(file.name)
            with suppress(FileNotFoundError):
                if ours and (not ours[1] or self._now() - file.stat().st_mtime > ABANDONED_S):  # else being written
                    file.unlink()

    def _file(self, name: bytes) -> Path:
        return self._folder / f"{name.hex()}.safetensors"

    def _entry(self, row: index.Row) -> Entry:
        return Entry(self._file(row.name), row.kind, row.tokens, row.size, row.created, row.used)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Trouble of the store costs its caller a line, and never more than the cache."""
        try:
            yield
        except (sqlite3.Error, UnicodeError, OSError) as error:
            self._say(f"automatic cache: {first_line(error)}; going on without it")

    def _run(
        self, work: Callable[[sqlite3.Connection], T], otherwise: T, *, begin: str = "BEGIN IMMEDIATE",
        create: bool = False,
    ) -> T:  # fmt: skip
        """What one transaction gives; `otherwise` where there is no index, or none that can be used now."""
        with self._noting():
            if create:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._index.touch(mode=0o600)
            inode = self._inode()
            if inode is None:
                return otherwise
            try:
                return self._transaction(work, begin)
            except (sqlite3.DatabaseError, UnicodeError) as error:  # what it complains of may be undecodable
                if not index.is_damage(error, self._index):
                    raise
            self._begin_anew(inode)
            return self._transaction(work, begin)
        return otherwise

    def _transaction(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        # A connection each: it sees an index that was begun anew, and closing it takes back what was not committed.
        with closing(sqlite3.connect(self._index, timeout=BUSY_S, isolation_level=None)) as db:
            # No waiting for the disk: only a power failure can damage the index then, and it is begun anew.
            db.execute("PRAGMA synchronous = OFF")
            if index.is_new(db):
                with self._lock():
                    if index.is_new(db):
                        self._clear()
                        db.executescript(index.SCHEMA)
            db.execute(begin)
            result = work(db)
            db.execute("COMMIT")
            return result

    def _begin_anew(self, inode: int) -> None:
        """Set a damaged index aside; who makes the next one removes the files of this one."""
        with self._lock():
            if self._inode() != inode:
                return  # another process has done it
            self._index.replace(self._index.with_name("index.db.damaged"))
            for suffix in ("-wal", "-shm"):
                self._index.with_name(f"index.db{suffix}").unlink(missing_ok=True)
            self._index.touch(mode=0o600)

    def _inode(self) -> int | None:
        with suppress(FileNotFoundError):
            return self._index.stat().st_ino
        return None

    @contextmanager
    def _lock(self) -> Iterator[None]:
        from filelock import FileLock

        with FileLock(self._folder / ".index.lock", timeout=BUSY_S, mode=0o600):
            yield


def _named(db: sqlite3.Connection, path: Path) -> list[index.Row]:
    """The entry of a file, if it is one."""
    ours = _OURS.fullmatch(path.name)
    return index.rows(db, "WHERE name = ?", bytes.fromhex(ours[2])) if ours else []
