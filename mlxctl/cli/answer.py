"""From settings and a prompt to an answer on stdout: what `run` and `generate` share."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from mlxctl.cli.app import App
from mlxctl.cli.caching import Caching
from mlxctl.cli.display import PrefillBar
from mlxctl.cli.inputs import Ask, Asked
from mlxctl.cli.kept import Kept
from mlxctl.cli.shortening import shortened
from mlxctl.cli.signals import Interrupted, Signals, exit_status
from mlxctl.cli.streams import divert_prints
from mlxctl.errors import ExitStatus, MlxctlError, ReaderGone
from mlxctl.events import Done, Event, Notice, Progress, Token
from mlxctl.history import bandwidth
from mlxctl.history.log import Log
from mlxctl.output import Writer, make_writer, stats
from mlxctl.profiles import Resolved
from mlxctl.settings import Settings

if TYPE_CHECKING:
    from mlxctl.engine.engine import Engine
    from mlxctl.engine.kv import Prefix


def answer(app: App, resolved: Resolved, ask: Ask) -> int:
    """Run one prompt; return the exit status."""
    caching = Caching(app, resolved)
    settings = caching.settings
    if settings.request.stats_file:
        stats.open_log(settings.request.stats_file).close()  # an hour's answer shall not end with "cannot write"
    divert_prints()
    session = _Session(app, caching, resolved)
    session.signals.install()
    with session.reporting():
        if settings.request.dry_run:
            from mlxctl.cli.dry_run import dry_run

            return dry_run(app, resolved, settings, ask, caching.begin)
        return session.run(ask)


class _Session:
    """One run and its surroundings."""

    def __init__(self, app: App, caching: Caching, resolved: Resolved) -> None:
        self.app = app
        self.caching = caching
        self.resolved = resolved
        self.log = Log("run", app.say)
        self.settings = settings = caching.settings
        self.bar = PrefillBar(app)
        self.out = Kept(app.stdout, settings.request)
        self.writer: Writer = make_writer(self.out, app.stderr, settings)
        self.signals = Signals(self._goodbye, self.bar.show_cursor)
        self.engine: Engine | None = None
        self._done = False  # whether the writer was told of the end
        self._writing = threading.Lock()  # kept, at the end, by whichever thread ends the run

    def run(self, ask: Ask) -> int:
        from mlxctl.engine.engine import Engine

        self.engine = engine = Engine.load(self.settings, self.app.say, examine=not self.settings.upstream_rules)
        asked = self.caching.begin(shortened(ask(), self.settings, engine.facts, engine.count, self.app.say))
        prefixes = self.caching.prefixes(engine, asked.messages)
        self.signals.listening = True
        self.writer.start()
        done = self._stream(engine, asked, prefixes)
        status = self._finish(done)
        for event in self.caching.finish(engine, asked.messages, done, self.signals.asked):
            self._pass_on(event)
        if signal := self.signals.asked():
            return exit_status(signal)
        return self.caching.fault.exit_status if self.caching.fault is not None else status

    def _stream(self, engine: "Engine", asked: Asked, prefixes: "list[Prefix]") -> Done:
        logprobs = self.settings.output.format == "jsonl"
        top = self.settings.request.top_logprobs
        shared = asked.shared if self.caching.keeps else None
        stream = engine.stream(
            asked.messages, prefixes=prefixes, shared=shared, cancel=self._cancel, logprobs=logprobs, top_logprobs=top
        )
        with closing(stream) as events:
            told = False
            for event in events:
                if isinstance(event, Done):
                    return bandwidth.with_ceiling(event)
                if not told and not isinstance(event, Notice):
                    told = True
                    self.caching.tell(engine)
                self._pass_on(event)
        raise AssertionError("the stream ended without Done")

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Tell the writer of an error too, so that a reader of JSON hears of it."""
        try:
            yield
        except ReaderGone:
            self.bar.close()
            self._record(self._cut_short("SIGPIPE"))
            self.out.finish(whole=False)  # --tee keeps what came
            raise
        except MlxctlError as error:
            self.bar.close()
            if signal := self.signals.asked():
                raise Interrupted(signal) from error  # a compiler that mlx had started got the Ctrl-C too
            if not self._done:
                with suppress(MlxctlError):  # stdout itself may be what failed
                    self.writer.fail(error.message, error.exit_status)
                    self.out.finish(whole=False)  # no file takes it
            raise
        finally:
            self.bar.close()

    def _cancel(self) -> str | None:
        """Whether the run shall end: somebody asked for it, or nobody reads it."""
        return self.signals.asked() or ("SIGPIPE" if not self.out.alone and self.app.stdout.reader_gone() else None)

    def _pass_on(self, event: Event) -> None:
        if self._done:
            return  # the answer is out, and what is done for the next run is not part of it
        with self._writing:
            if isinstance(event, Token):
                self.bar.close()
                self.writer.token(event)
            elif isinstance(event, Progress):
                self.bar.update(event.done, event.total)
                self.writer.progress(event.done, event.total)
            elif isinstance(event, Notice):
                self.app.say(event.message)

    def _finish(self, done: Done) -> int:
        self._writing.acquire()  # for good: the thread that comes second waits until the process ends
        self.bar.close()
        if done.stop.get("signal") == "SIGPIPE":
            raise ReaderGone("the reader of stdout went away")
        self.writer.done(done)
        self._done = True
        self._record(done)
        self.out.finish(whole=done.finish_reason != "interrupted")
        if done.finish_reason == "interrupted" and self.out.alone:
            self.app.say(f"{self.settings.request.output} is not written: the answer is not whole, and is on stdout")
        if done.finish_reason == "interrupted":
            return exit_status(done.stop["signal"])
        cut = done.finish_reason == "length" or done.is_incomplete
        return ExitStatus.LENGTH if cut and self.settings.request.fail_on_length else ExitStatus.OK

    def _record(self, done: Done | None) -> None:
        """Say how it went: on stderr, to the history and in the stats file."""
        if done is None or self.engine is None or self.engine.running is None:
            return
        self._tell(done)
        self.log.keep(done, self.engine.running, self.resolved.values)
        if self.settings.request.stats_file:
            stats.append(self.settings.request.stats_file, done)

    def _cut_short(self, signal: str) -> Done | None:
        """What came of the run under way, ended by a signal."""
        if self.engine is None or self.engine.running is None:
            return None
        self.engine.running.interrupt(signal)
        return bandwidth.with_ceiling(self.engine.done(self.engine.running))

    def _tell(self, done: Done) -> None:
        """What the person is told after the answer."""
        wanted = self.settings.output.stats
        if done.finish_reason == "length":
            full = self.settings.generation.max_tokens is None
            why = "the context of the model is full" if full else "--max-tokens raises the limit"
            self.app.say(f"the answer was cut at {done.stop['max_tokens']} tokens: {why}")
        if done.is_incomplete:
            self.app.say("the answer is incomplete: it does not satisfy the grammar")
        if reason := _not_quantized(done, self.settings):
            self.app.say(f"kv_bits: nothing was quantized: {reason}")
        if wanted == "json":
            self.app.print_err(stats.as_json(done))
        elif wanted == "always" or (wanted == "auto" and self._somebody_looks()):
            self.app.print_err(stats.line(done))

    def _somebody_looks(self) -> bool:
        """A terminal on stderr, and a format that does not show the figures itself."""
        return self.app.stderr.isatty() and self.settings.output.format != "classic"

    def _goodbye(self, signal: str) -> None:
        """End in good order from the watcher's thread, while the main one is deep inside the library."""
        done = self._cut_short(signal)
        if done is not None:
            self._finish(done)
        else:
            self.bar.close()
            self.app.say(f"interrupted by {signal}")


def _not_quantized(done: Done, settings: Settings) -> str | None:
    """Why kv_bits did nothing, where the rules could not tell before the run."""
    tokens = (done.timing.prompt_tokens or 0) + done.timing.generation_tokens
    start = settings.kv.quantized_kv_start
    if settings.kv.kv_bits is None or done.timing.kv_layers_quantized != 0:
        return None
    if tokens > start:
        return "the caches of this model cannot be"
    unlimited = settings.generation.max_tokens in (None, -1)
    return f"the run ended at {tokens} tokens, before quantized_kv_start ({start})" if unlimited else None
