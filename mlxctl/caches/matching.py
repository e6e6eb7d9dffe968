"""How a prompt and the conversation in a cache belong together."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from mlxctl.caches.meta import Meta, Piece
from mlxctl.events import Message
from mlxctl.texts import before


def joined(messages: Sequence[Message], pieces: Sequence[Piece], meta: Meta) -> list[Message]:
    """The whole conversation that a run from a cache is about.

    A prompt goes on with what the cache holds. What it brings of that once more (the same system prompt, in a
    conversation also the same files) is not told twice. It stands by itself, and is the whole, where it brings the
    beginning to be compared: another system prompt, a file that was prepared, or all the messages.
    pieces: what the last message of the prompt is made of.
    """
    stored = meta.messages
    if not stored or extends(messages, stored):
        return list(messages)
    systems = [[one for one in some[:1] if one["role"] == "system"] for some in (messages, stored)]
    if systems[0] and systems[0] != systems[1]:
        return list(messages)
    more = list(messages[len(systems[0]) :])
    held = {part.path for part in meta.parts if part.path is not None}
    again = [piece for piece in pieces if piece.path in held]
    answered_already = any(message["role"] == "assistant" for message in stored)
    if again and not answered_already:
        return list(messages)
    for piece in again:
        text = before(piece.text)
        if text in stored[meta.parts_of]["content"]:
            more[-1] = {**more[-1], "content": more[-1]["content"].replace(text, "", 1)}
    return continued(stored, more) if more else list(messages)


def extends(messages: Sequence[Message], stored: Sequence[Message]) -> bool:
    """Whether messages begin with all that a cache holds; an open text of the user may go on."""
    if len(messages) < len(stored):
        return False
    *rest, last = stored
    there = messages[len(rest)]
    goes_on = last["role"] == "user" and there["content"].startswith(last["content"])
    same_role = last["role"] == there["role"]
    return list(messages[: len(rest)]) == rest and same_role and (goes_on or last["content"] == there["content"])


def continued(beginning: Sequence[Message], more: Sequence[Message]) -> list[Message]:
    """A conversation and what comes after it; an open text of the user goes on."""
    *before_it, last = beginning
    if last["role"] == "user" and more[0]["role"] == "user":
        return [*before_it, {**last, "content": last["content"] + more[0]["content"]}, *more[1:]]
    return [*beginning, *more]


def answered(messages: Sequence[Message], text: str) -> list[Message]:
    """A conversation with its answer, which may go on with one that was begun."""
    if messages[-1]["role"] == "assistant":
        return [*messages[:-1], {**messages[-1], "content": messages[-1]["content"] + text}]
    return [*messages, {"role": "assistant", "content": text}]


def changed_files(meta: Meta) -> Iterator[str]:
    """Files in a cache that are there and hold another text by now."""
    start, text = 0, meta.messages[meta.parts_of]["content"] if meta.messages else ""
    for part in meta.parts:
        stored, start = text[start : start + part.characters], start + part.characters
        with suppress(OSError, ValueError):
            if part.path is not None and before(Path(part.path).read_text(encoding="utf-8")) != stored:
                yield part.name
