"""A program on a pseudo-terminal, and the screen that a person would see."""

import re
import time
from collections.abc import Callable

import pexpect
import pyte
from conftest import Program

PATIENCE_S = 30.0
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")


def squeezed(text: str) -> str:
    """A text without its spaces and line ends: where a line is wrapped does not matter then."""
    return "".join(text.split())


class Terminal:
    """Runs the program under test; `screen` is what stands there now. Keys are sent, and what is awaited appears."""

    def __init__(self, mlxctl: Program, *args: str, size: tuple[int, int] = (24, 80), **env: str) -> None:
        self.child = pexpect.spawn(
            mlxctl.path, list(args), env={**mlxctl.env, "TERM": "xterm-256color", **env}, cwd=str(mlxctl.cwd),
            dimensions=size, timeout=PATIENCE_S,
        )  # fmt: skip
        self._screen = pyte.HistoryScreen(size[1], size[0], history=5000)
        self._screen.write_process_input = self.child.send  # it answers where the cursor is
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self.width = size[1]
        self._sent = 0  # how much had been written when a key was pressed last

    @property
    def lines(self) -> list[str]:
        """The lines of the screen."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        """The screen as one text."""
        return "\n".join(self.lines)

    def read(self, seconds: float = 0.05) -> bool:
        """Take what the program has written; False at its end."""
        try:
            data = self.child.read_nonblocking(65536, seconds)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self._stream.feed(data)
        return True

    def until(self, what: Callable[[], bool], why: str) -> None:
        """Read until something is so."""
        end = time.monotonic() + PATIENCE_S
        while not what():
            alive = self.read()
            assert time.monotonic() < end and (alive or what()), f"{why} did not come; the screen:\n{self.text}"

    def see(self, text: str) -> None:
        """Wait until a text has been written since the last key, however it is wrapped."""
        wanted = squeezed(text)
        self.until(lambda: wanted in squeezed(self.news), repr(text))

    def line(self, text: str) -> None:
        """Wait until this is what is being written, after the prompt."""
        wanted = squeezed(f">>> {text}")
        self.until(lambda: squeezed(self.prompt) == wanted, f"the line {text!r}")

    @property
    def prompt(self) -> str:
        """The last prompt on the screen and what is being written there, without the bar below."""
        rows = self.lines[:-1]
        start = max((number for number, row in enumerate(rows) if row.startswith(">>>")), default=len(rows))
        return "\n".join(row.removeprefix("... ") for row in rows[start:])

    @property
    def news(self) -> str:
        """What was written since the last key, without what only steers the terminal."""
        return _ESCAPES.sub(b"", self.raw[self._sent :]).decode(errors="replace")

    def ready(self) -> None:
        """Wait for an empty prompt with its bar."""
        self.until(lambda: any(line == ">>>" for line in self.lines) and "cache" in self.lines[-1], "the prompt")

    def resize(self, rows: int, columns: int) -> None:
        """Give the window another size, as a person does who pulls at its corner."""
        self._screen.resize(rows, columns)
        self.width = columns
        self.child.setwinsize(rows, columns)

    def style(self, text: str) -> tuple[bool, bool]:
        """(bold, underlined) of a text on the screen, by its first character."""
        row = next(number for number, line in enumerate(self.lines) if text in line)
        cell = self._screen.buffer[row][self.lines[row].index(text)]
        return cell.bold, cell.underscore

    def send(self, keys: str) -> None:
        """Press keys."""
        self._sent = len(self.raw)
        self.child.send(keys)

    def enter(self, line: str) -> None:
        """Type a line, once the prompt is there, and wait for the next prompt."""
        self.ready()
        seen = self.raw.count(b">>> ")
        self.send(line)
        shown = line.splitlines()[-1][-10:]
        self.until(lambda: squeezed(shown) in squeezed(self.text), f"{shown!r}")
        self.send("\r")
        self.until(
            lambda: self.raw.count(b">>> ") > seen and any(line == ">>>" for line in self.lines[-24:]), "a prompt"
        )
        self.ready()

    def end(self) -> int:
        """Read to the end; the exit status."""
        while self.read(1.0):
            pass
        self.child.wait()
        status = self.child.exitstatus
        return -1 if status is None else int(status)

    def close(self) -> None:
        """End it by force, if it has not ended."""
        self.child.close(force=True)
