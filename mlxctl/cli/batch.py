"""`mlxctl run --batch`: many prompts, answered together."""

import os
import stat
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING

from mlxctl import documents
from mlxctl.batch import lines, results
from mlxctl.batch.lines import Line
from mlxctl.batch.results import Earlier, Results
from mlxctl.cli import inputs
from mlxctl.cli.app import App
from mlxctl.cli.display import CountBar
from mlxctl.cli.kept import Kept
from mlxctl.cli.signals import Signals, exit_status
from mlxctl.cli.streams import divert_prints
from mlxctl.errors import ExitStatus, MlxctlError, UsageError
from mlxctl.events import Done, Message, Notice
from mlxctl.history.log import Log
from mlxctl.output import stats
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
    settings = _settings(resolved.settings, words)
    found = list(lines.read(_text(app, settings.request.batch or "-")))
    if not found:
        raise UsageError("--batch: there is no line in it")
    earlier = results.earlier(settings.request.resume) if settings.request.resume is not None else {}
    left = _left(app, found, earlier)
    if settings.cache.auto:
        app.say("--auto-cache does nothing in a batch, which reads once what its prompts begin with alike")
    out = Kept(app.stdout, settings.request)
    if settings.request.batch != "-" and out.goes_to(expand(settings.request.batch or "")):
        raise UsageError("--batch: its lines would be lost to the answers, which go to the same file")
    if settings.request.resume is not None and out.goes_to(expand(settings.request.resume)):
        out.keep("".join(one.text for one in earlier.values()))
    divert_prints()
    return _Session(app, resolved, settings, left, out).run() if left else ExitStatus.OK


def _left(app: App, found: Sequence[Line], earlier: Mapping[str | int, Earlier]) -> list[Line]:
    """The lines that are still to be answered. Raises UsageError where ids do not tell lines apart."""
    numbers: dict[str | int, int] = {}
    for line in found:
        if line.fault is None and numbers.setdefault(line.id, line.number) != line.number:
            raise UsageError(f"--batch: lines {numbers[line.id]} and {line.number} have the same id {line.id!r}")
    same = [line for line in found if line.id in earlier and earlier[line.id].input in (None, line.digest)]
    others = sum(line.id in earlier for line in found) - len(same)
    if others:
        app.say(f"{others} of {len(found)} lines were answered under their ids as other lines, and are answered anew")
    if same:
        app.say(f"{len(same)} of {len(found)} lines are answered already")
    answered = {line.number for line in same}
    return [line for line in found if line.number not in answered]


def _settings(settings: Settings, words: Sequence[str]) -> Settings:
    request = settings.request
    if words or request.prompt is not None or request.messages is not None or request.image:
        raise UsageError("--batch: the prompts are in its lines; -f, system prompt and prompt template go with each")
    if "stdin" in inputs.places(settings):
        raise UsageError("prompt.template: {stdin} is for one prompt; in a batch {prompt} is the line's")
    if request.escapes:
        raise UsageError("--batch: --escapes is for one prompt; lines spell line ends in JSON strings")
    if request.top_logprobs:
        raise UsageError("--batch: its records have no tokens, and --top-logprobs nothing to go with")
    if settings.output.format not in ("text", "jsonl") or request.extract or request.extract_last:
        raise UsageError("--batch writes JSONL, a record a line")
    if request.truncate is not None:
        raise UsageError("--batch: --truncate is for one prompt")
    caches = (request.cache_update, request.prompt_cache_file is not None, settings.cache.name is not None)
    if request.dry_run or any(caches):
        raise UsageError("--batch: --dry-run and prompt caches are for one prompt")
    return settings


def _text(app: App, name: str) -> str:
    """The lines; what is not UTF-8 among them is told at its turn."""
    data = app.stdin.read_bytes() if name == "-" else documents.bytes_of(name)
    return data.decode("utf-8", "surrogateescape")


