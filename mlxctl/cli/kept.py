"""What goes to stdout, to a file, or to both."""

from pathlib import Path

from mlxctl import paths, writing
from mlxctl.cli.streams import Out
from mlxctl.errors import ResourceError, UsageError
from mlxctl.settings import Request


class Kept:
    """A sink that keeps what is written for --output, which is all that gets it, or --tee, which gets it too.

    The file is written whole, when everything is there; until then what was there before stays.
    """

    def __init__(self, out: Out, request: Request) -> None:
        """Raises UsageError for a file that could not be written, or where nothing could."""
        self._out = out
        self.alone = request.output is not None
        self._file = _place(request)
        if not self.alone:
            out.require()
        self._texts: list[str] = []

    def goes_to(self, path: Path) -> bool:
        """Whether the file is this one. Raises UsageError where stdout is, and has been emptied by that."""
        if self._file is not None:
            return self._file.exists() and path.exists() and self._file.samefile(path)
        if path.exists() and self._out.has_emptied(path):
            raise UsageError(f"{path}: the shell has emptied it for stdout", hint="write to another file, or use >>")
        return False

    def keep(self, text: str) -> None:
        """Have this in the file, before what is written."""
        self._texts.append(text)

    def write(self, text: str) -> None:
        """Write to stdout, unless a file gets it instead."""
        if self._file is not None:
            self._texts.append(text)
        if not self.alone:
            self._out.write(text)

    def finish(self, *, whole: bool) -> None:
        """Nothing more will come. whole: whether the answer is all there; --output takes no half of one.

        Raises ResourceError; what could not be written to the file is on stdout then.
        """
        if self._file is None:
            return
        text = "".join(self._texts)
        if self.alone and not whole:
            self._out.write(text)
            return
        try:
            writing.put(self._file, text.encode("utf-8", "surrogateescape"), private=False)
        except OSError as error:
            if self.alone:
                self._out.write(text)
            raise ResourceError(f"{self._file}: {error.strerror}") from None


def _place(request: Request) -> Path | None:
    if request.output is not None and request.tee is not None:
        raise UsageError("--output and --tee: the answer goes to the file instead of stdout, or to both")
    if "-" in (request.output, request.tee):
        raise UsageError("-: an answer goes to stdout unless --output names a file")
    name, flag = (request.output, "--output") if request.output is not None else (request.tee, "--tee")
    if name is None:
        return None
    path = paths.absolute(name)
    if path.exists() and not path.is_file():
        raise UsageError(f"{flag} {name}: this is no plain file")
    if not path.parent.is_dir():
        raise UsageError(f"{flag} {name}: there is no such folder to write to")
    return path
