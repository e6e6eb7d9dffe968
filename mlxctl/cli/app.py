"""What every command works with: the streams, and how to speak to the person."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from mlxctl.cli.streams import Err, In, Out, open_streams


@dataclass(frozen=True)
class App:
    """stdin, stdout (the answer alone), stderr (everything said to the person) and the environment."""

    stdin: In
    stdout: Out
    stderr: Err
    environ: Mapping[str, str]

    @classmethod
    def open(cls) -> "App":
        return cls(*open_streams(), environ=os.environ)

    def say(self, message: str) -> None:
        """Tell the person something, on stderr."""
        self.print_err(f"mlxctl: {message}")

    def print_err(self, line: str) -> None:
        """Write a line to stderr."""
        self.stderr.write(line + "\n")

    def coloured(self) -> bool:
        """Whether stdout is to have colours: on a terminal, unless NO_COLOR, TERM or FORCE_COLOR say otherwise."""
        if self.environ.get("NO_COLOR"):
            return False
        forced = bool(self.environ.get("FORCE_COLOR"))
        return forced or (self.stdout.isatty() and self.environ.get("TERM") != "dumb")

    def err_is_terminal(self) -> bool:
        """Whether stderr may be drawn on."""
        return self.stderr.isatty() and self.environ.get("TERM") != "dumb"
