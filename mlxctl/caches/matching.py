"""How a prompt and the conversation in a cache belong together."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from mlxctl.caches.meta import Meta
from mlxctl.events import Message


def is_whole(messages: Sequence[Message], names: Iterable[str], meta: Meta) -> bool:
    """Whether a prompt brings the beginning itself that a cache holds (a system prompt, the same files, the same first
    message), rather than what comes after it."""
    first = messages[0]
    if first["role"] == "system" or not meta.messages:
        return True
    stored = meta.messages[0]
    again = first["role"] == stored["role"] and stored["content"] and first["content"].startswith(stored["content"])
    files = {Path(part.name).name for part in meta.parts} - {"stdin", "the text", "the question"}
    return bool(again) or any(Path(name).name in files for name in names)


def continued(beginning: Sequence[Message], more: Sequence[Message]) -> list[Message]:
    """A conversation and what comes after it; an open text of the user goes on."""
    *before, last = beginning or [{"role": ""}]
    if last["role"] == "user" and more[0]["role"] == "user":
        return [*before, {**last, "content": last["content"] + more[0]["content"]}, *more[1:]]
    return [*beginning, *more]


def answered(messages: Sequence[Message], text: str) -> list[Message]:
    """A conversation with its answer, which may go on with one that was begun."""
    if messages[-1]["role"] == "assistant":
        return [*messages[:-1], {**messages[-1], "content": messages[-1]["content"] + text}]
    return [*messages, {"role": "assistant", "content": text}]


def changed_files(meta: Meta) -> Iterator[str]:
    """Files in the open text of a cache that are there and hold another text by now."""
    start, text = 0, meta.messages[-1]["content"] if meta.messages else ""
    for part in meta.parts:
        stored, start = text[start : start + part.characters], start + part.characters
        with suppress(OSError, ValueError):
            path = Path(part.name)
            if path.is_file() and path.read_text(encoding="utf-8").rstrip("\n") + "\n\n" != stored:
                yield part.name
