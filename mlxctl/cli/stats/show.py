"""`mlxctl stats show`."""

from collections.abc import Iterator

import click
import msgspec
from msgspec import UNSET

from mlxctl.cli.app import App
from mlxctl.cli.stats.overview import as_row, model_name, percent, profile_name, when
from mlxctl.cli.types import MOST
from mlxctl.errors import UsageError
from mlxctl.history import bandwidth, store
from mlxctl.history.record import Record, Setting
from mlxctl.history.store import Filter
from mlxctl.output.json import encode
from mlxctl.terminal import harmless


@click.command()
@click.argument("id", type=click.IntRange(1, MOST), required=False)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Lines, or a JSON object")
@click.option("--all", "every", is_flag=True, help="Settings that were left at their defaults, too")
@click.pass_obj
def command(app: App, id: int | None, form: str, every: bool) -> None:
    """Show the receipt of run ID (`mlxctl stats --runs` lists them), or of the last one."""
    record = get(id)
    if form == "json":
        app.stdout.write(encode({**as_row(record), "receipt": msgspec.to_builtins(record.receipt)}) + "\n")
        return
    for name, text in _lines(record, every=every):
        app.stdout.write(f"{name:<24}{harmless(text) if app.stdout.isatty() else text}\n")


def get(id: int | None) -> Record:
    """The run of that number, or the last. Raises UsageError where there is none, HistoryError."""
    found = store.newest() if id is None else next(iter(store.find(Filter(ids=[(id, id)]))), None)
    if found is None:
        raise UsageError("no run is in the history yet" if id is None else f"the history has no run {id}",
                         hint="mlxctl stats --runs lists them")  # fmt: skip
    return found


def _lines(record: Record, *, every: bool) -> Iterator[tuple[str, str]]:
    run, receipt = record.run, record.receipt
    yield "run", f"{record.id}, {record.command}, {when(record, '%Y-%m-%d %H:%M:%S')}"
    yield "model", f"{model_name(record.model)} ({run.model.dtype})"
    yield "fingerprint", run.model.fingerprint
    if run.model.revision:
        yield "revision", run.model.revision
    yield "profile", profile_name(record.profile)
    yield "device", run.device
    yield "versions", ", ".join(f"{name} {version}" for name, version in run.versions.items())
    if run.finish_reason is not None:
        yield "ended", f"{run.finish_reason} ({', '.join(f'{key} {value}' for key, value in (run.stop or {}).items())})"
        yield "seed", str(run.seed)
    yield "prompt", receipt.prompt_hash or "not known"
    yield "answer", receipt.answer_hash if receipt.answer_hash and run.timing.generation_tokens else "-"
    yield from _figures(record)
    yield from _settings(receipt.settings, every=every)
    if run.text is not UNSET:
        yield "text", run.text


def _figures(record: Record) -> Iterator[tuple[str, str]]:
    run = record.run
    for name, value in msgspec.to_builtins(run.timing).items():
        if value is not None:
            yield name, f"{value:.4g}" if isinstance(value, float) else str(value)
    share = bandwidth.share(run.timing, run.device)
    if share is not None:
        yield "share of the ceiling", percent(share)
    for row in record.receipt.tests or []:
        spread = "" if row["stddev_ts"] is None else f" ± {row['stddev_ts']:.2f}"
        yield "test", f"{row['test']}: {row['avg_ts']:.2f}{spread} tok/s"


def _settings(settings: dict[str, Setting], *, every: bool) -> Iterator[tuple[str, str]]:
    for key, setting in settings.items():
        if every or setting.origin != "default":
            value = "(its words were not kept)" if setting.value is UNSET else encode(setting.value)
            yield key, f"{value}  [{setting.origin}]"
