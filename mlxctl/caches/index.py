"""The index of the automatic caches: SQLite, its tables and the searches in them.

It holds tokens as a tree: a row says which up to BLOCK tokens follow the beginning that has this hash. No trimmable
entry is the beginning of another of its kind, so one search finds all that a new one has to do with.
"""

import hashlib
import os
import sqlite3
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

BLOCK = 32  # tokens a row; another number is another VERSION
MINIMUM = 32  # tokens: to share fewer is not worth reading a file
VERSION = 1
SCHEMA = f"""
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
# What may pass, or is no fault of the index; all else that SQLite reports means that it is damaged or not ours.
_NOT_NOW = {
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_AUTH,
}  # fmt: skip


class Row(NamedTuple):
    """A row of the table `entries`."""

    id: int
    name: bytes
    kind: str
    whole: int
    tokens: int
    size: int
    created: float
    used: float


class Match(NamedTuple):
    """An entry, and how many tokens of its beginning are those looked for."""

    row: Row
    shared: int


class Key:
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


def best(db: sqlite3.Connection, key: Key) -> Match | None:
    """The entry that serves these tokens best."""
    near = nearest(db, key)
    shared = near.shared if near else 0
    whole = _longest_whole(db, key, at_least=max(shared + 1, MINIMUM))
    return whole or (near if shared >= MINIMUM else None)


def nearest(db: sqlite3.Connection, key: Key) -> Match | None:
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
            return Match(_row(db, number), known * BLOCK + shared)
    if not known:
        return None
    return Match(_row(db, _holder(db, *pieces[known - 1])), min(known * BLOCK, key.tokens))


def _holder(db: sqlite3.Connection, parent: bytes, piece: bytes) -> int | None:
    """An entry that has this block."""
    found = db.execute("SELECT entry FROM pieces WHERE parent = ? AND piece = ? LIMIT 1", (parent, piece)).fetchone()
    return found[0] if found else None


def _common(one: bytes, other: bytes) -> int:
    """How many tokens of their beginnings are the same."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))) // 4


def _longest_whole(db: sqlite3.Connection, key: Key, at_least: int) -> Match | None:
    """The longest whole entry that is a beginning of these tokens."""
    query = "SELECT DISTINCT tokens FROM entries WHERE whole AND kind = ? AND tokens BETWEEN ? AND ? ORDER BY tokens"
    lengths = [length for (length,) in db.execute(query, (key.kind, at_least, key.tokens))]
    for name in reversed(key.whole_names(lengths)):
        for row in rows(db, "WHERE name = ?", name):
            return Match(row, row.tokens)
    return None


def same(db: sqlite3.Connection, key: Key) -> Match | None:
    """The entry of exactly these tokens."""
    return next((Match(row, key.tokens) for row in rows(db, "WHERE name = ?", key.name)), None)


def surplus(db: sqlite3.Connection, limit: float, *, keep: int | None = None) -> list[Row]:
    """The least recently used, as far as the sum of sizes is above the limit."""
    (total,) = db.execute("SELECT total(size) FROM entries").fetchone()
    found = []
    for row in _each(db, "ORDER BY used, size"):
        if total <= limit:
            break
        if row.id != keep:
            found.append(row)
            total -= row.size
    return found


def insert(db: sqlite3.Connection, key: Key, size: int, now: float) -> int | None:
    """The rows of a new entry; its number."""
    values = (key.name, key.kind, int(key.whole), key.tokens, size, now, now)
    number = db.execute("INSERT INTO entries VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", values).lastrowid
    if not key.whole:
        db.executemany("INSERT INTO pieces VALUES (?, ?, ?)", [(*piece, number) for piece in key.pieces()])
    return number


def delete(db: sqlite3.Connection, rows: list[Row]) -> None:
    """All that the index says of these entries goes; their files do not."""
    db.executemany("DELETE FROM pieces WHERE entry = ?", [(row.id,) for row in rows])
    db.executemany("DELETE FROM entries WHERE id = ?", [(row.id,) for row in rows])


def _row(db: sqlite3.Connection, number: int | None) -> Row:
    for row in rows(db, "WHERE id = ?", number):
        return row
    raise sqlite3.DatabaseError("the index lacks a row")


def rows(db: sqlite3.Connection, which: str = "", *values: object) -> list[Row]:
    """Entries, all or `which`, the rest of a query; DatabaseError for one that we cannot have written."""
    return list(_each(db, which, *values))


def _each(db: sqlite3.Connection, which: str, *values: object) -> Iterator[Row]:
    """Entries; DatabaseError for one that we cannot have written."""
    for row in db.execute(f"SELECT * FROM entries {which}", values):  # noqa: S608 constants of this file
        if tuple(map(type, row)) != (int, bytes, str, int, int, int, float, float):
            raise sqlite3.DatabaseError("the index holds a damaged row")
        yield Row(*row)


def is_new(db: sqlite3.Connection) -> bool:
    """Whether an index is still empty; DatabaseError if it is of another version, or not ours."""
    query = "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
    version, tables = db.execute(query).fetchone()  # in one statement: another process may be making it
    if version == 0 and tables == 0:
        return True
    if version != VERSION:
        raise sqlite3.DatabaseError(f"the index is of version {version}")
    return False


def is_damage(error: Exception, file: Path) -> bool:
    """Whether what came of using this index means that it is damaged, or not ours."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_READONLY:  # a damaged header says so too, of a file that we may write
        return os.access(file, os.W_OK) and os.access(file.parent, os.W_OK | os.X_OK)
    return code not in _NOT_NOW
