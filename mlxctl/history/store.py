"""The history: one record a run, in SQLite."""

import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mlxctl import paths
from mlxctl.errors import HistoryError, MlxctlError, first_line
from mlxctl.history.record import Receipt, Record, Run, Tested
from mlxctl.output.json import encode

if TYPE_CHECKING:
    import sqlite3

# Each brings the schema one version on; `PRAGMA user_version` tells how many were applied.
MIGRATIONS: tuple[Sequence[str], ...] = (
    (
        "CREATE TABLE runs (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, command TEXT NOT NULL, "
        "model TEXT NOT NULL, profile TEXT, run TEXT NOT NULL, receipt TEXT NOT NULL)",
        "CREATE INDEX runs_at ON runs (at)",
    ),
)
_UTMOST = 2.0**53  # of any figure; a time in seconds is far below
_YEAR_9999 = 253_402_300_800
_COLUMNS = "id, at, command, model, profile, run, receipt"
_PATIENCE_S = 3.0  # how long other writers are waited for: nobody shall wait for long after an answer


@dataclass(frozen=True)
class Filter:
    """Which runs are meant; None for all. model: a part of its name. ids: first and last of ranges. last: so many of
    the newest."""

    model: str | None = None
    profile: str | None = None
    commands: Sequence[str] | None = None
    since: float | None = None
    ids: Sequence[tuple[int, int]] | None = None
    last: int | None = None


def place() -> Path:
    """The file. Raises UsageError where there is no home."""
    return paths.state_dir() / "history.db"


def append(command: str, model: str, run: Run, receipt: Receipt) -> int:
    """Add a run, in one transaction; return its id. Raises HistoryError, and nothing is changed."""
    with _telling(), closing(_to_write()) as db:
        row = db.execute(
            "INSERT INTO runs (at, command, model, profile, run, receipt) VALUES (?, ?, ?, ?, ?, ?)",
            (time.time(), command, _plain(model), _plain(run.profile), encode(run), encode(receipt)),
        )
        return int(row.lastrowid or 0)


def find(wanted: Filter) -> list[Record]:
    """The runs that are meant, the oldest first. Raises HistoryError."""
    where, values = _where(wanted)
    newest = f"SELECT {_COLUMNS} FROM runs{where} ORDER BY id DESC LIMIT ?"  # noqa: S608 # all of it fixed text
    order = f"SELECT * FROM ({newest}) ORDER BY id"  # noqa: S608
    with _telling(), _to_read() as db:
        if db is None:
            return []
        return [_record(row) for row in db.execute(order, [*values, -1 if wanted.last is None else wanted.last])]


def newest() -> Record | None:
    """The last run. Raises HistoryError."""
    return next(iter(find(Filter(last=1))), None)


def prune(before: float | None, keep: int | None) -> int:
    """Remove what is older than a time, and all but the newest `keep`; return how many went. Raises HistoryError."""
    if not place().exists():
        return 0
    with _telling(), closing(_to_write()) as db:
        db.execute("BEGIN IMMEDIATE")
        gone = 0
        if before is not None:
            gone += db.execute("DELETE FROM runs WHERE at < ?", (before,)).rowcount
        if keep is not None:
            rest = "SELECT id FROM runs ORDER BY id DESC LIMIT ?"
            gone += db.execute(f"DELETE FROM runs WHERE id NOT IN ({rest})", (keep,)).rowcount  # noqa: S608
        db.execute("COMMIT")
        # What was removed shall not stay in the files; an earlier time may have been kept from that.
        db.execute("VACUUM")
        busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise HistoryError(f"removed {gone} runs; another process reads the history, so what they held is still in "
                               "its file", hint="run mlxctl stats prune again when it has ended")  # fmt: skip
        return gone


def _where(wanted: Filter) -> tuple[str, list[Any]]:
    terms: list[tuple[str, list[Any]]] = []
    if wanted.model is not None:
        terms.append(("instr(lower(model), lower(?)) > 0", [wanted.model]))
    if wanted.profile is not None:
        terms.append(("profile = ?", [wanted.profile]))
    if wanted.since is not None:
        terms.append(("at >= ?", [wanted.since]))
    if wanted.commands is not None:
        terms.append((f"command IN ({', '.join('?' * len(wanted.commands))})", list(wanted.commands)))
    if wanted.ids is not None:
        spans = " OR ".join(["id BETWEEN ? AND ?"] * len(wanted.ids))
        terms.append((f"({spans})", [number for span in wanted.ids for number in span]))
    text = " AND ".join(term for term, _ in terms)
    return f" WHERE {text}" if text else "", [value for _, values in terms for value in values]


