"""`mlxctl cache rm`."""

import click

from mlxctl.caches import format, named
from mlxctl.cli.app import App


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="CACHE...")
@click.pass_obj
def command(app: App, names: tuple[str, ...]) -> None:
    """Remove caches, given by name or path."""
    found = [(name, named.find(name)) for name in names]  # all are there, or none is removed
    for _, path in found:
        if path.parent != named.folder():
            format.require_cache(path)
    for name, path in found:
        named.remove(path)
        app.say(f"cache {name}: removed")
