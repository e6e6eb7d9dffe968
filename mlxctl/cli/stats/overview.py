"""The tables of `mlxctl stats`: groups of runs, or a row a run."""

import csv
import io
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from mlxctl import options, paths
from mlxctl.cli.app import App
from mlxctl.events import Timing
from mlxctl.history import bandwidth, store, summary
from mlxctl.history.record import Record
from mlxctl.history.store import Filter
from mlxctl.history.summary import MEASURES, Group, Spread
from mlxctl.output.json import encode

SUMMED_UP = ("run", "chat", "cache save")  # commands whose runs are alike enough; a bench has a table of its own
_LONG = 100  # characters of a name
_REASONS = ("stop", "length", "interrupted")


def show_groups(app: App, wanted: Filter, form: str) -> None:
    """Runs by model and profile."""
    found = summary.groups(store.find(replace(wanted, commands=SUMMED_UP)))
    rows = [group.as_dict() for group in found]
    if form in ("json", "jsonl"):
        _write_json(app, rows, "groups", form)
    elif form == "csv":
        _write_csv(app, [_flat_group(row) for row in rows], list(_flat_group(summary.NOTHING.as_dict())))
    else:
        headings = ("MODEL", "PROFILE", "RUNS", *(f"{name} {unit}" for name, unit, _ in MEASURES.values()), "CACHED",
                    "CEILING", "ENDED")  # fmt: skip
        _write_table(app, headings, [_group_cells(group) for group in found], form, what="runs")


def show_runs(app: App, wanted: Filter, form: str) -> None:
    """A row a run."""
    found = store.find(wanted)
    rows = [as_row(record) for record in found]
    if form in ("json", "jsonl"):
        _write_json(app, rows, "runs", form)
    elif form == "csv":
        _write_csv(app, [_flat_run(row) for row in rows], (*_RUN_COLUMNS, *(field.name for field in fields(Timing))))
    else:
        headings = ("ID", "WHEN", "COMMAND", "MODEL", "PROFILE", "PROMPT", "CACHED", "TOKENS", "tok/s", "ENDED")
        _write_table(app, headings, [_run_cells(record) for record in found], form, what="runs")


def explain(app: App) -> None:
    """What the columns mean."""
    from mlxctl.engine import device

    device.require_backend()
    for text in (
        "PROMPT and GENERATION are rates: of the prompt's tokens that were processed (not of those from a cache), and "
        "of the answer's after the first. FIRST TOKEN is the time from the question to it, LOAD that of loading the "
        "model. PEAK is the most memory that mlx held. CACHED is the share of prompt tokens that came from a cache. "
        "ENDED counts why answers ended. What a run cannot know is left out of the sum.",
        bandwidth.explain(device.describe()) + " CEILING is the median of the shares that runs reached of theirs.",
    ):
        app.stdout.write(textwrap.fill(text, 100) + "\n")


def as_row(record: Record) -> dict[str, Any]:
    """A run as JSON types, with its number and when it was."""
    import msgspec

    run: dict[str, Any] = msgspec.to_builtins(record.run)
    return {"id": record.id, "at": when(record, "%Y-%m-%dT%H:%M:%S%z"), "command": record.command, **run}


def when(record: Record, form: str = "%Y-%m-%d %H:%M") -> str:
    """When a run was, in local time."""
    return time.strftime(form, time.localtime(record.at))


def model_name(name: str) -> str:
    """A model as a person would write it, on one line."""
    shown = paths.short(Path(name)) if name.startswith("/") else name
    if len(shown) > _LONG:  # cut where names of models seldom differ
        shown = f"{shown[: _LONG // 2]}…{shown[-_LONG // 2 :]}"
    return options.named(shown)


def profile_name(name: str | None) -> str:
    """A profile likewise, and a dash for none."""
    return "-" if name is None else options.named(name)


def percent(part: float | None) -> str:
    """A share, for a person."""
    return "-" if part is None else f"{100 * part:.0f} %"


_RUN_COLUMNS = ("id", "at", "command", "model", "profile", "finish_reason", "seed", "device")


def _flat_group(row: Mapping[str, Any]) -> dict[str, Any]:
    reasons = row["finish_reasons"]
    rest = {name: value for name, value in row.items() if name != "finish_reasons"}
    return rest | {f"finish_{reason}": reasons.get(reason, 0) for reason in _REASONS}


def _flat_run(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**{name: row[name] for name in _RUN_COLUMNS}, "model": row["model"]["id"], **row["timing"]}


def _group_cells(group: Group) -> tuple[str, ...]:
    ended = ", ".join(f"{count} {reason}" for reason, count in group.finish_reasons.items())
    measures = (_spread_cell(spread, MEASURES[name][2]) for name, spread in group.measures.items())
    return (model_name(group.model), profile_name(group.profile), str(group.runs), *measures, percent(group.cached),
            percent(group.ceiling_share), ended or "-")  # fmt: skip


def _spread_cell(spread: Spread | None, digits: int) -> str:
    if spread is None:
        return "-"
    if spread.p5 is None or spread.p95 is None:
        return f"{spread.median:.{digits}f}"
    return f"{spread.median:.{digits}f} ({spread.p5:.{digits}f}-{spread.p95:.{digits}f})"


def _run_cells(record: Record) -> tuple[str, ...]:
    timing = record.run.timing
    rate = "-" if timing.generation_tps is None else f"{timing.generation_tps:.1f}"
    prompt, cached = ("-" if count is None else str(count) for count in (timing.prompt_tokens, timing.cached_tokens))
    return (str(record.id), when(record), record.command, model_name(record.model), profile_name(record.profile),
            prompt, cached, str(timing.generation_tokens), rate, record.run.finish_reason or "-")  # fmt: skip


def _write_json(app: App, rows: list[dict[str, Any]], name: str, form: str) -> None:
    if form == "jsonl":
        for row in rows:
            app.stdout.write(encode(row) + "\n")
    else:
        app.stdout.write(encode({"schema": "mlxctl.stats/1", name: rows}) + "\n")


def _write_csv(app: App, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """By RFC 4180, but for the ends of lines, which are those of other text here."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    app.stdout.write(text.getvalue())


def _write_table(app: App, headings: Sequence[str], rows: Sequence[Sequence[str]], form: str, *, what: str) -> None:
    from mlxctl.cli.table import markdown, table

    if not rows:
        app.say(f"no {what} yet, or none that is meant")
    app.stdout.write(markdown(headings, rows) if form == "markdown" else table(app, headings, rows))
