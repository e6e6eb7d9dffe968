"""`mlxctl stats compare`."""

import re
from dataclasses import asdict
from typing import Any

import click

from mlxctl.cli.app import App
from mlxctl.cli.stats.overview import SUMMED_UP
from mlxctl.errors import UsageError
from mlxctl.history import noise, store, summary
from mlxctl.history.noise import Difference
from mlxctl.history.record import Record
from mlxctl.history.store import Filter
from mlxctl.history.summary import MEASURES
from mlxctl.output.json import encode

_IDS = re.compile(r"[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*")
_MOST = 100  # numbers and ranges in a list


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--format", "form", type=click.Choice(["table", "json", "markdown"]), default="table", help="How it is "
              "written")  # fmt: skip
@click.pass_obj
def command(app: App, a: str, b: str, form: str) -> None:
    """Compare the runs A with the runs B.

    Each is a list of numbers (12, 12-20, 3,5,9-11), a profile's name, or a part of a model's name. The last column says
    whether the difference is more than noise: a rank test, by which chance alone shows such a one in fewer than 5 of
    100 comparisons.
    """
    sides = [_runs(a), _runs(b)]
    if both := {record.id for record in sides[0]} & {record.id for record in sides[1]}:
        raise UsageError(f"run {min(both)} is on both sides")
    found = {name: _difference(name, sides) for name in MEASURES}
    if form == "json":
        app.stdout.write(encode(_report(a, b, sides, found)) + "\n")
        return
    from mlxctl.cli.table import markdown, table

    counts = [f"{len(side)} run{'' if len(side) == 1 else 's'}" for side in sides]
    headings = ("", f"A ({counts[0]})", f"B ({counts[1]})", "CHANGE", "")
    rows = [_cells(name, difference) for name, difference in found.items()]
    app.stdout.write(markdown(headings, rows) if form == "markdown" else table(app, headings, rows))


def _runs(text: str) -> list[Record]:
    if _IDS.fullmatch(text):
        found = store.find(Filter(ids=_spans(text)))
    elif not text:
        found = []
    else:
        found = store.find(Filter(profile=text, commands=SUMMED_UP)) or store.find(
            Filter(model=text, commands=SUMMED_UP)
        )
    if not found:
        raise UsageError(f"{text!r}: no run has this number, this profile or this in its model's name",
                         hint="mlxctl stats --runs lists them")  # fmt: skip
    return found


def _spans(text: str) -> list[tuple[int, int]]:
    """The first and last of each range in a list such as "3,5,9-11"."""
    parts = [part.partition("-") for part in text.split(",")]
    if len(parts) > _MOST:
        raise UsageError(f"more than {_MOST} numbers and ranges")
    return [(int(first), int(last or first)) for first, _, last in parts]


def _difference(name: str, sides: list[list[Record]]) -> Difference | None:
    a, b = (summary.values(side, name) for side in sides)
    return noise.difference(a, b) if a and b else None


def _cells(name: str, found: Difference | None) -> tuple[str, ...]:
    heading, unit, digits = MEASURES[name]
    label = f"{heading} {unit}"
    if found is None:
        return label, "-", "-", "-", "not known on both sides"
    return label, f"{found.a:.{digits}f}", f"{found.b:.{digits}f}", found.percent, verdict(found)


def verdict(found: Difference) -> str:
    """Whether a difference is one, in words."""
    if found.p is None:
        return f"too few runs to tell: {noise.needed()} on each side"
    return f"more than noise ({found.words})" if found.is_real else f"no more than noise ({found.words})"


def _report(a: str, b: str, sides: list[list[Record]], found: dict[str, Difference | None]) -> dict[str, Any]:
    rows = {name: {**asdict(one), "more_than_noise": None if one.p is None else one.is_real} if one else None
            for name, one in found.items()}  # fmt: skip
    return {"schema": "mlxctl.compare/1", "a": {"of": a, "runs": len(sides[0])}, "b": {"of": b, "runs": len(sides[1])},
            "measures": rows}  # fmt: skip
