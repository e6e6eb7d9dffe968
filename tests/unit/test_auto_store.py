"""The store of automatic caches: what it finds, keeps and lets go, whatever happens to its folder."""

import json
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.caches import auto, index
from mlxctl.caches.auto import AutoStore

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # hundreds of stores wait for no disk there
MANY = 10**9  # bytes, more than any test writes
Ids = Sequence[int]


def writer(ids: Ids, padding: int = 0) -> Callable[[Path], None]:
    """Writes a file that says which tokens it is of."""

    def write(path: Path) -> None:
        path.write_text(json.dumps(list(ids)) + " " * padding)

    return write


def read(path: Path | None) -> list[int] | None:
    """The tokens of a file."""
    return None if path is None else json.loads(path.read_text())


def put(store: AutoStore, ids: Ids, kind: str = "kind", *, whole: bool = False, padding: int = 0) -> bool:
    return store.put(kind, ids, writer(ids, padding), whole=whole)


def held(store: AutoStore) -> list[list[int] | None]:
    """The tokens of all entries, the newest used first."""
    return [read(entry.path) for entry in store.entries()]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(".safetensors"))


def row(start: int, number: int) -> list[int]:
    return list(range(start, start + number))


class Clock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.time = 1e9

    def __call__(self) -> float:
        self.time += 1
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def said() -> list[str]:
    """What the store said."""
    return []


@pytest.fixture
def store(tmp_path: Path, clock: Clock, said: list[str]) -> AutoStore:
    return AutoStore(tmp_path / "auto", MANY, say=said.append, now=clock)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting for a lock that a test holds."""
    monkeypatch.setattr(auto, "BUSY_S", 0.05)


def common(one: Ids, other: Ids) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class Model:
    """What a store should hold, by trying every entry."""

    def __init__(self) -> None:
        self.entries: set[tuple[str, bool, tuple[int, ...]]] = set()

    def put(self, kind: str, ids: tuple[int, ...], whole: bool) -> bool:
        same = {entry for entry in self.entries if entry[:2] == (kind, whole)}
        if len(ids) < index.MINIMUM or any(e[2] == ids or (not whole and e[2][: len(ids)] == ids) for e in same):
            return False
        self.entries -= {entry for entry in same if not whole and ids[: len(entry[2])] == entry[2]}
        self.entries.add((kind, whole, ids))
        return True

    def best(self, kind: str, ids: tuple[int, ...]) -> int:
        """How many tokens of these a store can offer."""
        shares = [common(ids, e[2]) for e in self.entries if e[0] == kind and (not e[1] or ids[: len(e[2])] == e[2])]
        return max((share for share in shares if share >= index.MINIMUM), default=0)


tokens = st.lists(st.integers(0, 1), max_size=14).map(tuple)
kinds = st.sampled_from(["a", "b"])


@pytest.mark.parametrize("block, minimum", [(4, 1), (3, 3), (1, 2)])
@settings(max_examples=25, deadline=None)
@given(puts=st.lists(st.tuples(kinds, tokens, st.booleans()), max_size=12), asked=st.lists(tokens, max_size=12))
def test_the_longest_beginning_is_found(
    block: int, minimum: int, puts: list[tuple[str, tuple[int, ...], bool]], asked: list[tuple[int, ...]]
) -> None:
    """As a search through all entries finds it, to the token; and the store holds what that says it should."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "BLOCK", block)
        patch.setattr(index, "MINIMUM", minimum)
        store, model = AutoStore(Path(folder), MANY), Model()
        for kind, ids, whole in puts:
            assert put(store, ids, kind, whole=whole) == model.put(kind, ids, whole)
        assert sorted(zip(held(store), (entry.kind for entry in store.entries()), strict=True)) == sorted(
            (list(ids), kind) for kind, _, ids in model.entries
        )
        assert len(names(Path(folder))) == len(model.entries)
        for ids in [*asked, *(entry[1] for entry in puts)]:
            found = read(store.best("a", ids))
            assert (common(ids, found) if found is not None else 0) == model.best("a", ids)


