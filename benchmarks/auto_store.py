"""How long the store of automatic caches takes to find, keep and evict, when it is full of made-up entries.

Entries share the beginning of one of 100 system prompts; their files are small, for the index is what is measured.
Prints medians and the slowest in milliseconds.
"""

import argparse
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mlxctl.caches import auto, index

FILE = b"x" * 64
SYSTEMS = 100
NOBODY = 10**9  # the seed of tokens that no entry has


def tokens(number: int, seed: int) -> list[int]:
    """Made-up token ids."""
    drawn = random.Random(seed)  # noqa: S311 no secret
    return [drawn.randrange(150_000) for _ in range(number)]


def prompt(number: int, length: int) -> list[int]:
    """The ids of the entry of this number: a system prompt of 300 tokens and what nobody else asks."""
    return tokens(300, number % SYSTEMS) + tokens(length - 300, SYSTEMS + number)


def write(path: Path) -> None:
    path.write_bytes(FILE)


def fill(store: auto.AutoStore, folder: Path, entries: int) -> None:
    """All the entries in one transaction: one `put` each would take minutes."""
    store.put("kind", prompt(0, 500), write)  # makes the folder
    random_length = random.Random(0)  # noqa: S311 no secret

    def insert(db: sqlite3.Connection) -> None:
        for number in range(1, entries):
            key = index.Key("kind", prompt(number, random_length.randint(450, 550)))
            index.insert(db, key, len(FILE), time.time())
            (folder / f"{key.name.hex()}.safetensors").write_bytes(FILE)

    store._run(insert, None)


def milliseconds(work: Callable[[int], object], times: int) -> tuple[float, float]:
    """The median and the slowest of so many runs."""
    taken = []
    for number in range(times):
        started = time.perf_counter()
        work(number)
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken), max(taken)


def cases(folder: Path, entries: int, times: int) -> dict[str, Callable[[int], object]]:
    """What is measured, by what it is called."""
    store = auto.AutoStore(folder, len(FILE) * entries)
    fill(store, folder, entries)

    def found(ids: list[int], expected: bool) -> None:
        assert (store.best("kind", ids) is not None) == expected

    def put(number: int, length: int) -> None:
        assert store.put("kind", new[length][number], write)

    oldest = [entry.path for entry in store.entries()[-10 * times :]]  # those before them are evicted by then
    misses = {length: tokens(length, NOBODY) for length in (500, 4000)}
    new = {length: [prompt(entries * length + number, length) for number in range(times)] for length in misses}
    hits = {length: [prompt(number, 500) + tokens(length - 500, NOBODY) for number in range(200)] for length in misses}
    return {
        "open, and find in an empty store": lambda number: auto.AutoStore(folder / "none", 1).best("kind", misses[500]),
        "open, and list all": lambda number: auto.AutoStore(folder, 1).entries(),
        "best, hit, 500 tokens": lambda number: found(hits[500][number % 200], True),
        "best, hit, 4000 tokens": lambda number: found(hits[4000][number % 200], True),
        "best, miss, 500 tokens": lambda number: found(misses[500], False),
        "best, miss, 4000 tokens": lambda number: found(misses[4000], False),
        "put with eviction, 500 tokens": lambda number: put(number, 500),
        "put with eviction, 4000 tokens": lambda number: put(number, 4000),
        "put of what is there (but for the first)": lambda number: store.put("kind", misses[500], write),
        "drop": lambda number: store.drop(oldest[number]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=51)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "auto"
        measured = cases(folder, args.entries, args.times)
        print(f"| {args.entries} entries | median (ms) | slowest (ms) |\n|---|---|---|")
        for title, work in measured.items():
            median, slowest = milliseconds(work, args.times)
            print(f"| {title} | {median:.2f} | {slowest:.2f} |")
        print(f"\nThe index takes {(folder / 'index.db').stat().st_size / 1e6:.0f} MB.")


if __name__ == "__main__":
    main()
