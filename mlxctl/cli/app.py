"""What every command works with: the streams, and how to speak to the person."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from mlxctl.cli.streams import In, Out, open_streams


@dataclass(frozen=True)
class App:
    """stdin, stdout (the answer alone), stderr (everything said to the person) and the environment."""

    stdin: In
    stdout: Out
    stderr: TextIO
    environ: Mapping[str, str]

    @classmethod
    def open(cls) -> "App":
        return cls(*open_streams(), environ=os.environ)

    def say(self, message: str) -> None:
        """Tell the person something, on stderr."""
        self.print_err(f"mlxctl: {message}")

    def print_err(self, line: str) -> None:
        """Write a line to stderr; a reader of it that went away is no fault."""
        try:
            self.stderr.write(line + "\n")
            self.stderr.flush()
        except OSError:
            pass

    def err_is_terminal(self) -> bool:
        """Whether stderr may be drawn on."""
        return self.stderr.isatty() and self.environ.get("TERM") != "dumb"
