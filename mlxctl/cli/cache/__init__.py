"""`mlxctl cache`: prompts that are processed once and used many times."""

import click

from mlxctl.cli.lazy import LazyGroup

COMMANDS = {
    "save": "Process the beginning of a prompt and keep it",
    "load": "Answer from a cache: the same as run --cache NAME",
    "list": "Caches with a name, and whether a run could use them now",
    "info": "What a cache holds and what it was made with",
    "verify": "See that a cache is as it was written, or as it would be made",
    "explain": "Where and why a prompt differs from a cache",
    "rm": "Remove caches",
    "prune": "Remove what is too much or too old",
}


@click.group(cls=LazyGroup, package="mlxctl.cli.cache", lines=COMMANDS)
def command() -> None:
    """Keep the processed beginning of a prompt in a file, and start from it.

    A cache has a name, kept in your cache directory, or is given by a path. No run writes to the cache that it
    started from, unless --cache-update says so.
    """
