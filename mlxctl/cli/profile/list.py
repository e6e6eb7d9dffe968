"""`mlxctl profile list`."""

from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import shorten

import click

from mlxctl import paths, profiles
from mlxctl.cli.app import App
from mlxctl.output.json import encode


@dataclass(frozen=True)
class Row:
    """A profile in reach. model: None where none is set, or the profile is wrong. shadowed_by: what its name means."""

    name: str
    description: str
    model: str | None
    path: str
    shadowed_by: str | None
    faults: int


@click.command()
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="A table, or JSON")
@click.pass_obj
def command(app: App, form: str) -> None:
    """List the profiles in reach, the nearest folder first; a name that stands twice means the first."""
    rows = _rows()
    if form == "json":
        app.stdout.write(encode([asdict(row) for row in rows]) + "\n")
        return
    from mlxctl.cli.table import table

    app.stdout.write(table(app, ("NAME", "MODEL", "DESCRIPTION", "FROM"), [_cells(row) for row in rows]))


def _rows() -> list[Row]:
    first: dict[str, Path] = {}
    rows = []
    for path in profiles.everywhere():
        nearest = first.setdefault(path.stem, path)
        rows.append(_row(path, None if nearest == path else nearest))
    return rows


def _row(path: Path, nearest: Path | None) -> Row:
    report = profiles.check(path)
    model = next((p.values["model.path"].value for p in report.profile if "model.path" in p.values), None)
    by = str(nearest) if nearest is not None else None
    return Row(path.stem, report.profile[0].description, model, str(path), by, len(report.faults))


def _cells(row: Row) -> tuple[str, ...]:
    where = _where(Path(row.path))
    if row.shadowed_by is not None:
        where += f" (shadowed by {_where(Path(row.shadowed_by))})"
    wrong = f"({row.faults} fault{'s' if row.faults != 1 else ''}, told by `mlxctl profile validate`)"
    description = " ".join(row.description.split())
    return row.name, row.model or "-", wrong if row.faults else shorten(description, 200), where


def _where(path: Path) -> str:
    return "(shipped)" if profiles.is_shipped(path) else paths.short(path)
