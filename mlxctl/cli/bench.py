"""`mlxctl bench`: measured sweeps."""

import math
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec

from mlxctl import options
from mlxctl.bench import compare, exercise, plan
from mlxctl.bench.compare import Base
from mlxctl.bench.rows import Row
from mlxctl.bench.session import Plan, beyond, measure, require_batches, unquantized
from mlxctl.bench.writers import FORMATS, Writer
from mlxctl.cli.app import App
from mlxctl.cli.display import CountBar
from mlxctl.cli.options import GroupedOption, TableCommand, parameters, profile_option, unset_option
from mlxctl.cli.run import settle
from mlxctl.cli.signals import Interrupted, Signals
from mlxctl.cli.streams import divert_prints
from mlxctl.errors import ExitStatus, UsageError
from mlxctl.events import Timing
from mlxctl.history import bandwidth, receipt
from mlxctl.history.log import Log
from mlxctl.history.noise import needed
from mlxctl.history.record import Receipt, Run
from mlxctl.profiles import Resolved
from mlxctl.settings import Settings

if TYPE_CHECKING:
    from mlxctl.engine.engine import Engine

_OTHERS = {"generation.prefill_step_size", "request.offline", "request.no_log"}
_LEFT_OUT = {"model.extra_eos_token", "model.draft_model", "model.num_draft_tokens", "kv.kv_bits"}
_ROWS = [row for row in options.options()
         if (row.section in ("model", "kv") and row.key not in _LEFT_OUT) or row.key in _OTHERS]  # fmt: skip
_BITS = ("none", "2", "3", "4", "5", "6", "8")


class Numbers(click.ParamType):  # type: ignore[type-arg] # generic only in click 8.5
    """Numbers and ranges of them, see `plan.numbers`."""

    name = "LIST"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        try:
            return value if isinstance(value, list) else plan.numbers(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Bits(click.ParamType):  # type: ignore[type-arg]
    """A list of bits, "none" among them."""

    name = "LIST"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int | None]:
        parts = [part.strip() for part in str(value).split(",")]
        for part in parts:
            if part not in _BITS:
                self.fail(f"expected a list of {', '.join(_BITS)}, got {options.shown(part)}", param, ctx)
        return [None if part == "none" else int(part) for part in parts]


