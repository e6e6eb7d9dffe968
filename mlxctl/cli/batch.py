"""`mlxctl run --batch`: many prompts, answered together."""

import os
import stat
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from mlxctl import texts
from mlxctl.batch import lines, results
from mlxctl.batch.lines import Line
from mlxctl.batch.results import Results
from mlxctl.cli import inputs
from mlxctl.cli.app import App
from mlxctl.cli.display import CountBar
from mlxctl.cli.kept import Kept
from mlxctl.cli.signals import Signals, exit_status
from mlxctl.cli.streams import divert_prints
from mlxctl.errors import ExitStatus, MlxctlError, UsageError
from mlxctl.events import Done, Message
from mlxctl.history.log import Log
from mlxctl.paths import expand
from mlxctl.profiles import Resolved
from mlxctl.settings import Settings

if TYPE_CHECKING:
    from mlxctl.engine.batch import Batch
    from mlxctl.engine.engine import Engine
    from mlxctl.engine.stream import Generation

_PROBES = 16  # prompts that are looked at for what all begin with


def run_batch(app: App, resolved: Resolved, words: Sequence[str]) -> int:
    """Answer every line of `request.batch`; return the exit status."""
    app.stdout.require()
    settings = _settings(resolved.settings, words)
    found = list(lines.read(_text(app, settings.request.batch or "-")))
    if not found:
        raise UsageError("--batch: there is no line in it")
    done = results.finished(settings.request.resume) if settings.request.resume is not None else set()
    left = [line for line in found if line.id not in done]
    if twice := [id for id, count in Counter(line.id for line in left).items() if count > 1]:
        raise UsageError(f"--batch: several lines have the id {twice[0]!r}")
    if len(left) < len(found):
        app.say(f"{len(found) - len(left)} of {len(found)} lines are answered already")
    if settings.cache.auto:
        app.say("--auto-cache does nothing in a batch, which reads once what its prompts begin with alike")
    divert_prints()
    return _Session(app, resolved, settings, left).run() if left else ExitStatus.OK


def _settings(settings: Settings, words: Sequence[str]) -> Settings:
    request = settings.request
    if words or request.prompt is not None or request.messages is not None or request.image:
        raise UsageError("--batch: the prompts are in its lines; -f, system prompt and prompt template go with each")
    if settings.output.format not in ("text", "jsonl") or request.extract or request.extract_last:
        raise UsageError("--batch writes JSONL, a record a line")
    if request.truncate is not None:
        raise UsageError("--batch: --truncate is for one prompt")
    caches = (request.cache_update, request.prompt_cache_file is not None, settings.cache.name is not None)
    if request.dry_run or any(caches):
        raise UsageError("--batch: --dry-run and prompt caches are for one prompt")
    return settings


def _text(app: App, name: str) -> str:
    return app.stdin.read() if name == "-" else texts.read_file(name)