def test_prompts_that_share_a_system_prompt(store: AutoStore) -> None:
    """With the real blocks: longer and shorter prompts find the part they share."""
    system = row(0, 300)
    assert store.best("kind", system) is None
    assert put(store, system + row(1000, 50)) and put(store, system[:100] + row(2000, 60))
    assert read(store.best("kind", system + row(3000, 9))) == system + row(1000, 50)
    assert read(store.best("kind", system[:200])) == system + row(1000, 50)
    assert read(store.best("kind", system[:100] + row(2000, 5000))) == system[:100] + row(2000, 60)
    assert store.best("kind", [*system[:31], 7]) is None and store.best("kind", row(5000, 100)) is None
    assert store.best("kind", []) is None and not put(store, row(0, 31))


def test_a_whole_entry_serves_only_what_begins_with_all_of_it(store: AutoStore) -> None:
    """It cannot be trimmed."""
    assert put(store, row(0, 50), whole=True) and put(store, row(0, 70), whole=True)
    assert not put(store, row(0, 70), whole=True)
    assert store.best("kind", row(0, 49)) is None
    assert read(store.best("kind", row(0, 50))) == row(0, 50)
    assert read(store.best("kind", row(0, 69))) == row(0, 50)
    assert read(store.best("kind", row(0, 900))) == row(0, 70)
    assert put(store, row(0, 60)) and len(store.entries()) == 3
    assert read(store.best("kind", row(0, 69))) == row(0, 60)


def test_kinds_do_not_meet(store: AutoStore) -> None:
    """The same tokens of another model are another cache."""
    assert put(store, row(0, 50), "a") and put(store, row(0, 40), "b")
    assert read(store.best("a", row(0, 50))) == row(0, 50)
    assert read(store.best("b", row(0, 50))) == row(0, 40)
    assert store.best("c", row(0, 50)) is None


def test_a_longer_entry_replaces_its_beginning(store: AutoStore, tmp_path: Path) -> None:
    """And a beginning of it is not even written, but counts as a use."""
    assert put(store, row(0, 40)) and put(store, row(0, 90)) and put(store, row(500, 40))
    assert held(store) == [row(500, 40), row(0, 90)] and len(names(tmp_path / "auto")) == 2
    for ids in (row(0, 40), row(0, 64), row(0, 90)):
        assert not store.put("kind", ids, lambda path: pytest.fail("written"))
    assert held(store) == [row(0, 90), row(500, 40)]


def test_the_least_recently_used_go_first(tmp_path: Path, clock: Clock) -> None:
    """Whatever was put first."""
    store = AutoStore(tmp_path / "auto", 4000, now=clock)
    for start in (0, 100, 200, 300):
        assert put(store, row(start, 40), padding=700)
    assert len(held(store)) == 4
    first = store.best("kind", row(0, 40))
    assert first is not None
    store.touch(first)
    assert put(store, row(400, 40), padding=2500)
    assert held(store) == [row(400, 40), row(0, 40)]
    assert sum(entry.size for entry in store.entries()) <= 4000
    assert store.best("kind", row(100, 40)) is None and len(names(tmp_path / "auto")) == 2


def test_a_put_never_evicts_itself(tmp_path: Path, clock: Clock, said: list[str]) -> None:
    """Even when the clock was set back; but what is larger than the limit is not kept."""
    store = AutoStore(tmp_path / "auto", 1000, say=said.append, now=clock)
    assert put(store, row(0, 40), padding=500)
    clock.time = 0
    assert put(store, row(100, 40), padding=500)
    assert held(store) == [row(100, 40)]
    assert not put(store, row(200, 40), padding=1000)
    assert held(store) == [row(100, 40)] and len(names(tmp_path / "auto")) == 1
    assert len(said) == 1 and "limit of 1000" in said[0]


def test_entries_tell_what_there_is(store: AutoStore, tmp_path: Path) -> None:
    """Size and times; files are for their owner alone, whatever the umask."""
    before = os.umask(0)
    try:
        assert put(store, row(0, 40), padding=60)
    finally:
        os.umask(before)
    (entry,) = store.entries()
    assert (entry.kind, entry.tokens, entry.size) == ("kind", 40, entry.path.stat().st_size)
    assert entry.created == entry.used and entry.path.parent == tmp_path / "auto"
    store.touch(entry.path)
    (again,) = store.entries()
    assert again.created == entry.created and again.used > entry.used
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "auto").iterdir()}
    assert set(modes.values()) == {0o600} and stat.S_IMODE((tmp_path / "auto").stat().st_mode) == 0o700, modes


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt])
def test_what_the_writer_raises_passes(
    store: AutoStore, tmp_path: Path, error: type[BaseException], said: list[str]
) -> None:
    """And leaves nothing behind."""

    def write(path: Path) -> None:
        assert path.parent == tmp_path / "auto" and path.name.startswith(".") and path.suffix == ".safetensors"
        path.write_text("half")
        raise error

    with pytest.raises(error):
        store.put("kind", row(0, 40), write)
    assert names(tmp_path / "auto") == [] and store.entries() == [] and said == []
    assert put(store, row(0, 40))


