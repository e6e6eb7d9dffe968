"""Commands about what is kept."""

import time
from typing import TYPE_CHECKING

from mlxctl.chat import sessions as kept
from mlxctl.chat.commands import command
from mlxctl.errors import UsageError

if TYPE_CHECKING:
    from mlxctl.chat.chat import Chat


@command("/save NAME")
def save(chat: "Chat", words: str) -> None:
    """Give this session another name (it is kept after every answer in any case; /branch makes a copy)."""
    before = chat.keeper.name
    chat.keeper.rename(words)
    chat.save()
    chat.screen.say(f"this session is called {words} now, and {before} no more" if before
                    else f"this chat is kept from now on, as {words}")  # fmt: skip


@command("/load NAME", completes="sessions")
def load(chat: "Chat", words: str) -> None:
    """Leave this session and go on with another."""
    chat.load(words)


@command("/branch [NAME]")
def branch(chat: "Chat", words: str) -> None:
    """Go on in a copy of this session; this one stays as it is."""
    before = chat.keeper.name
    chat.keeper.branch(words or None)
    chat.save()
    chat.screen.say(f"session {chat.keeper.name}" + (f", a copy of {before}" if before else ""))


@command("/delete NAME", completes="sessions")
def delete(chat: "Chat", words: str) -> None:
    """Remove another session for good, its cache too."""
    if words == chat.keeper.name:
        raise UsageError(f"session {words}: it is open; /clear begins another")
    kept.remove(words)
    chat.screen.say(f"session {words} is removed")


@command("/sessions")
def sessions(chat: "Chat", words: str) -> None:
    """List the sessions that are kept, the last used first."""
    found = kept.entries()
    for entry in found:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
        chat.screen.show(f"{'*' if entry.name == chat.keeper.name else ' '} {when}  {entry.name}  {entry.first}")
    if not found:
        chat.screen.say("none is kept yet")
