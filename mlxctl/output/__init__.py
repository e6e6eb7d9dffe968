"""Writers: each turns the events of a run into bytes on stdout. A format is the file of that name."""

from importlib import import_module
from typing import Protocol, cast

from mlxctl.events import Done, Token
from mlxctl.settings import Settings


class Sink(Protocol):
    """Where a writer writes."""

    def write(self, text: str) -> object: ...


class Writer(Protocol):
    """Told of a run as it goes."""

    def start(self) -> None:
        """The model is loaded and about to answer."""

    def progress(self, done: int, total: int) -> None:
        """So many tokens of the prompt are processed."""

    def token(self, token: Token) -> None:
        """One token came."""

    def done(self, done: Done) -> None:
        """The run has ended; nothing follows."""

    def fail(self, message: str, exit_status: int) -> None:
        """The run broke off with an error, which is also said on stderr; nothing follows."""


class Quiet:
    """A writer that writes nothing: the others override what they need."""

    def __init__(self, out: Sink, err: Sink, settings: Settings) -> None:
        self.out = out
        self.err = err
        self.settings = settings

    def start(self) -> None:
        pass

    def progress(self, done: int, total: int) -> None:
        pass

    def token(self, token: Token) -> None:
        pass

    def done(self, done: Done) -> None:
        pass

    def fail(self, message: str, exit_status: int) -> None:
        pass


def make_writer(out: Sink, err: Sink, settings: Settings) -> Writer:
    """The writer of `output.format`: out is the answer's, err the person's."""
    module = import_module(f"mlxctl.output.{settings.output.format}")
    return cast(Writer, module.Writer(out, err, settings))
