"""The process's standard streams: bytes out as they are meant, whatever the locale, and every way they can fail."""

import errno
import fcntl
import io
import os
import select
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mlxctl.documents import MOST
from mlxctl.errors import ReaderGone, ResourceError, UsageError
from mlxctl.terminal import harmless
from mlxctl.texts import decode


class Out:
    """stdout, or any file descriptor: text goes out at once, as UTF-8."""

    def __init__(self, fd: int, *, closed: bool = False, raw: bool = False) -> None:
        """raw: control characters pass, for what draws on the terminal."""
        self._fd = fd
        self._closed = closed
        self._shown = not raw and self.isatty()

    def require(self) -> None:
        """Fail before any work when there is nowhere to write (UsageError)."""
        if self._closed:
            raise UsageError("stdout is closed: there is nowhere to write to")

    def isatty(self) -> bool:
        return not self._closed and os.isatty(self._fd)

    def reader_gone(self) -> bool:
        """Whether nobody can read what would be written: known before anything is."""
        watch = select.poll()
        watch.register(self._fd, 0)  # errors and hang-ups are always told
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in watch.poll(0))

    def has_emptied(self, path: Path) -> bool:
        """Whether this is the file, opened so that what it held is lost (`> FILE` rather than `>> FILE`)."""
        if self._closed or not path.is_file() or not os.path.samestat(path.stat(), os.fstat(self._fd)):
            return False
        return not fcntl.fcntl(self._fd, fcntl.F_GETFL) & os.O_APPEND

    def write(self, text: str) -> None:
        """Write all of the text. Raises ReaderGone, or ResourceError when the disk is full."""
        self.draw(harmless(text) if self._shown else text)

    def draw(self, text: str) -> None:
        """Write a text whose control characters are meant for the terminal: colours, and nothing that is not ours."""
        if text:
            self.require()
        data = memoryview(_encode(text))
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                select.select([], [self._fd], [])  # somebody made the pipe non-blocking
            except BrokenPipeError:
                raise ReaderGone("the reader of stdout went away") from None
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise ResourceError("stdout: no space left on the device") from None
                raise ResourceError(f"stdout: {error.strerror}") from None


def _encode(text: str) -> bytes:
    """As UTF-8; the name of a file that is not keeps its bytes."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


class TextOut(io.TextIOBase):
    """`Out` in the place of sys.stdout: what fails there is ours to tell, and nothing waits in a buffer."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, out: Out) -> None:
        self._out = out

    def write(self, text: str) -> int:
        self._out.write(text)
        return len(text)

    def isatty(self) -> bool:
        return self._out.isatty()


class Err(io.TextIOBase):
    """stderr: a reader that went away, or a full disk, does not end a run."""

    errors = "backslashreplace"

    def __init__(self, fd: int, encoding: str, *, raw: bool = False) -> None:
        """raw: control characters pass, for what draws on the terminal."""
        self._fd = fd
        self._encoding = encoding
        self._shown = not raw and self.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def write(self, text: str) -> int:
        shown = harmless(text) if self._shown else text
        data = memoryview(shown.encode(self.encoding, self.errors))
        with suppress(OSError):
            while data:
                data = data[os.write(self._fd, data) :]
        return len(text)

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def fileno(self) -> int:
        return self._fd


class In:
    """stdin: what kind it is, and its text."""

    def __init__(self, fd: int, *, closed: bool = False) -> None:
        self._fd = fd
        self._closed = closed

    def isatty(self) -> bool:
        return not self._closed and os.isatty(self._fd)

    def carries_data(self) -> bool:
        """Whether it is a pipe, a socket or a file: something that was connected to be read."""
        mode = 0 if self._closed else os.fstat(self._fd).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)

    def ready(self) -> bool:
        """Whether a read would not wait."""
        return bool(select.select([self._fd], [], [], 0)[0])

    def read(self) -> str:
        """Everything up to its end; UsageError when it is closed or not UTF-8."""
        return decode(self.read_bytes(), "stdin")

    def read_bytes(self) -> bytes:
        """The same, whatever it is."""
        if self._closed:
            raise UsageError("stdin is closed: there is no prompt to read")
        try:
            return self._all()
        except OSError as error:
            raise UsageError(f"stdin: {error.strerror}") from None

    def _all(self) -> bytes:
        data = bytearray()
        for piece in iter(self._some, b""):
            data += piece
            if len(data) > MOST:
                raise UsageError(f"stdin: more than {MOST // 10**6} MB have come, and no model takes so much")
        return bytes(data)

    def lines(self) -> Iterator[str]:
        """Line after line, without their ends, as they come. Raises what `read` does."""
        if self._closed:
            raise UsageError("stdin is closed: there is nothing to read")
        rest = b""
        try:
            for piece in iter(self._some, b""):
                *lines, rest = (rest + piece).split(b"\n")
                yield from (decode(line, "stdin").removesuffix("\r") for line in lines)
        except OSError as error:
            raise UsageError(f"stdin: {error.strerror}") from None
        if rest:
            yield decode(rest, "stdin")

    def _some(self) -> bytes:
        while True:
            try:
                return os.read(self._fd, 1 << 20)
            except BlockingIOError:
                select.select([self._fd], [], [])  # somebody made the pipe non-blocking


def open_streams() -> tuple[In, Out, Err]:
    """Take over stdin, stdout and stderr.

    A closed descriptor is given to /dev/null, so that no file opened later gets its number and our output with it.
    """
    closed = [_reserve(fd) for fd in (0, 1, 2)]
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    out = Out(1, closed=closed[1])
    sys.stdout, sys.stderr = TextOut(out), Err(2, encoding, raw=True)
    return In(0, closed=closed[0]), out, Err(2, encoding)


def _reserve(fd: int) -> bool:
    """Put /dev/null on a descriptor that is closed; return whether it was."""
    try:
        os.fstat(fd)
    except OSError:
        os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
        return True
    return False


def divert_prints() -> None:
    """Send what libraries print to stderr: stdout holds the answer alone."""
    sys.stdout = sys.stderr
