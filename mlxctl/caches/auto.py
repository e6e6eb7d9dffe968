"""The automatic prompt caches: a folder of files, found by the longest beginning that a prompt shares with them.

The index holds tokens as a tree: a row says which up to BLOCK tokens follow the beginning that has this hash. No
trimmable entry is the beginning of another of its kind, so one search finds all that a new one has to do with.
Files come and go only while the index is locked for writing: they agree with its rows, but for a run that was killed.
"""

import hashlib
import os
import re
import secrets
import sqlite3
import struct
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import NamedTuple, TypeVar

from mlxctl.errors import first_line
from mlxctl.paths import is_file

BLOCK = 32  # tokens a row; another number is another VERSION
MINIMUM = 32  # tokens: to share fewer is not worth reading a file
BUSY_S = 3.0  # how long to wait for another process
ABANDONED_S = 3600.0  # who began to write a file so long ago was killed
VERSION = 1
_SCHEMA = f"""
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE entries (id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, kind TEXT NOT NULL, whole INTEGER NOT NULL,
    tokens INTEGER NOT NULL, size INTEGER NOT NULL, created REAL NOT NULL, used REAL NOT NULL);
CREATE INDEX by_use ON entries (used, size);
CREATE INDEX by_length ON entries (kind, tokens) WHERE whole;
CREATE TABLE pieces (parent BLOB, piece BLOB, entry INTEGER, PRIMARY KEY (parent, piece, entry)) WITHOUT ROWID;
CREATE INDEX by_entry ON pieces (entry);
CREATE TABLE pending (temporary TEXT NOT NULL, since REAL NOT NULL);
PRAGMA user_version = {VERSION};
COMMIT;
"""
_BESIDE = (
    "SELECT CAST(piece AS BLOB), entry FROM pieces WHERE parent = ? AND piece <= ? ORDER BY piece DESC LIMIT 1",
    "SELECT CAST(piece AS BLOB), entry FROM pieces WHERE parent = ? AND piece >= ? ORDER BY piece LIMIT 1",
)
_OURS = re.compile(r"(\.?)([0-9a-f]{32})(\.[0-9a-f]+)?\.safetensors")
# What may pass, or is no fault of the index; all else that SQLite reports means that it is damaged or not ours.
_NOT_NOW = {
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_AUTH,
}  # fmt: skip
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


class _Row(NamedTuple):
    """A row of the table `entries`."""

    id: int
    name: bytes
    kind: str
    whole: int
    tokens: int
    size: int
    created: float
    used: float


class _Match(NamedTuple):
    """An entry, and how many tokens of its beginning are those looked for."""

    row: _Row
    shared: int


