"""A chat without a terminal: a line is a question, and what comes out is the answers."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlxctl.chat.chat import Chat


def run(chat: "Chat", lines: Iterable[str]) -> None:
    """Answer line after line. What comes from a pipe is text: of commands it knows only those of mlx_lm.chat."""
    for line in lines:
        if line.strip() == "q":
            break
        if line.strip() == "r":
            chat.begin_anew()
        elif line.strip():
            chat.ask(line)
        if chat.over:
            break
    chat.leave()
