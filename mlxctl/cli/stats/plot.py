"""`mlxctl stats plot`."""

import click

from mlxctl import paths
from mlxctl.cli.app import App
from mlxctl.cli.stats import filters
from mlxctl.cli.stats.overview import SUMMED_UP, model_name
from mlxctl.errors import UsageError
from mlxctl.history import plots, store
from mlxctl.history.store import Filter

_COLUMNS = 100  # where no terminal says how wide it is


@click.command()
@filters
@click.option("-o", "--output", metavar="PATH", help="Draw into this .png or .svg file (needs mlxctl[plot])")
@click.pass_obj
def command(app: App, model: str | None, profile: str | None, since: float | None, last: int | None,
            output: str | None) -> None:  # fmt: skip
    """Draw the rates of past runs: against the length of the context, and over time."""
    target = None
    if output is not None:
        target = paths.absolute(output)
        plots.require_image(target)
    records = store.find(Filter(model=model, profile=profile, since=since, last=last, commands=SUMMED_UP))
    series = plots.series(records, name=model_name)
    if not series:
        raise UsageError("there is nothing to draw: no run that is meant has a rate of generation")
    if target is not None:
        plots.to_file(series, target)
        app.say(f"drawn: {paths.short(target)}")
        return
    for chart in plots.CHARTS:
        app.stdout.draw(plots.to_text(series, chart, *_size(app), coloured=app.coloured()))


def _size(app: App) -> tuple[int, int]:
    """Columns and rows of one chart."""
    import shutil

    found = shutil.get_terminal_size((_COLUMNS, 24))
    return (max(found.columns, 40), max(min(found.lines - 2, 22), 12)) if app.stdout.isatty() else (_COLUMNS, 22)