class _Key:
    """Tokens to find or to keep, and what the index calls them."""

    def __init__(self, kind: str, ids: Sequence[int], whole: bool = False) -> None:
        self.kind = kind
        self.whole = whole
        self.tokens = len(ids)
        self.data = struct.pack(f"<{len(ids)}I", *ids)

    @property
    def name(self) -> bytes:
        """What a file of these tokens is called."""
        hasher = self._hasher(self.whole)
        hasher.update(self.data)
        return hasher.digest()

    def pieces(self) -> list[tuple[bytes, bytes]]:
        """Each block of the tokens, the last one as short as it is, after the hash of all before it."""
        hasher, pieces = self._hasher(False), []
        for start in range(0, len(self.data), BLOCK * 4):
            piece = self.data[start : start + BLOCK * 4]
            pieces.append((hasher.digest(), piece))
            hasher.update(piece)
        return pieces

    def whole_names(self, lengths: Iterable[int]) -> list[bytes]:
        """The names of whole entries that are beginnings of these tokens, lengths ascending."""
        hasher, names, done = self._hasher(True), [], 0
        for length in lengths:
            hasher.update(self.data[done * 4 : length * 4])
            names.append(hasher.digest())
            done = length
        return names

    def _hasher(self, whole: bool) -> "hashlib.blake2b":
        kind = hashlib.blake2b(self.kind.encode(errors="surrogatepass")).digest()
        return hashlib.blake2b(digest_size=16, key=kind, person=b"whole" if whole else b"")


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
        key = _Key(kind, ids)
        match = self._run(lambda db: _best(db, key), None, begin="BEGIN")
        if match and not is_file(self._file(match.row.name)):
            match = self._run(lambda db: self._present(db, _best, key), None)
        return self._file(match.row.name) if match else None

    def put(self, kind: str, ids: Sequence[int], write: Callable[[Path], None], *, whole: bool = False) -> bool:
        """Keep a cache of these tokens: `write` makes the file at the path it is given. False when it is not kept.

        It need not be when another entry holds as much, which then was used now. A `whole` cache cannot be trimmed: it
        serves only prompts that begin with all its tokens. What `write` raises passes; the store's own trouble is said.
        """
        key = _Key(kind, ids, whole)
        temporary = self._folder / f".{key.name.hex()}.{secrets.token_hex(4)}.safetensors"
        try:
            begin = partial(self._begin, key=key, file=temporary)
            if key.tokens < MINIMUM or not self._run(begin, False, create=True):
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
        rows: list[_Row] = self._run(lambda db: _rows(db, "ORDER BY used DESC, id DESC"), [], begin="BEGIN")
        entries = [self._entry(row) for row in rows]
        there = [entry for entry in entries if is_file(entry.path)]
        if len(there) < len(entries):
            self._run(lambda db: _delete(db, [row for row in _rows(db) if not is_file(self._file(row.name))]), None)
        return there

    def prune(self, max_bytes: int | None = None, older_than_s: float | None = None) -> list[Entry]:
        """Remove what was not used for so long, and the least recently used until the rest is small enough.

        With neither given, down to the store's own limit. Returns what went, the least recently used first.
        """
        limit = inf if max_bytes is None else max_bytes
        if max_bytes is None and older_than_s is None:
            limit = self._max_bytes
        until = -inf if older_than_s is None else self._now() - older_than_s

        def remove(db: sqlite3.Connection) -> list[Entry]:
            rows = _surplus(db, limit, until=until)
            self._remove(db, rows)
            return [self._entry(row) for row in rows]

        return self._run(remove, [])

    def _begin(self, db: sqlite3.Connection, key: _Key, file: Path) -> bool:
        """Make the temporary file for a cache; False if that need not be written."""
        self._sweep(db)
        covered, _ = self._rival(db, key)
        if not covered:
            db.execute("INSERT INTO pending VALUES (?, ?)", (file.name, self._now()))
            file.touch(mode=0o600)
        return not covered

    def _keep(self, key: _Key, temporary: Path) -> bool:
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

    def _enter(self, db: sqlite3.Connection, key: _Key, temporary: Path, size: int) -> bool:
        """The file and its rows in, what it replaces and what is too much out; False if it is needed no more."""
        covered, replaced = self._rival(db, key)
        if covered:
            return False
        db.execute("DELETE FROM pending WHERE temporary = ?", (temporary.name,))
        number = _insert(db, key, size, self._now())
        _delete(db, replaced)
        surplus = _surplus(db, self._max_bytes, keep=number)
        _delete(db, surplus)
        temporary.replace(self._file(key.name))  # after everything that may find the index damaged
        for row in replaced + surplus:
            self._file(row.name).unlink(missing_ok=True)
        return True

    def _rival(self, db: sqlite3.Connection, key: _Key) -> tuple[bool, list[_Row]]:
        """Whether another entry holds all of these tokens, which then was used now; and the one they would replace."""
        match = self._present(db, _same if key.whole else _nearest, key)
        if match and match.shared == key.tokens:
            self._use(db, [match.row])
            return True, []
        return False, [match.row] if match and match.shared == match.row.tokens else []

    def _present(
        self, db: sqlite3.Connection, search: Callable[[sqlite3.Connection, _Key], _Match | None], key: _Key
    ) -> _Match | None:
        """What a search finds once the rows whose file is gone are out of its way."""
        while (match := search(db, key)) and not is_file(self._file(match.row.name)):
            _delete(db, [match.row])
        return match

    def _use(self, db: sqlite3.Connection, rows: list[_Row]) -> None:
        db.executemany("UPDATE entries SET used = ? WHERE id = ?", [(self._now(), row.id) for row in rows])

    def _remove(self, db: sqlite3.Connection, rows: list[_Row]) -> None:
        _delete(db, rows)
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

    def _entry(self, row: _Row) -> Entry:
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
                if not _is_damage(error):
                    raise
            self._begin_anew(inode)
            return self._transaction(work, begin)
        return otherwise

    def _transaction(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        # A connection each: it sees an index that was begun anew, and closing it takes back what was not committed.
        with closing(sqlite3.connect(self._index, timeout=BUSY_S, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = NORMAL")
            if _is_new(db):
                with self._lock():
                    if _is_new(db):
                        self._clear()
                        db.executescript(_SCHEMA)
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


def _best(db: sqlite3.Connection, key: _Key) -> _Match | None:
    """The entry that serves these tokens best."""
    near = _nearest(db, key)
    shared = near.shared if near else 0
    whole = _longest_whole(db, key, at_least=max(shared + 1, MINIMUM))
    return whole or (near if shared >= MINIMUM else None)


def _nearest(db: sqlite3.Connection, key: _Key) -> _Match | None:
    """The trimmable entry that shares the longest beginning, to the token."""
    pieces = key.pieces()
    # An entry has rows for all its blocks, so where one is known all before it are.
    known = bisect_left(pieces, True, key=lambda piece: _holder(db, *piece) is None)
    if known < len(pieces):
        parent, rest = pieces[known]
        # The piece that shares most with this one is beside it in order.
        beside = [row for query in _BESIDE for row in db.execute(query, (parent, rest))]
        shared, number = max(((_common(rest, piece), number) for piece, number in beside), default=(0, None))
        if shared:
            return _Match(_row(db, number), known * BLOCK + shared)
    if not known:
        return None
    return _Match(_row(db, _holder(db, *pieces[known - 1])), min(known * BLOCK, key.tokens))


def _holder(db: sqlite3.Connection, parent: bytes, piece: bytes) -> int | None:
    """An entry that has this block."""
    found = db.execute("SELECT entry FROM pieces WHERE parent = ? AND piece = ? LIMIT 1", (parent, piece)).fetchone()
    return found[0] if found else None


def _common(one: bytes, other: bytes) -> int:
    """How many tokens of their beginnings are the same."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))) // 4


def _longest_whole(db: sqlite3.Connection, key: _Key, at_least: int) -> _Match | None:
    """The longest whole entry that is a beginning of these tokens."""
    query = "SELECT DISTINCT tokens FROM entries WHERE whole AND kind = ? AND tokens BETWEEN ? AND ? ORDER BY tokens"
    lengths = [length for (length,) in db.execute(query, (key.kind, at_least, key.tokens))]
    for name in reversed(key.whole_names(lengths)):
        for row in _rows(db, "WHERE name = ?", name):
            return _Match(row, row.tokens)
    return None


def _same(db: sqlite3.Connection, key: _Key) -> _Match | None:
    """The entry of exactly these tokens."""
    return next((_Match(row, key.tokens) for row in _rows(db, "WHERE name = ?", key.name)), None)


def _named(db: sqlite3.Connection, path: Path) -> list[_Row]:
    """The entry of a file, if it is one."""
    ours = _OURS.fullmatch(path.name)
    return _rows(db, "WHERE name = ?", bytes.fromhex(ours[2])) if ours else []


def _surplus(db: sqlite3.Connection, limit: float, *, until: float = -inf, keep: int | None = None) -> list[_Row]:
    """The least recently used, as far as they were not used since or the sum of sizes is above the limit."""
    (total,) = db.execute("SELECT total(size) FROM entries").fetchone()
    surplus = []
    for row in _each(db, "ORDER BY used, size"):
        if row.used > until and total <= limit:
            break
        if row.id != keep:
            surplus.append(row)
            total -= row.size
    return surplus


def _insert(db: sqlite3.Connection, key: _Key, size: int, now: float) -> int | None:
    """The rows of a new entry; its number."""
    values = (key.name, key.kind, int(key.whole), key.tokens, size, now, now)
    number = db.execute("INSERT INTO entries VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", values).lastrowid
    if not key.whole:
        db.executemany("INSERT INTO pieces VALUES (?, ?, ?)", [(*piece, number) for piece in key.pieces()])
    return number


def _delete(db: sqlite3.Connection, rows: list[_Row]) -> None:
    db.executemany("DELETE FROM pieces WHERE entry = ?", [(row.id,) for row in rows])
    db.executemany("DELETE FROM entries WHERE id = ?", [(row.id,) for row in rows])


def _row(db: sqlite3.Connection, number: int | None) -> _Row:
    for row in _rows(db, "WHERE id = ?", number):
        return row
    raise sqlite3.DatabaseError("the index lacks a row")


def _rows(db: sqlite3.Connection, which: str = "", *values: object) -> list[_Row]:
    return list(_each(db, which, *values))


def _each(db: sqlite3.Connection, which: str, *values: object) -> Iterator[_Row]:
    """Entries; DatabaseError for one that we cannot have written."""
    for row in db.execute(f"SELECT * FROM entries {which}", values):  # noqa: S608 constants of this file
        if tuple(map(type, row)) != (int, bytes, str, int, int, int, float, float):
            raise sqlite3.DatabaseError("the index holds a damaged row")
        yield _Row(*row)


def _is_new(db: sqlite3.Connection) -> bool:
    """Whether an index is still empty; DatabaseError if it is of another version, or not ours."""
    query = "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
    version, tables = db.execute(query).fetchone()  # in one statement: another process may be making it
    if version == 0 and tables == 0:
        return True
    if version != VERSION:
        raise sqlite3.DatabaseError(f"the index is of version {version}")
    return False


def _is_damage(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF not in _NOT_NOW