KILLED = """
import os, sys
from pathlib import Path
from mlxctl.caches.auto import AutoStore
rename = Path.replace
def killed(self, target):
    rename(self, target)
    os.kill(os.getpid(), 9)
def write(path):
    path.write_text("half")
    if sys.argv[2] == "write":
        os.kill(os.getpid(), 9)
Path.replace = killed
AutoStore(Path(sys.argv[1]), 10**9).put("kind", range(40), write)
"""


@pytest.mark.parametrize("moment", ["write", "rename"])
def test_what_a_killed_run_left_goes_an_hour_later(store: AutoStore, tmp_path: Path, clock: Clock, moment: str) -> None:
    """A temporary file, or one that was renamed but got no row."""
    folder = tmp_path / "auto"
    killed = subprocess.run([sys.executable, "-c", KILLED, folder, moment], check=False)
    assert killed.returncode == -signal.SIGKILL and len(names(folder)) == 1
    assert store.best("kind", row(0, 40)) is None
    clock.time = time.time() + 3000
    assert put(store, row(100, 40)) and len(names(folder)) == 2
    clock.time += 700
    assert put(store, row(200, 40)) and len(names(folder)) == 2
    assert held(store) == [row(200, 40), row(100, 40)]


def test_foreign_files_stay(store: AutoStore, tmp_path: Path) -> None:
    """Nothing but files of the store's own names is ever removed."""
    folder = tmp_path / "auto"
    assert put(store, row(0, 40))
    foreign = [folder / name for name in ("model.safetensors", ".x.safetensors", "notes.txt")]
    for path in foreign:
        path.write_text("mine")
        os.utime(path, (0, 0))
        store.drop(path)
        store.touch(path)
    (folder / "index.db").write_bytes(b"damaged" * 1000)
    assert put(store, row(100, 40)) and all(path.exists() for path in foreign)
    assert held(store) == [row(100, 40)]


def test_a_row_without_a_file_goes_when_it_is_met(store: AutoStore) -> None:
    """The next best is found; such a row keeps nothing from being put."""
    assert put(store, row(0, 40) + row(900, 40)) and put(store, row(0, 40) + row(800, 40))
    best = store.best("kind", row(0, 40) + row(900, 40))
    assert best is not None
    best.unlink()
    assert read(store.best("kind", row(0, 40) + row(900, 40))) == row(0, 40) + row(800, 40)
    assert len(store.entries()) == 1
    store.entries()[0].path.unlink()
    assert put(store, row(0, 40) + row(800, 40)) and len(store.entries()) == 1
    store.entries()[0].path.unlink()
    assert store.entries() == [] and store.best("kind", row(0, 80)) is None


def test_drop(store: AutoStore) -> None:
    """A damaged one goes, and may be put again."""
    assert put(store, row(0, 40)) and put(store, [*row(0, 35), 7])
    damaged = store.best("kind", row(0, 40))
    assert damaged is not None
    store.drop(damaged)
    assert not damaged.exists() and held(store) == [[*row(0, 35), 7]]
    assert put(store, row(0, 40))


def foreign(path: Path, version: int) -> None:
    """Another program's database."""
    for file in path.parent.glob("index.db*"):
        file.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE entries (x); INSERT INTO entries VALUES (1)")
        db.execute(f"PRAGMA user_version = {version}")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "noise": lambda path: path.write_bytes(os.urandom(9000)),
    "short": lambda path: os.truncate(path, 5000),
    "zeros": lambda path: path.write_bytes(bytes(20000)),
    "other version": lambda path: foreign(path, 7),
    "other program": lambda path: foreign(path, 0),
    "other tables": lambda path: foreign(path, index.VERSION),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("first", ["best", "put", "entries"])
