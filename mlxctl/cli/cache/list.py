"""`mlxctl cache list`."""

import time
from dataclasses import asdict, dataclass

import click

from mlxctl import texts
from mlxctl.caches import auto, format, named
from mlxctl.caches.explain import refused
from mlxctl.caches.meta import filled_in
from mlxctl.cli.app import App
from mlxctl.cli.options import profile_option
from mlxctl.errors import MlxctlError
from mlxctl.output.json import encode
from mlxctl.profiles import Resolved, resolve


@dataclass(frozen=True)
class Row:
    """A cache. age_s: since it was made. unusable: why a run with the profile could not start from it."""

    name: str
    path: str
    size: int
    tokens: int | None
    model: str | None
    age_s: float
    unusable: str | None


@click.command(params=[profile_option()])
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="A table, or JSON")
@click.pass_obj
def command(app: App, profile: str | None, form: str) -> None:
    """List the caches with a name: tokens, size, model, age, and whether a run with the profile could use them."""
    resolved = resolve({}, app.environ, profile)
    rows = [_row(entry, resolved) for entry in named.entries()]
    if form == "json":
        app.stdout.write(encode([asdict(row) for row in rows]) + "\n")
        return
    from mlxctl.cli.table import table

    kept = auto.opened().entries()
    if kept:
        app.say(f"--auto-cache keeps {len(kept)} more, {texts.size(sum(entry.size for entry in kept))}")
    app.stdout.write(table(app, ("NAME", "TOKENS", "SIZE", "MODEL", "AGE", "USABLE"), [_cells(row) for row in rows]))


def _row(entry: named.Entry, resolved: Resolved) -> Row:
    with named.looking(entry.path):
        return _read(entry, time.time() - entry.path.stat().st_mtime, resolved)


def _read(entry: named.Entry, age: float, resolved: Resolved) -> Row:
    try:
        meta = format.read_meta(entry.path)
        if meta is None:
            reason = "written by mlx_lm.cache_prompt: only --prompt-cache-file takes it"
            return Row(entry.name, str(entry.path), entry.size, None, None, age, reason)
        tokens, model = len(meta.ids), meta.made_with.path or meta.upstream_model
        unusable = refused(meta, filled_in(resolved, meta))
        return Row(entry.name, str(entry.path), entry.size, tokens, model, age, unusable)
    except MlxctlError as error:
        return Row(entry.name, str(entry.path), entry.size, None, None, age, error.message)


def _cells(row: Row) -> tuple[str, ...]:
    tokens = "-" if row.tokens is None else str(row.tokens)
    return row.name, tokens, texts.size(row.size), row.model or "-", _age(row.age_s), row.unusable or "yes"


def _age(seconds: float) -> str:
    """In the largest unit that fits."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
