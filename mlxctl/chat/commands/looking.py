"""Commands that show what the model is handed, and how it did."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from mlxctl.chat.commands import command
from mlxctl.errors import UsageError
from mlxctl.output import stats as figures

if TYPE_CHECKING:
    from mlxctl.chat.chat import Chat


@command("/template")
def template(chat: "Chat", words: str) -> None:
    """Show the conversation as the model is handed it."""
    if not chat.conversation.said:
        raise UsageError("nothing was said yet")
    chat.screen.show(chat.conversation.rendered().text)


@command("/tokens")
def tokens(chat: "Chat", words: str) -> None:
    """Tell how many tokens the conversation has, of how many, and how many are held in memory."""
    room, held = chat.conversation.room(), chat.conversation.held()
    of = f" of {room.limit} ({room.share:.0%})" if room.limit else ""
    chat.screen.show(f"{room.used} tokens{of}, {len(held.ids) if held else 0} in the cache")


@command("/stats")
def stats(chat: "Chat", words: str) -> None:
    """Show all figures of the last answer."""
    if chat.last is None:
        raise UsageError("nothing was answered yet")
    chat.screen.show(figures.line(chat.last))
    for name, value in asdict(chat.last.timing).items():
        if value is not None:
            chat.screen.show(f"{name:<22}{value:.3f}" if isinstance(value, float) else f"{name:<22}{value}")
