"""Where a chat is shown: answers go to stdout, everything else to stderr, with colours where they may be."""

import shutil
import textwrap
from dataclasses import dataclass

from mlxctl.output import Sink
from mlxctl.terminal import harmless

_RESET, _DIM = "\x1b[0m", "\x1b[2m"


@dataclass
class Screen:
    """out, err: take text as it is, escape codes too. drawn: out is a terminal. styled: colours are wanted there.

    interactive: a person types. movable: where that is, the cursor can be moved.
    """

    out: Sink
    err: Sink
    interactive: bool
    drawn: bool
    styled: bool
    movable: bool = False

    def answer(self, text: str) -> None:
        """A piece of an answer."""
        self.out.write(harmless(text) if self.drawn else text)

    def aside(self, text: str) -> None:
        """A piece of thinking, or what else stands back behind the answer."""
        shown = harmless(text) if self.drawn else text
        self.out.write(f"{_DIM}{shown}{_RESET}" if self.styled and self.drawn else shown)

    def say(self, text: str) -> None:
        """Something that the person should know, on lines of its own."""
        shown = harmless(text) if self.interactive else text
        if not self.interactive:
            self.err.write(f"mlxctl: {shown}\n")
            return
        shown = "\n".join(line for part in shown.split("\n") for line in textwrap.wrap(part, self.width - 1) or [""])
        self.err.write(f"{_DIM}{shown}{_RESET}\n" if self.styled else f"{shown}\n")

    def show(self, text: str) -> None:
        """What a command was asked for, on lines of its own."""
        self.err.write((harmless(text) if self.interactive else text) + "\n")

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return max(shutil.get_terminal_size((80, 24)).columns, 10)

    @property
    def height(self) -> int:
        """Rows of the terminal."""
        return max(shutil.get_terminal_size((80, 24)).lines, 4)
