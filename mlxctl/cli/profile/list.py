"""`mlxctl profile list`."""

from dataclasses import asdict, dataclass
from pathlib import Path

import click

from mlxctl import paths, profiles
from mlxctl.cli.app import App
from mlxctl.errors import MlxctlError
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
    profile, faults = profiles.examine(path)
    model = None
    try:
        model = profiles.resolve({}, {}, str(path)).values["model.path"].value
    except MlxctlError as error:
        faults = error.message.splitlines()
    by = str(nearest) if nearest is not None else None
    return Row(path.stem, " ".join(profile.description.split()), model, str(path), by, len(faults))


def _cells(row: Row) -> tuple[str, ...]:
    where = _where(Path(row.path))
    if row.shadowed_by is not None:
        where += f" (shadowed by {_where(Path(row.shadowed_by))})"
    wrong = f"({row.faults} fault{'s' if row.faults != 1 else ''}: mlxctl profile validate {row.path})"
    return row.name, row.model or "-", wrong if row.faults else row.description, where


def _where(path: Path) -> str:
    return "(shipped)" if path.parent == paths.shipped_dir("profiles") else paths.short(path)
