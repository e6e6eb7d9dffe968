"""Ctrl-C while the model answers: the first asks the answer to end, another one ends the chat if that takes long."""

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2)
_PATIENCE_S = 1.0  # between the first request and one that is taken for despair
_SOON_S = 0.3  # within which most answers have ended
_LEAVE_S = 3.0  # for an answer to end, when the process is told to


class Leave(BaseException):
    """The process was told to end: by a signal, or because its terminal is gone."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Interrupts:
    """Signals of a chat. Between `answering` and its end SIGINT is noted; elsewhere it is a KeyboardInterrupt, or a
    key of the prompt."""

    def __init__(self) -> None:
        self.tidy: Callable[[], None] = lambda: None  # leaves the terminal as it was, when there is no other way
        # Ends the prompt, where there is one now: an exception in the midst of what it does would be lost there.
        self.end_prompt: Callable[[Leave], bool] = lambda leave: False
        self.slow: Callable[[], None] = lambda: None  # tells that the answer takes its time to end
        self.resumed: Callable[[], None] = lambda: None  # takes the terminal again, after Ctrl-Z and fg
        self._reader = -1
        self._noted: str | None = None
        self._first: float | None = None  # when the answer was asked to end
        self._wakeup = -1
        self._answering = False

    def install(self) -> None:
        """Take over the signals that are not ignored."""
        self._reader, self._wakeup = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(self._reader, False)
        for number in _ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._end)
        threading.Thread(target=self._watch, daemon=True).start()

    def watch_terminal(self) -> None:
        """Leave when the terminal is gone: not everybody gets a signal then, and the prompt would read for ever."""
        threading.Thread(target=self._wait_for_hangup, daemon=True).start()

    def _wait_for_hangup(self) -> None:
        watch = select.poll()
        watch.register(0, 0)  # a hang-up is always told
        if any(event & select.POLLHUP for _, event in watch.poll()):
            time.sleep(_PATIENCE_S)  # for the signal, which most get
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(_LEAVE_S)
            os._exit(128 + signal.SIGHUP)

    def asked(self) -> str | None:
        """The name of the signal that asked the answer to end."""
        return self._noted

    @contextmanager
    def answering(self) -> Iterator[None]:
        """While the model answers."""
        with suppress(OSError):  # the watcher may be quicker
            while os.read(self._reader, 1):  # what came when nobody was answering
                pass
        self._noted, self._first, self._answering = None, None, True
        before = signal.getsignal(signal.SIGINT)
        woken = signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        if before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._note)
        stopped = signal.signal(signal.SIGCONT, lambda number, frame: self.resumed())
        try:
            yield
        finally:
            self._answering = False
            with suppress(TypeError):
                signal.signal(signal.SIGINT, before)
            signal.signal(signal.SIGCONT, stopped)
            signal.set_wakeup_fd(woken)

    def obey(self) -> None:
        """Leave now, when the process was told to while the model answered, or the prompt was there."""
        if self._noted not in (None, "SIGINT"):
            raise Leave(signal.Signals[str(self._noted)])

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = self._noted or signal.Signals(number).name

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._noted = signal.Signals(number).name
        leave = Leave(number)
        if not self._answering and not self.end_prompt(leave):
            raise leave

    def _leave(self, number: int) -> None:
        self.tidy()
        os._exit(128 + number)

    def _watch(self) -> None:
        """A thread of its own, which the library does not keep from running: deep inside it nobody listens."""
        while True:
            select.select([self._reader], [], [])
            with suppress(BlockingIOError):
                self._heed(os.read(self._reader, 1)[0])

    def _heed(self, number: int) -> None:
        if number in _ENDING:
            time.sleep(_LEAVE_S)
            if self._answering:
                self._leave(number)
        elif number == signal.SIGINT and self._answering:
            now = time.monotonic()
            if self._first is not None and now - self._first > _PATIENCE_S:
                self._leave(number)
            elif self._first is None:
                self._first = now
                time.sleep(_SOON_S)
                if self._answering:
                    self.slow()
