"""SIGINT and SIGTERM: the first asks the run to end, the second ends it; so does the first, a second later, when the
run is deep inside the library and cannot listen."""

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

_TWICE_S = 0.2  # one request may come twice: timeout(1) signals the process and its group
_GRACE_S = 1.0  # for the run to end by itself
_GOODBYE_S = 4.0  # for the goodbye, whose reader may be stuck


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

    def __init__(self, goodbye: Callable[[str], None], tidy: Callable[[], None]) -> None:
        """goodbye: ends the run in good order from another thread, when the main one cannot. tidy: leaves the
        terminal usable, at once; the process ends after it."""
        self.listening = False
        self.patience: float | None = _GRACE_S  # for the run to end by itself; None: as long as it takes
        self._goodbye = goodbye
        self._tidy = tidy
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
        number = _next(reader, None)
        time.sleep(_TWICE_S)
        while _next(reader, 0) is not None:
            pass
        if _next(reader, self.patience) is None:
            threading.Thread(target=self._say_goodbye, args=(number,), daemon=True).start()
            _next(reader, _GOODBYE_S)
        self._leave(number)

    def _say_goodbye(self, number: int) -> None:
        try:
            self._goodbye(signal.Signals(number).name)
        finally:
            self._leave(number)

    def _leave(self, number: int | None) -> None:
        self._tidy()
        os._exit(128 + (number or 0))


def _next(reader: int, timeout: float | None) -> int | None:
    """The number of the next signal we look after, or None when none comes in time."""
    while select.select([reader], [], [], timeout)[0]:
        number = os.read(reader, 1)[0]
        if number in (signal.SIGINT, signal.SIGTERM):
            return number
    return None
