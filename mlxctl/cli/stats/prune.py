"""`mlxctl stats prune`."""

import time

import click

from mlxctl.cli.app import App
from mlxctl.cli.types import MOST, Age
from mlxctl.errors import UsageError
from mlxctl.history import store


@click.command()
@click.option("--older-than", type=Age(), help="Remove runs older than this, such as 90d")
@click.option("--keep", type=click.IntRange(0, MOST), metavar="N", help="Keep the newest N runs; 0 keeps none")
@click.pass_obj
def command(app: App, older_than: int | None, keep: int | None) -> None:
    """Remove runs from the history, for good. What either option says goes."""
    if older_than is None and keep is None:
        raise UsageError("what shall go? --older-than AGE, --keep N, or both")
    gone = store.prune(None if older_than is None else time.time() - older_than, keep)
    app.say(f"removed {gone} run{'' if gone == 1 else 's'}")
