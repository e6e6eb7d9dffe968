"""`mlxctl stats`: what past runs measured."""

from collections.abc import Callable
from typing import Any

import click

from mlxctl.cli.app import App
from mlxctl.cli.lazy import LazyGroup
from mlxctl.cli.types import MOST, Since
from mlxctl.history.store import Filter

COMMANDS = {
    "show": "One run: its figures, its settings and where each came from",
    "replay": "Run one again, and see whether its tokens are the same",
    "compare": "Two sets of runs side by side, and whether they differ by more than noise",
    "plot": "Rate against context length and over time, drawn in the terminal or to a file",
    "prune": "Remove old runs",
}
FORMATS = ("table", "json", "jsonl", "csv", "markdown")


def filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say which runs are meant."""
    for option in (
        click.option("--last", type=click.IntRange(1, MOST), metavar="N", help="The newest N runs alone"),
        click.option("--since", type=Since(), help="Runs since then: 7d, 12h, 2026-05-31, 2026-05-31T14:00"),
        click.option("--profile", metavar="PROFILE", help="Runs with this profile"),
        click.option("--model", metavar="TEXT", help="Runs of models with this in their name"),
    ):
        command = option(command)
    return command


def only_alone(ctx: click.Context) -> None:
    """Refuse options of `stats` before a subcommand, which would not see them."""
    given = [name for name, value in ctx.params.items() if value not in (None, False, "table")]
    if given:
        ctx.fail(f"--{given[0]}: give it after {ctx.invoked_subcommand}, or without it")


@click.group(cls=LazyGroup, package="mlxctl.cli.stats", lines=COMMANDS, invoke_without_command=True,
             no_args_is_help=False)  # fmt: skip
@filters
@click.option("--runs", is_flag=True, help="A row a run, with its number, instead of sums")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="How it is "
              "written")  # fmt: skip
@click.option("--explain", is_flag=True, help="What the columns mean, and how the ceiling of a rate comes about")
@click.pass_context
def command(ctx: click.Context, model: str | None, profile: str | None, since: float | None, last: int | None,
            runs: bool, form: str, explain: bool) -> None:  # fmt: skip
    """Sum up past runs by model and profile: median, and in brackets what 5 and 95 % of the runs are below.

    Every run, chat turn, cache save and bench leaves a record without its words, unless --no-log or MLXCTL_NO_LOG says
    otherwise; --log-text keeps the words, too.
    """
    if ctx.invoked_subcommand is not None:
        only_alone(ctx)
        return
    from mlxctl.cli.stats import overview

    app: App = ctx.obj
    if explain:
        overview.explain(app)
        return
    wanted = Filter(model=model, profile=profile, since=since, last=last)
    (overview.show_runs if runs else overview.show_groups)(app, wanted, form)