class _Session:
    """One batch and its surroundings."""

    def __init__(self, app: App, resolved: Resolved, settings: Settings, found: Sequence[Line]) -> None:
        self._app = app
        self._resolved = resolved
        self._settings = settings
        self._lines = found
        self._files = inputs.documents_of(settings, app)
        self._out = Kept(app.stdout, settings.request)
        self._results = Results(self._out.write, found, ordered=not settings.request.as_completed)
        self._bar = CountBar(app)
        self._signals = Signals(lambda signal: self._bar.close(), self._bar.show_cursor)
        self._signals.patience = None  # what is under way is finished, however long that takes
        self._log = Log("batch", self._say_once)
        self._told: set[str] = set()
        self._tokens = self._failed = self._answered = 0
        self._status: int = ExitStatus.OK

    def run(self) -> int:
        from mlxctl.engine.engine import Engine

        self._signals.install()
        try:
            engine = Engine.load(self._settings, self._app.say)
            self._begin_a_line()
            self._signals.listening = True
            self._bar.start(len(self._lines), "answers")
            started = time.perf_counter()
            hindrance = engine.batch_hindrance(self._settings)
            if hindrance is not None:
                self._app.say(f"one after the other: {hindrance}")
                self._one_by_one(engine)
            else:
                self._together(engine)
        finally:
            self._bar.close()
        self._results.finish()
        self._sum_up(time.perf_counter() - started)
        signal = self._signals.asked()
        self._out.finish(whole=signal is None)
        return exit_status(signal) if signal else self._status

    def _together(self, engine: "Engine") -> None:
        waiting = deque(self._lines)
        batch = engine.batch(self._settings, self._settings.request.batch_size)
        with closing(batch):
            self._share(batch)
            while (waiting and not self._signals.asked()) or not batch.is_empty:
                while waiting and batch.room and not self._signals.asked():
                    self._add(batch, waiting.popleft())
                for key, generation in batch.step() if not batch.is_empty else ():
                    self._finish(engine, self._lines[key], generation)

    def _share(self, batch: "Batch") -> None:
        """Process once what the prompts begin with alike."""
        probes = []
        for line in self._lines[:_PROBES]:
            try:
                if line.fault is None and not line.template:
                    probes.append(self._messages(line))
            except MlxctlError:
                continue  # it will be told at its turn
        if len(probes) > 1:
            batch.share(probes)

    def _add(self, batch: "Batch", line: Line) -> None:
        try:
            if line.fault is not None:
                raise line.fault
            settings = lines.over(self._settings, line)
            batch.add(self._lines.index(line), self._messages(line), settings, self._say_once)
        except MlxctlError as error:
            self._fail(line, error)

    def _one_by_one(self, engine: "Engine") -> None:
        for line in self._lines:
            if self._signals.asked():
                return
            try:
                if line.fault is not None:
                    raise line.fault
                settings = lines.over(self._settings, line)
                for event in engine.stream(self._messages(line), settings=settings):
                    if isinstance(event, Done) and engine.running is not None:
                        self._write(line, event, engine.running)
            except MlxctlError as error:
                self._fail(line, error)

    def _messages(self, line: Line) -> list[Message]:
        """What a line asks, with what goes with each. Raises UsageError."""
        if line.messages is not None:
            found = inputs.checked_messages(line.messages, f"line {line.number}")
            return inputs.with_system(self._settings, found)
        return inputs.asked_with(self._settings, self._files, line.prompt or "")

    def _finish(self, engine: "Engine", line: Line, generation: "Generation") -> None:
        if not generation.is_satisfied:
            self._app.say(f"line {line.number}: the answer is incomplete: it does not satisfy the grammar")
        self._write(line, engine.done(generation), generation)

    def _write(self, line: Line, done: Done, generation: "Generation") -> None:
        self._tokens += done.timing.generation_tokens
        self._answered += 1
        if done.finish_reason == "length" and self._settings.request.fail_on_length:
            self._status = self._status or ExitStatus.LENGTH
        self._put(results.answered(line, done))
        self._log.keep(done, generation, self._resolved.values)

    def _fail(self, line: Line, error: MlxctlError) -> None:
        self._failed += 1
        self._status = self._status or error.exit_status
        self._put(results.failed(line, error))

    def _put(self, record: dict[str, object]) -> None:
        self._bar.aside(partial(self._results.add, record))
        self._bar.update("answers", self._answered + self._failed)

    def _say_once(self, message: str) -> None:
        """What holds for every line is said at the first."""
        if message not in self._told:
            self._told.add(message)
            self._app.say(message)

    def _sum_up(self, seconds: float) -> None:
        rate = f", {self._tokens / seconds:.1f} tok/s" if seconds else ""
        wrong = f", {self._failed} failed" if self._failed else ""
        left = len(self._lines) - self._answered - self._failed
        undone = f", {left} not begun" if left else ""
        self._app.say(f"{self._answered} answers, {self._tokens} tokens in {seconds:.1f} s{rate}{wrong}{undone}")

    def _begin_a_line(self) -> None:
        """Where results are added to a file whose last line was cut off, they begin a line of their own."""
        name = self._settings.request.resume
        if name is None or not expand(name).is_file():
            return
        there, out = expand(name).stat(), os.fstat(1)
        if stat.S_ISREG(out.st_mode) and os.path.samestat(there, out) and there.st_size:
            with expand(name).open("rb") as file:
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":
                    self._out.write("\n")
