"""`mlxctl stats replay`."""

from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from mlxctl import options
from mlxctl.cli import inputs
from mlxctl.cli.app import App
from mlxctl.cli.display import PrefillBar
from mlxctl.cli.options import GroupedOption, TableCommand, flags, parameters
from mlxctl.cli.shortening import shortened
from mlxctl.cli.signals import Interrupted, Signals
from mlxctl.cli.stats.show import get
from mlxctl.cli.streams import divert_prints
from mlxctl.cli.types import MOST
from mlxctl.errors import ExitStatus
from mlxctl.events import Done, Message, Progress
from mlxctl.history import again
from mlxctl.history.again import Outcome
from mlxctl.history.record import Record
from mlxctl.output.json import encode
from mlxctl.settings import Settings

if TYPE_CHECKING:
    from mlxctl.engine.engine import Engine

_ROWS = [row for row in options.options() if row.words or row.key in ("request.messages", "request.offline")]
_FORMAT = GroupedOption(["--format", "form"], group="Output", type=click.Choice(["text", "json"]), default="text",
                        help="A line, or a JSON object")  # fmt: skip


@click.command(cls=TableCommand, params=[_FORMAT, *parameters(_ROWS)])
@click.argument("id", type=click.IntRange(1, MOST))
@click.argument("words", nargs=-1, metavar="[PROMPT]...")
@click.pass_obj
def command(app: App, /, id: int, words: tuple[str, ...], form: str, **params: Any) -> int:
    """Run ID again from nothing, with its settings and seed, and see whether its tokens come out the same.

    Unless --log-text kept them, the words are to be given again as the run had them: prompt, stdin, system prompt.
    Exits with 11 when the tokens are others.
    """
    app.stdout.require()
    record, given = get(id), flags(params)
    settings = again.settings_of(record, given)
    parts = None
    if again.messages_of(record) is None or words or given:
        again.require_words(record, given)
        parts = inputs.gather(settings, words, app)
    divert_prints()
    outcome = _run(app, record, settings, parts)
    if not outcome.same and (flags_given := again.unchecked(given)):
        app.say(f"nothing tells whether {', '.join(flags_given)} was the same then")
    app.stdout.write((encode({"schema": "mlxctl.replay/1", **asdict(outcome)}) if form == "json" else _line(outcome))
                     + "\n")  # fmt: skip
    return ExitStatus.OK if outcome.same else ExitStatus.DIFFERS


def _again(app: App, engine: "Engine", settings: Settings, parts: inputs.Parts) -> list[Message]:
    """The messages of words that are given again, shortened as they were."""
    return shortened(inputs.finish(parts, app), settings, engine.facts, engine.count, app.say).messages


def _run(app: App, record: Record, settings: Settings, parts: inputs.Parts | None) -> Outcome:
    from mlxctl.engine.engine import Engine

    bar = PrefillBar(app)
    signals = Signals(lambda signal: bar.close(), bar.show_cursor)
    signals.install()
    try:
        engine = Engine.load(settings, app.say)
        for text in again.changes(record, engine.fingerprint, engine.versions, engine.device):
            app.say(text)
        messages = (_again(app, engine, settings, parts) if parts is not None else again.messages_of(record)) or []
        if not settings.request.image:
            again.require_same_prompt(record, engine.render(messages).ids)
        signals.listening = True
        ids = _answer(engine, record, messages, bar, signals)
    finally:
        bar.close()
    return again.outcome(record, ids)


def _answer(engine: "Engine", record: Record, messages: list[Message], bar: PrefillBar,
            signals: Signals) -> list[int]:  # fmt: skip
    """The tokens of the answer."""
    with closing(engine.stream(messages, cancel=signals.asked)) as events:
        for event in events:
            if isinstance(event, Progress):
                bar.update(event.done, event.total)
            elif isinstance(event, Done) and event.finish_reason == "interrupted":
                raise Interrupted(event.stop["signal"])
    if engine.running is None:
        raise AssertionError("a stream that was read to its end has left a run")
    job = engine.running.job
    again.require_same_prompt(record, [*job.seen, *job.ids])  # with images it is known only now
    return engine.running.ids


def _line(outcome: Outcome) -> str:
    if outcome.same:
        return f"run {outcome.id}: the same {outcome.tokens} tokens"
    where = "" if outcome.first_difference is None else f", from token {outcome.first_difference + 1} on"
    return f"run {outcome.id}: other tokens{where} ({outcome.tokens} now, {outcome.tokens_then} then)"
