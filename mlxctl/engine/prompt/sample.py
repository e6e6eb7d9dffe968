"""What a tokenizer and its template make of a small conversation, for the checks of the lint to look at."""

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from mlxctl.engine.loader import EOS_FILES, eos_in
from mlxctl.engine.prompt.render import apply, encode
from mlxctl.engine.special import protected
from mlxctl.errors import TemplateError, first_line
from mlxctl.events import Message
from mlxctl.settings import Settings

QUESTION, ANSWER, SECOND = "When does ferry seven leave?", "Ferry seven leaves at nine.", "And from which pier?"
SYSTEM, THOUGHT, TOOL = "Reply as harbour master.", "Perhaps consult Neptune", "HIGHWATER-TWELVE"


class Sample:
    """A tokenizer with its template, and what it makes of a small conversation; every rendering is made once."""

    def __init__(self, tokenizer: Any, settings: Settings, folder: Path | None) -> None:
        self.tokenizer = tokenizer
        self.settings = settings
        self.folder = folder
        self.faults: dict[str, str] = {}
        self.stumbles: list[str] = []  # of checks that could not be made
        self._rendered: dict[str, str | None] = {}

    @cached_property
    def renders(self) -> bool:
        """Whether there is a template, and it takes a question."""
        return bool(self.tokenizer.has_chat_template) and self.text(user()) is not None

    def text(self, *messages: Message, generate: bool = True) -> str | None:
        """The messages as the template writes them; None where it fails (`why` tells)."""
        key = json.dumps([messages, generate])
        if key not in self._rendered:
            self._rendered[key] = None
            try:
                self._rendered[key] = apply(self.tokenizer, messages, self.settings, generate=generate)
            except TemplateError as error:
                cause = error.__cause__
                self.faults[key] = first_line(cause) if isinstance(cause, Exception) else error.message
        return self._rendered[key]

    @cached_property
    def beginnings(self) -> list[tuple[Message, ...]]:
        """What may stand before a question: nothing, or a system prompt where that comes through."""
        system: Message = {"role": "system", "content": SYSTEM}
        return [(), *([(system,)] if SYSTEM in (self.text(system, user()) or "") else [])]

    def why(self, *messages: Message) -> str:
        """Why the template fails with these messages."""
        found = self.faults.get(json.dumps([messages, True]), "")
        return found.encode("utf-8", "replace").decode()  # it may complain in half a character

    def ids(self, text: str) -> list[int]:
        """Token ids of a rendered text."""
        return encode(self.tokenizer, text, False, self.settings)

    @cached_property
    def special(self) -> dict[str, int]:
        """The tokens that are no text, by their spelling."""
        return protected(self.tokenizer)

    def first_special(self, text: str) -> str | None:
        """The special token that comes first in a text."""
        found = [(text.find(name), -len(name), name) for name in self.special if name in text]
        return min(found)[2] if found else None

    @cached_property
    def endings(self) -> list[str]:
        """What stands after an answer: the last of a conversation, and one that more follows."""
        last = self.text(user(), assistant(), generate=False) or ""
        more = self.text(user(), assistant(), user(SECOND), generate=False) or ""
        tails = [last.rpartition(ANSWER)[2] if ANSWER in last else "", more.partition(ANSWER)[2].partition(SECOND)[0]]
        return [tail for tail in tails if tail]

    @cached_property
    def long(self) -> str:
        """A conversation of five questions as the template writes it; "" where that fails."""
        said = [message for number in range(4) for message in (user(numbered(QUESTION, number)),
                                                               assistant(numbered(ANSWER, number)))]  # fmt: skip
        return self.text(*said, user(SECOND)) or ""

    @cached_property
    def eos_by_file(self) -> dict[str, set[int]]:
        """Who says which tokens end an answer; those that say nothing are left out."""
        found = {"the tokenizer": {id for id in (self.tokenizer.eos_token_id,) if id is not None}}
        if self.folder is not None:
            found |= {name: eos_in(self.folder / name) for name in EOS_FILES}
        return {name: ids for name, ids in found.items() if ids}

    def named(self, ids: Sequence[int] | set[int]) -> str:
        """Tokens as a person reads them."""
        return ", ".join(f"{self.piece(id) or 'no token'} ({id})" for id in sorted(ids))

    def piece(self, id: int) -> str | None:
        """A token of the vocabulary; None for an id that is none of it."""
        try:
            piece: str | None = self.tokenizer.convert_ids_to_tokens(id)
        except OverflowError:  # beyond what the tokenizer counts with
            return None
        return piece if piece is None or piece.isprintable() else json.dumps(piece)


def numbered(text: str, number: int) -> str:
    """One of several texts that are told apart."""
    return f"{number}. {text}"


def user(text: str = QUESTION) -> Message:
    """A message of the user."""
    return {"role": "user", "content": text}


def assistant(text: str = ANSWER) -> Message:
    """A message of the model."""
    return {"role": "assistant", "content": text}
