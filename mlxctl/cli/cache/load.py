"""`mlxctl cache load`."""

from typing import Any

import click

from mlxctl.cli import run
from mlxctl.cli.app import App
from mlxctl.cli.options import TableCommand, parameters, profile_option, unset_option

_ROWS = [row for row in run.ROWS if row.key not in ("cache.name", "request.prompt_cache_file", "request.truncate")]


@click.command(cls=TableCommand, params=[profile_option(), unset_option(), *parameters(_ROWS)])
@click.argument("name", metavar="CACHE")
@click.argument("words", nargs=-1, metavar="[PROMPT]...")
@click.pass_obj
def command(app: App, /, name: str, words: tuple[str, ...], **params: Any) -> int:
    """Answer one prompt, starting from a cache: the same as `mlxctl run --cache CACHE`."""
    return run.one_answer(app, words, None, {**params, "cache__name": name})
