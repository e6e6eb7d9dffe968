"""What Tab offers in a chat."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from mlxctl.chat.commands import commands
from mlxctl.errors import UsageError
from mlxctl.options import Option

if TYPE_CHECKING:
    from mlxctl.chat.chat import Chat


class SlashCommands(Completer):
    """Slash-commands and their arguments; nothing in a text."""

    def __init__(self, chat: "Chat") -> None:
        self._chat = chat
        self._files = PathCompleter(expanduser=True)
        self._folders = PathCompleter(expanduser=True, only_directories=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        line = document.text_before_cursor
        if not line.startswith("/") or "\n" in line:
            return
        name, space, words = line[1:].partition(" ")
        if not space:
            yield from _matching(name, ((one.name, one.help) for one in commands().values()))
            return
        known = commands().get(name)
        if known is None:
            return
        if known.completes == "files":
            yield from self._files.get_completions(Document(words, len(words)), complete_event)
        elif known.completes == "settings":
            yield from self._setting(words, values=known.name == "set")
        else:
            yield from _matching(words, ((word, "") for word in self._words(known.completes)))
            if known.completes == "models":
                yield from self._folders.get_completions(Document(words, len(words)), complete_event)

    def _setting(self, words: str, *, values: bool) -> Iterator[Completion]:
        from mlxctl.chat.commands.settings import find, settable

        name, space, value = words.partition(" ")
        rows = settable()
        if not space:
            yield from _matching(name, ((row.key, row.help) for row in rows.values()), anywhere=True)
        elif values:
            with suppress(UsageError):
                yield from self._value(find(name), value)

    def _value(self, row: Option, value: str) -> Iterator[Completion]:
        choices = row.choices or (("true", "false") if row.base is bool else ())
        yield from _matching(value, ((str(choice), "") for choice in choices))

    def _words(self, kind: str) -> Iterable[str]:
        from mlxctl import profiles
        from mlxctl.chat import sessions
        from mlxctl.chat.answer import MODES

        if kind == "commands":
            return list(commands())
        if kind == "thinking":
            return (*MODES, "on", "off")
        if kind == "sessions":
            return [entry.name for entry in sessions.entries()]
        if kind == "profiles":
            return sorted({path.stem for path in profiles.everywhere()})
        return _models() if kind == "models" else ()


def _matching(begun: str, words: Iterable[tuple[str, str]], *, anywhere: bool = False) -> Iterator[Completion]:
    """Those that begin so, or a part of which does."""
    for word, help in words:
        if word.startswith(begun) or (anywhere and word.partition(".")[2].startswith(begun)):
            yield Completion(word, start_position=-len(begun), display_meta=help)


def _models() -> list[str]:
    """What is in the hub's cache, and what comes with mlxctl."""
    found = ["builtin:smollm2-135m"]
    with suppress(UsageError, OSError, ImportError):
        from huggingface_hub.constants import HF_HUB_CACHE

        for folder in sorted(os.listdir(HF_HUB_CACHE)):  # noqa: PTH208 the library's path is a text
            if folder.startswith("models--"):
                found.append(folder.removeprefix("models--").replace("--", "/"))
    return found