def test_a_damaged_index_is_begun_anew(store: AutoStore, tmp_path: Path, said: list[str], damage: str, first: str
                                       ) -> None:  # fmt: skip
    """Set aside, with the files that nothing can find any more; no run fails."""
    folder = tmp_path / "auto"
    for start in range(0, 1000, 100):
        assert put(store, row(start, 90))
    DAMAGES[damage](folder / "index.db")
    if first == "best":
        assert store.best("kind", row(0, 90)) is None
    elif first == "entries":
        assert store.entries() == []
    assert put(store, row(0, 90)) and held(store) == [row(0, 90)]
    assert (folder / "index.db.damaged").exists() and len(names(folder)) == 1 and said == []


@pytest.mark.parametrize("ours", [True, False])
def test_an_index_that_damage_makes_read_only(
    store: AutoStore, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    """Is begun anew, unless we may not write it or its folder anyhow."""
    folder = tmp_path / "auto"
    assert put(store, row(0, 40))
    with (folder / "index.db").open("rb+") as file:
        file.seek(18)
        file.write(b"\x03")  # a format that this SQLite may read, but not write
    with monkeypatch.context() as patch:
        if not ours:  # simulated: root may write what it likes
            patch.setattr(os, "access", lambda path, mode: False)
        assert put(store, row(100, 40)) is ours
    assert (folder / "index.db.damaged").exists() is ours and len(names(folder)) == 1
    assert held(store) == [row(100 if ours else 0, 40)]
    assert said == [] if ours else len(said) == 1 and "readonly" in said[0]


def test_an_index_that_is_gone_is_made_again(store: AutoStore, tmp_path: Path) -> None:
    """With the files that it knew."""
    assert put(store, row(0, 40))
    for path in (tmp_path / "auto").glob("index.db*"):
        path.unlink()
    assert store.best("kind", row(0, 40)) is None and store.entries() == []
    assert put(store, row(100, 40)) and len(names(tmp_path / "auto")) == 1


def test_flipped_bits_in_the_index_never_fail_a_run(tmp_path: Path) -> None:
    """What is found may be wrong, for SQLite has no checksums; nothing outside of the folder is touched."""
    folder, drawn = tmp_path / "auto", random.Random(1)
    store = AutoStore(folder, 4000)
    for start in range(0, 1000, 100):
        put(store, row(start, 70) + [start % 300] * 5)
    sound = (folder / "index.db").read_bytes()
    for _ in range(40):
        data = bytearray(sound)
        for _ in range(drawn.choice([1, 8, 64])):
            data[drawn.randrange(len(data))] ^= 1 << drawn.randrange(8)
        (folder / "index.db").write_bytes(data)
        found = store.best("kind", row(500, 70))
        assert found is None or found.parent == folder
        put(store, row(drawn.randrange(3000), 90))
        store.entries()
    assert [path.name for path in tmp_path.iterdir()] == ["auto"]


@pytest.mark.usefixtures("hasty")
def test_a_locked_index_is_done_without(store: AutoStore, tmp_path: Path, said: list[str]) -> None:
    """One line each, and no cache."""
    assert put(store, row(0, 40))
    with closing(sqlite3.connect(tmp_path / "auto" / "index.db", isolation_level=None)) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")
        assert store.best("kind", row(0, 40)) is None and len(said) == 1
        assert not put(store, row(100, 40)) and len(said) == 2
        assert store.entries() == [] and len(said) == 3
    assert all("locked" in line and "\n" not in line for line in said)
    assert held(store) == [row(0, 40)]


def test_readers_do_not_wait_for_a_writer(store: AutoStore, tmp_path: Path, said: list[str]) -> None:
    """A look-up goes on while another process puts something in."""
    assert put(store, row(0, 40))
    with closing(sqlite3.connect(tmp_path / "auto" / "index.db", isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        assert read(store.best("kind", row(0, 40))) == row(0, 40) and said == []


def test_a_folder_that_cannot_be(tmp_path: Path, said: list[str]) -> None:
    """A file is in its place."""
    (tmp_path / "auto").write_text("a file")
    store = AutoStore(tmp_path / "auto", MANY, say=said.append)
    assert store.best("kind", row(0, 40)) is None and len(said) == 1
    assert not store.put("kind", row(0, 40), lambda path: pytest.fail("written")) and len(said) == 2
    assert (tmp_path / "auto").read_text() == "a file"


FULL = """
import resource, sys
from pathlib import Path
from mlxctl.caches.auto import AutoStore
store = AutoStore(Path(sys.argv[1]), 10**9, say=print)
write = lambda path: path.write_text("x") and None
store.put("kind", range(40), write)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
kept = [store.put("kind", range(start, start + 4000), write) for start in range(1, 4)]
print(kept, store.best("kind", range(40)) is not None)
"""


@pytest.mark.parametrize("limit", [0, 8192, 60_000])
def test_a_disk_that_is_full(tmp_path: Path, limit: int) -> None:
    """Files cannot grow: nothing is kept, and nothing stays but what was there."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path / "auto", str(limit)], capture_output=True, text=True, check=True
    )
    *said, last = done.stdout.splitlines()
    assert last.startswith("[False, False, False]") and 3 <= len(said) <= 4, done.stdout
    store = AutoStore(tmp_path / "auto", MANY)
    assert len(store.entries()) == len(names(tmp_path / "auto")) == 1


CROWD = """
import json, random, sys, time
from pathlib import Path
from mlxctl.caches.auto import AutoStore
seed, end = int(sys.argv[2]), time.time() + 1.5  # after the imports, which a busy machine takes seconds for
drawn, said, counts = random.Random(seed), [], [0, 0, 0]
store = AutoStore(Path(sys.argv[1]), 60_000, say=said.append)
while time.time() < end:
    ids = [drawn.choice("ab") for _ in range(drawn.randint(1, 6))]
    ids = [ord(letter) for letter in ids for _ in range(32)] + [1] * drawn.randint(0, 40)
    whole = drawn.random() < 0.3
    path = store.best("kind", ids)
    if path is not None:
        try:
            found = json.loads(path.read_text())
            assert found["ids"][:32] == ids[:32], path
            assert not found["whole"] or ids[:len(found["ids"])] == found["ids"], path
            counts[0] += 1
        except FileNotFoundError:
            counts[1] += 1  # evicted since
        if drawn.random() < 0.1:
            store.drop(path)
        else:
            store.touch(path)
    text = json.dumps({"ids": ids, "whole": whole}) + " " * 2000
    counts[2] += store.put("kind", ids, lambda path: path.write_text(text) and None, whole=whole)
    if drawn.random() < 0.05:
        for entry in store.entries()[2:]:
            store.drop(entry.path)
print(json.dumps([said, counts]))
"""


def test_many_processes_at_once(tmp_path: Path) -> None:
    """Putting, finding, dropping, evicting: what was found was right, and rows and files agree in the end."""
    folder = tmp_path / "auto"
    crowd = [
        subprocess.Popen([sys.executable, "-c", CROWD, folder, str(seed)], stdout=subprocess.PIPE) for seed in range(8)
    ]
    results = [json.loads(process.communicate()[0]) for process in crowd]
    assert [process.returncode for process in crowd] == [0] * 8
    assert [said for said, _ in results] == [[]] * 8
    found, vanished, kept = (sum(counts[n] for _, counts in results) for n in range(3))
    assert found > 20 and kept > 20 and vanished < found / 5, (found, vanished, kept)
    with closing(sqlite3.connect(folder / "index.db")) as db:
        rows = {f"{name.hex()}.safetensors" for (name,) in db.execute("SELECT name FROM entries")}
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("SELECT count(*) FROM pieces WHERE entry NOT IN (SELECT id FROM entries)").fetchone() == (0,)
    assert rows == set(names(folder)) and rows
    assert sum((folder / name).stat().st_size for name in rows) <= 60_000


def test_many_processes_begin_at_once(tmp_path: Path) -> None:
    """One of them makes the index."""
    code = (
        "import sys, time; from pathlib import Path; from mlxctl.caches.auto import AutoStore\n"
        "start = int(sys.argv[2]); time.sleep(max(0, float(sys.argv[3]) - time.time()))\n"
        "for turn in range(4):\n"
        "    store = AutoStore(Path(sys.argv[1]) / str(turn), 10**9, say=print)\n"
        "    print(store.put('kind', range(start, start + 40), lambda path: path.write_text('x') and None))"
    )
    begin = str(time.time() + 0.7)
    crowd = [
        subprocess.Popen([sys.executable, "-c", code, tmp_path, str(n), begin], stdout=subprocess.PIPE, text=True)
        for n in range(8)
    ]
    assert [process.communicate()[0].split() for process in crowd] == [["True"] * 4] * 8
    assert all(len(AutoStore(tmp_path / str(turn), MANY).entries()) == 8 for turn in range(4))