class _Session:
    """One batch and its surroundings."""

    def __init__(self, app: App, resolved: Resolved, settings: Settings, found: Sequence[Line], out: Kept) -> None:
        self._app = app
        self._resolved = resolved
        self._settings = settings
        self._lines = found
        self._files = inputs.documents_of(settings, app)
        inputs.asked_with(settings, self._files, "a line")  # what cannot be filled in is told before anything is loaded
        self._out = out
        self._results = Results(self._out.write, found, ordered=not settings.request.as_completed)
        self._bar = CountBar(app)
        self._signals = Signals(lambda signal: self._bar.close(), self._leave)
        self._writing = threading.Lock()
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
            try:
                self._answer(engine)
            finally:
                self._bar.close()
                self._keep()
        finally:
            self._bar.close()
        self._sum_up(time.perf_counter() - started)
        signal = self._signals.asked()
        return exit_status(signal) if signal else self._status

    def _keep(self) -> None:
        """What is answered is kept, whatever ends the rest."""
        with self._writing:
            try:
                self._results.finish()
            finally:  # a file takes it though nobody reads stdout
                self._out.finish(whole=True)

    def _leave(self) -> None:
        """A second signal: the main thread is not waited for, but a record that it is writing."""
        self._bar.show_cursor()
        with suppress(MlxctlError):
            if self._writing.acquire(timeout=1):
                self._results.finish()
                self._out.finish(whole=True)

    def _answer(self, engine: "Engine") -> None:
        hindrance = engine.batch_hindrance(self._settings)
        if hindrance is not None:
            self._app.say(f"one after the other: {hindrance}")
            self._one_by_one(engine)
        else:
            self._together(engine)

    def _together(self, engine: "Engine") -> None:
        waiting = deque(enumerate(self._lines))
        batch = engine.batch(self._settings, self._settings.request.batch_size)
        with closing(batch):
            self._share(batch)
            self._signals.patience = None  # what is under way is finished, however long that takes
            while (waiting and not self._signals.asked()) or not batch.is_empty:
                self._tell_of_the_end(batch)
                while waiting and batch.room and not self._signals.asked():
                    self._add(engine, batch, *waiting.popleft())
                for key, generation in batch.step() if not batch.is_empty else ():
                    self._finish(engine, self._lines[key], generation)

    def _tell_of_the_end(self, batch: "Batch") -> None:
        """What a first signal asks for takes as long as the answers that are under way."""
        if signal := self._signals.asked():
            self._say_once(f"{signal}: the answers under way are finished; once more ends at once")

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
            batch.share(probes, self._signals.asked)

    def _add(self, engine: "Engine", batch: "Batch", key: int, line: Line) -> None:
        try:
            settings = engine.check(self._own(line), self._say_once)
            batch.add(key, self._messages(line), settings, self._say_once)
        except MlxctlError as error:
            self._fail(line, error)

    def _one_by_one(self, engine: "Engine") -> None:
        for line in self._lines:
            if self._signals.asked():
                return
            try:
                for event in engine.stream(self._messages(line), settings=self._own(line)):
                    if isinstance(event, Notice):
                        self._say_once(event.message)
                    elif isinstance(event, Done) and engine.running is not None:
                        self._write(line, event, engine.running)
            except MlxctlError as error:
                self._fail(line, error)

    def _own(self, line: Line) -> Settings:
        """The settings of a line. Raises UsageError for one that is none."""
        if line.fault is not None:
            raise line.fault
        return lines.over(self._settings, line)

    def _messages(self, line: Line) -> list[Message]:
        """What a line asks, with what goes with each. Raises UsageError."""
        if line.messages is not None:
            return inputs.asked_with(self._settings, self._files, "", self._checked(line))
        return inputs.asked_with(self._settings, self._files, line.prompt or "")

    def _checked(self, line: Line) -> list[Message]:
        found = inputs.checked_messages(line.messages, f"line {line.number}")
        if self._files or self._settings.prompt.template is not None:
            raise UsageError(f"line {line.number}: -f and prompt template go with a prompt, not with messages")
        return found

    def _finish(self, engine: "Engine", line: Line, generation: "Generation | MlxctlError") -> None:
        if isinstance(generation, MlxctlError):
            self._fail(line, generation)
        else:
            self._write(line, engine.done(generation), generation)

    def _write(self, line: Line, done: Done, generation: "Generation") -> None:
        if done.is_incomplete:
            self._app.say(f"line {line.number}: the answer is incomplete: it does not satisfy the grammar")
        self._tokens += done.timing.generation_tokens
        self._answered += 1
        if (done.finish_reason == "length" or done.is_incomplete) and self._settings.request.fail_on_length:
            self._status = self._status or ExitStatus.LENGTH
        self._put(results.answered(line, done))
        self._log.keep(done, generation, self._resolved.values)
        if self._settings.request.stats_file:
            stats.append(self._settings.request.stats_file, done)

    def _fail(self, line: Line, error: MlxctlError) -> None:
        self._failed += 1
        self._status = self._status or error.exit_status
        self._put(results.failed(line, error))

    def _put(self, record: dict[str, object]) -> None:
        with self._writing:
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