def _record(row: Sequence[Any]) -> Record:
    id, at, command, model, profile, run, receipt = row
    try:
        whole = (msgspec.json.decode(run, type=Run), msgspec.json.decode(receipt, type=Receipt))
        msgspec.convert([id, at, command, model, profile], tuple[int, float, str, str, str | None])
        msgspec.convert(whole[1].tests or [], list[Tested])
        _require_sane(at, whole[0])
        return Record(id, at, command, model, profile, *whole)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise HistoryError(f"{paths.short(place())}: run {id} is damaged ({first_line(error)})", hint=_MEND) from None


def _require_sane(at: float, run: Run) -> None:
    """Numbers that no run had would make nonsense of what is drawn from them. Raises ValueError."""
    if not at < _YEAR_9999:
        raise ValueError(f"at is {at:.3g}")
    figures = {"at": at, **{name: value for name, value in asdict(run.timing).items() if value is not None}}
    for name, value in figures.items():
        if not 0 <= value < _UTMOST:
            raise ValueError(f"{name} is {value:.3g}")


def _plain(text: str | None) -> str | None:
    """Without what UTF-8 has no place for: names of files may be any bytes."""
    return None if text is None else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# Opening

_MEND = "move it away, and the next run begins a new one; --no-log does without"


def _to_write() -> "sqlite3.Connection":
    import sqlite3

    path = place()
    if path.exists() and not path.is_file():
        raise HistoryError(f"{paths.short(path)} is no plain file")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Sqlite makes the files beside it alike. One that is there is not opened: to close it would drop sqlite's locks.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        path.chmod(0o600)
    db = sqlite3.connect(path, timeout=_PATIENCE_S, isolation_level=None)
    try:
        db.execute("PRAGMA synchronous = NORMAL")  # in WAL mode a kill loses nothing with it
        db.execute("PRAGMA secure_delete = ON")
        if _version(db) != len(MIGRATIONS):
            _migrate(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _migrate(db: "sqlite3.Connection", path: Path) -> None:
    """Bring the schema to this version; of several processes that begin at once, one does."""
    from filelock import FileLock

    with FileLock(f"{path}.lock", timeout=_PATIENCE_S, mode=0o600):
        version = _known(db)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("BEGIN IMMEDIATE")
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        db.execute("COMMIT")


def _version(db: "sqlite3.Connection") -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _known(db: "sqlite3.Connection") -> int:
    """The schema's version. Raises HistoryError for one that a later mlxctl made."""
    version = _version(db)
    if version > len(MIGRATIONS):
        raise HistoryError(f"{paths.short(place())} was made by a later mlxctl (its schema is {version})",
                           hint="install that one; --no-log does without the history")  # fmt: skip
    return version


@contextmanager
def _to_read() -> "Iterator[sqlite3.Connection | None]":
    """The database as it is, None where there is none yet."""
    path = place()
    if not path.exists():
        yield None
        return
    if not path.is_file():
        raise HistoryError(f"{paths.short(path)} is no plain file")
    with closing(_opened_to_read(path)) as db:
        version = _known(db)
    if not version:
        yield None
        return
    if version < len(MIGRATIONS):
        _to_write().close()
    with closing(_opened_to_read(path)) as db:
        yield db


def _opened_to_read(path: Path) -> "sqlite3.Connection":
    import sqlite3

    address = path.absolute().as_uri()
    db = sqlite3.connect(f"{address}?mode=ro", uri=True, timeout=_PATIENCE_S, isolation_level=None)
    try:
        _version(db)
    except sqlite3.OperationalError:
        # A folder that cannot be written to has no place for the files that readers share.
        db.close()
        if os.access(path.parent, os.W_OK):
            raise
        db = sqlite3.connect(f"{address}?immutable=1", uri=True, isolation_level=None)
    return db


@contextmanager
def _telling() -> Iterator[None]:
    """Turn what sqlite and the file system say into one line."""
    import sqlite3

    from filelock import Timeout

    try:
        yield
    except MlxctlError:
        raise
    except sqlite3.OperationalError as error:
        raise HistoryError(f"{paths.short(place())}: {first_line(error)}") from error
    except sqlite3.DatabaseError as error:
        raise HistoryError(f"{paths.short(place())} is damaged: {first_line(error)}", hint=_MEND) from error
    except Timeout:
        raise HistoryError(f"{paths.short(place())}: another process holds it") from None
    except OSError as error:
        raise HistoryError(f"{paths.short(place())}: {error.strerror}") from error