def _finite(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is no time", ctx, param)
    return value


def _option(*names: str, **kwargs: Any) -> GroupedOption:
    return GroupedOption(names, group="What is measured", **kwargs)


_WHAT = [
    _option("-p", "--n-prompt", type=Numbers(), default="512", show_default=True, help="Process prompts of so many "
            "tokens: 512, or 256,1024, or a range such as 256-4096*2 or 128-512+128; 0 for none"),
    _option("-n", "--n-gen", type=Numbers(), default="128", show_default=True, help="Generate so many tokens; 0 for "
            "none"),
    _option("-d", "--n-depth", type=Numbers(), default="0", show_default=True, help="Do both behind so many tokens"),
    _option("-b", "--batch-size", type=Numbers(), default="1", show_default=True, help="Do both for so many sequences "
            "at once"),
    _option("--kv-bits", type=Bits(), help="Quantize the cache to so many bits, from its first token on unless "
            "--quantized-kv-start says otherwise: none,8,4"),
    _option("-r", "--repetitions", type=click.IntRange(1, 1000), default=5, show_default=True, help="Measure each test "
            "so often"),
    _option("--delay", type=click.FloatRange(0, 3600), callback=_finite, default=0.0, metavar="SECONDS",
            help="Rest before each measurement, so that the machine stays cool"),
    _option("--warmup/--no-warmup", default=True, help="Run each test once before it is measured"),
    _option("--exercise", is_flag=True, help="Instead: rates over 20 and over 200 tokens, and what they show"),
]  # fmt: skip
_HOW = [
    GroupedOption(["-o", "--output", "form"], group="Output", type=click.Choice(list(FORMATS)), default="md",
                  show_default=True, help="How it is written"),
    GroupedOption(["--compare", "base"], group="Output", metavar="PATH", help="Compare with what -o json wrote "
                  "earlier: exit 11 when a test is slower by more than 5 % and by more than noise"),
    GroupedOption(["--explain"], group="Output", is_flag=True, help="Say how the ceilings come about"),
]  # fmt: skip


@click.command(cls=TableCommand, params=[profile_option(), unset_option(), *_WHAT, *_HOW, *parameters(_ROWS)])
@click.pass_obj
def command(app: App, /, base: str | None, explain: bool, form: str, **params: Any) -> int:
    """Measure a model: how fast it processes prompts and generates, over lengths and depths.

    Each test is run some times; its rate is the mean, with the standard deviation. The ceiling is the rate that the
    memory's bandwidth allows. What the model says does not matter, and no token ends it.
    """
    app.stdout.require()
    wanted = {option.name: params.pop(option.name) for option in _WHAT if option.name is not None}
    resolved = settle(app, **params)
    settings = _settings(resolved)
    planned = _plan(settings, **wanted)
    earlier = compare.read(base) if base is not None else None
    if earlier is not None:
        compare.require(earlier, planned.tests)
    divert_prints()
    rows = _Session(app, resolved, settings, FORMATS[form](app.stdout.write, planned.tests)).run(planned)
    if wanted["exercise"]:
        app.say(exercise.sentence(*rows))
    if explain:
        _explain(app, rows)
    return _compare(app, earlier, rows) if earlier is not None else ExitStatus.OK


def _settings(resolved: Resolved) -> Settings:
    """Those of the bench: a cache is quantized from its first token on where nothing else was asked for."""
    settings = resolved.settings
    if settings.model.draft_model is not None:
        raise UsageError("bench measures one model: leave the draft model out (--unset draft_model)")
    if resolved.values["kv.quantized_kv_start"].layer != "default":
        return settings
    return msgspec.structs.replace(settings, kv=msgspec.structs.replace(settings.kv, quantized_kv_start=0))


def _plan(settings: Settings, *, n_prompt: list[int], n_gen: list[int], n_depth: list[int], batch_size: list[int],
          kv_bits: list[int | None] | None, repetitions: int, delay: float, warmup: bool,
          exercise: bool) -> Plan:  # fmt: skip
    from mlxctl.bench.exercise import TESTS

    bits = [settings.kv.kv_bits] if kv_bits is None else kv_bits
    tests = TESTS if exercise else plan.tests(n_prompt, n_gen, n_depth, bits, batch_size)
    if not tests:
        raise UsageError("there is nothing to measure: -p and -n are both 0")
    if any(test.batch < 1 for test in tests):
        raise UsageError("--batch-size: expected at least 1")
    if any(test.batch > 1 and test.kv_bits is not None for test in tests):
        raise UsageError("--kv-bits: mlx-lm quantizes no caches of a batch; measure one or the other")
    return Plan(tests, repetitions, delay, warmup, together=exercise)


class _Session:
    """One bench and its surroundings."""

    def __init__(self, app: App, resolved: Resolved, settings: Settings, writer: Writer) -> None:
        self._app = app
        self._resolved = resolved
        self._settings = settings
        self._writer = writer
        self._bar = CountBar(app)
        self._rows: list[Row] = []
        self._told: set[str] = set()
        self._engine: Engine | None = None
        self._started = time.perf_counter()
        self._signals = Signals(lambda signal: self._end(), self._bar.show_cursor)
        self._ending = threading.Lock()  # kept by whichever thread ends the bench

    def run(self, planned: Plan) -> list[Row]:
        from mlxctl.engine.engine import Engine

        self._signals.install()
        try:
            self._engine = engine = Engine.load(self._settings, self._warn)
            require_batches(engine, self._settings, planned.tests)
            for test in beyond(planned.tests, engine.facts.context):
                self._app.say(f"{test.name} is longer than the context of the model ({engine.facts.context} tokens)")
            for test in unquantized(planned.tests, self._settings):
                self._app.say(f"{test.name}: nothing is quantized, it ends before quantized_kv_start")
            speed = bandwidth.measured(engine.device, self._app.say).bytes_per_s
            self._bar.start(planned.measurements, "warming up")
            for row in measure(engine, self._settings, planned, speed, self._bar.update, self._warn):
                self._rows.append(row)
                self._bar.aside(partial(self._writer.row, row))
        finally:
            self._end()
        if signal := self._signals.asked():
            raise Interrupted(signal)
        return self._rows

    def _warn(self, message: str) -> None:
        """What holds for several tests is said once."""
        if message not in self._told:
            self._told.add(message)
            self._app.say(message)

    def _end(self) -> None:
        """What is done by now is written and kept."""
        self._ending.acquire()  # for good: the thread that comes second waits until the process ends
        self._signals.listening = True  # a signal is noted from here on: what was measured shall not get lost by it
        self._bar.close()
        if self._engine is not None and self._rows:
            self._log(self._engine)  # first, for stdout may have failed
            self._writer.end()

    def _log(self, engine: "Engine") -> None:
        settings = self._settings
        if settings.request.no_log:
            return
        total = time.perf_counter() - self._started
        peak = max(row.peak_memory_gb for row in self._rows)
        timing = Timing(load_s=engine.load_s, total_s=total, peak_memory_gb=peak)
        run = Run(finish_reason=None, stop=None, profile=settings.profile, model=engine.info, seed=None, timing=timing,
                  versions=engine.versions, device=engine.device)  # fmt: skip
        made_by = Receipt(settings=receipt.settings(settings, self._resolved.values),
                          tests=[row.as_dict() for row in self._rows])  # fmt: skip
        Log("bench", self._app.say).write(run, made_by)


def _explain(app: App, rows: Sequence[Row]) -> None:
    app.say(bandwidth.explain(rows[0].subject.device))
    for row in rows:
        if row.bytes_per_token is not None and row.ceiling_ts is not None:
            app.say(f"{row.test.name}: a token reads {row.bytes_per_token / 1e6:.1f} MB, so {row.ceiling_ts:.1f} tok/s "
                    "at most")  # fmt: skip


def _compare(app: App, earlier: Sequence[Base], rows: Sequence[Row]) -> int:
    """Say how each test stands to the earlier bench."""
    found = compare.compared(earlier, rows)
    for text in compare.strangers(earlier, rows[0]):
        app.say(f"--compare: {text}")
    for one in found:
        app.say(_verdict(one))
    return ExitStatus.DIFFERS if any(one.is_regression for one in found) else ExitStatus.OK


def _verdict(one: compare.Compared) -> str:
    difference = one.difference
    text = f"{one.test.name}: {difference.b:.2f} tok/s, {difference.a:.2f} before, {difference.percent}"
    if difference.p is None:
        return f"{text}: too few repetitions to tell from noise ({needed()} on each side)"
    verdict = "a regression" if one.is_regression else "no regression"
    return f"{text}: {verdict} ({difference.words})"
