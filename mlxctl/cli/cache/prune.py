"""`mlxctl cache prune`."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

from mlxctl import texts
from mlxctl.caches import auto, named
from mlxctl.cli.app import App
from mlxctl.cli.types import Age, Size
from mlxctl.errors import CacheError, UsageError


@click.command()
@click.option("--max-bytes", type=Size(), help="Keep this much, such as 2GB; the least recently used go first")
@click.option("--older-than", type=Age(), help="Remove what was not used for this long, such as 30d")
@click.pass_obj
def command(app: App, max_bytes: int | None, older_than: int | None) -> None:
    """Remove caches: those with a name, and those that --auto-cache has kept. Prints what was removed.

    What either option says goes: the newest are kept up to SIZE, and of these only what was used within AGE.
    """
    if max_bytes is None and older_than is None:
        raise UsageError("what shall go? --max-bytes SIZE, --older-than AGE, or both")
    total = removed = 0
    for used, size, path in sorted(_all(), reverse=True):
        total += size
        if (max_bytes is not None and total > max_bytes) or (
            older_than is not None and time.time() - used > older_than
        ):
            _remove(path)
            removed += size
            app.stdout.write(f"{path}\n")
    app.say(f"removed {texts.size(removed)}, kept {texts.size(total - removed)}")


def _all() -> Iterator[tuple[float, int, Path]]:
    """(last use, bytes, file) of every cache."""
    yield from ((entry.used, entry.size, entry.path) for entry in named.entries())
    yield from ((entry.used, entry.size, entry.path) for entry in auto.opened().entries())


def _remove(path: Path) -> None:
    if path.parent == auto.folder():
        auto.opened().drop(path)
        return
    with suppress(CacheError):  # somebody else was quicker
        named.remove(path)
