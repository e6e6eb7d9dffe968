"""Keeping the text of people, files and pipes from turning into special tokens.

A page that spells `<|im_end|>` must not end a turn. For the rare text that spells a protected token, the template is
rendered with stand-ins for those spellings, and the result is encoded by a copy of the tokenizer whose protected
tokens carry secret names: what the template wrote is renamed, what the text spelled is not, and stays text.
"""

import json
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mlxctl.errors import UsageError
from mlxctl.events import Message


def protected(tokenizer: Any) -> dict[str, int]:
    """The tokens that text must not forge, spelling -> id: special ones, those that end an answer, and added ones
    that the chat template writes."""
    template = str(tokenizer.chat_template or "")
    return {
        token.content: id
        for id, token in tokenizer.added_tokens_decoder.items()
        if token.content.strip() and (token.special or id in tokenizer.eos_token_ids or token.content in template)
    }


class Guard:
    """Keeps the spellings in the texts of one prompt text.

    In the model's own earlier answers the thinking markers stay visible: templates look for them there.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        nonce = secrets.token_hex(8)
        names = protected(tokenizer)
        self._stand_in = {name: f"qz{nonce}t{i}z" for i, name in enumerate(names)}
        self._secret = {name: f"qz{nonce}s{i}z" for i, name in enumerate(names)}
        self._spelling = _any_of(names)
        self._spelling_of_answers = _any_of(names.keys() - {tokenizer.think_start, tokenizer.think_end})

    def spelled(self, messages: Sequence[Message]) -> bool:
        """Whether any text inside the messages spells a protected token."""
        return list(messages) != self.hide(messages)

    def hide(self, messages: Sequence[Message]) -> list[Message]:
        """Copy the messages, with stand-ins for the spellings."""
        return [self._hide(message) for message in messages]

    def _hide(self, message: Message) -> Message:
        pattern = self._spelling_of_answers if message["role"] == "assistant" else self._spelling
        hidden: Message = _map_texts(message, lambda text: _swap(pattern, text, self._stand_in))
        return hidden

    def reveal(self, rendered: str) -> str:
        """The rendered text as a reader should see it."""
        for name, stand_in in self._stand_in.items():
            rendered = rendered.replace(stand_in, name)
        return rendered

    def encode(self, rendered: str, *, add_special_tokens: bool) -> list[int]:
        """Token ids of a text rendered from hidden messages."""
        text = self.reveal(_swap(self._spelling, rendered, self._secret))
        try:
            ids: list[int] = self._renamed().encode(text, add_special_tokens=add_special_tokens).ids
        except Exception as error:  # of the Rust library, which has one type for all
            raise _cannot() from error
        return ids

    def _renamed(self) -> Any:
        """A copy of the fast tokenizer in which the protected tokens have their secret names."""
        from tokenizers import Tokenizer

        return Tokenizer.from_str(json.dumps(self.renamed()))

    def renamed(self) -> dict[str, Any]:
        """The data of the fast tokenizer in which no text spells a protected token. Raises UsageError."""
        from transformers.tokenization_utils_base import PreTrainedTokenizerBase as Base

        plain_encode = type(self._tokenizer._tokenizer).encode is Base.encode
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        if backend is None or not plain_encode:
            raise _cannot()
        data = json.loads(backend.to_str())
        for token in data["added_tokens"]:
            token["content"] = self._secret.get(token["content"], token["content"])
        model = data["model"]
        model["vocab"] = self._rename_vocab(model["vocab"])
        if isinstance(model.get("unk_token"), str):
            model["unk_token"] = self._secret.get(model["unk_token"], model["unk_token"])
        return dict(data)

    def _rename_vocab(self, vocab: Any) -> Any:
        if isinstance(vocab, dict):
            return {self._secret.get(piece, piece): id for piece, id in vocab.items()}
        return [[self._secret.get(piece, piece), score] for piece, score in vocab]  # Unigram


def _cannot() -> UsageError:
    return UsageError(
        "the text spells a special token, and this model's tokenizer cannot take it as plain text",
        hint="remove it from the text, or let it become the token with --allow-special",
    )


def _any_of(names: Iterable[str]) -> re.Pattern[str] | None:
    """Match any of the names, the longest first, as tokenizers does."""
    ordered = sorted(names, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None


def _swap(pattern: re.Pattern[str] | None, text: str, names: dict[str, str]) -> str:
    return pattern.sub(lambda match: names[match[0]], text) if pattern else text


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Apply `change` to every string inside a value."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map_texts(item, change) for key, item in value.items()}
    return [_map_texts(item, change) for item in value] if isinstance(value, list) else value
