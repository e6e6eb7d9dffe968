"""SIGINT and SIGTERM: the first asks the run to end, the second ends it; so does the first, a second later, when the
run is deep inside the library and cannot listen."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

_GRACE_S = 1.0


class Interrupted(BaseException):
    """A signal came where nothing could be finished in good order."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def exit_status(name: str) -> int:
    """The status a shell reports for a process ended by this signal."""
    return 128 + signal.Signals[name]


class Signals:
    """Watches for signals from `install` on. While `listening`, a signal is only noted, for `asked` to tell."""

    def __init__(self, stuck: Callable[[str], None]) -> None:
        """stuck: says goodbye from another thread when the main one cannot; the process ends after it."""
        self.listening = False
        self._stuck = stuck
        self._name: str | None = None

    def install(self) -> None:
        """Take over the signals that are not ignored (a job started with nohup or & may ignore them)."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)
        threading.Thread(target=self._watch, args=(reader,), daemon=True).start()

    def asked(self) -> str | None:
        """The name of the signal that asked the run to end."""
        return self._name

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._name is None:
            self._name = signal.Signals(number).name
            if not self.listening:
                raise Interrupted(self._name)

    def _watch(self, reader: int) -> None:
        """Runs in a thread of its own, which the C code of the library does not keep from running."""
        name = self._next(reader)
        timer = threading.Timer(_GRACE_S, self._leave, (name,))
        timer.daemon = True
        timer.start()
        os._exit(exit_status(self._next(reader)))

    def _next(self, reader: int) -> str:
        while True:
            number = os.read(reader, 1)[0]
            if number in (signal.SIGINT, signal.SIGTERM):
                return signal.Signals(number).name

    def _leave(self, name: str) -> None:
        try:
            self._stuck(name)
        finally:
            os._exit(exit_status(name))
