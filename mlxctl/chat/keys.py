"""What is typed while the model answers: it waits, unseen and unchanged, for the next prompt."""

import os
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_LOCAL, _INPUT = 3, 0  # places in what termios gives


class Keys:
    """The terminal on stdin: keys are neither shown nor gathered to lines, but Ctrl-C and Ctrl-Z are signals still."""

    def __init__(self) -> None:
        self._before: list[object] | None = None

    def hold(self) -> None:
        """Begin with it."""
        with suppress(termios.error, OSError, ValueError):
            self._before = termios.tcgetattr(0)
            self.resume()

    def resume(self) -> None:
        """Take it again from the shell, whose it was while the process stood still."""
        if self._before is None:
            return
        with suppress(termios.error, OSError, ValueError):
            if os.tcgetpgrp(0) != os.getpgrp():
                return  # it goes on behind the shell, which has the terminal
            held = termios.tcgetattr(0)
            held[_LOCAL] = held[_LOCAL] & ~(termios.ECHO | termios.ICANON) | termios.NOFLSH
            held[_INPUT] &= ~termios.ICRNL
            termios.tcsetattr(0, termios.TCSANOW, held)

    def release(self) -> None:
        """Leave the terminal as it was."""
        if self._before is not None:
            with suppress(termios.error, OSError):
                termios.tcsetattr(0, termios.TCSANOW, self._before)  # type: ignore[arg-type]
            self._before = None

    @contextmanager
    def released(self) -> Iterator[None]:
        """For the time that another program has the terminal."""
        was_held = self._before is not None
        self.release()
        try:
            yield
        finally:
            if was_held:
                self.hold()
