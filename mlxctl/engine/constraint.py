"""An answer held to a grammar: what may not come next cannot be sampled."""

import functools
import json
from collections.abc import Sequence
from typing import Any

from mlxctl.engine.special import Guard, protected
from mlxctl.errors import MlxctlError, UsageError, first_line


class Constraint:
    """A logits processor that masks what the grammar forbids, for one answer.

    It looks at the tokens it is given rather than count calls: with a draft model the same place comes up twice, and
    drafts are taken back. Thinking is free; the grammar begins after it.
    """

    def __init__(
        self, grammar: str, tokenizer: Any, vocab_size: int, *, begun: str = "", thinks: bool = False,
        inside: bool = False,
    ) -> None:  # fmt: skip
        """begun: what the answer goes on with. thinks: it may begin with thoughts. inside: the prompt has opened them.

        Raises UsageError where the tokenizer's vocabulary cannot be read, the grammar is too much, or the answer was
        begun otherwise.
        """
        from llguidance import LLMatcher

        if not tokenizer.eos_token_ids:
            raise UsageError("the model has no token that ends an answer, and a grammar needs one (--extra-eos-token)")
        self._start = list(tokenizer.think_start_tokens or ()) if thinks else []
        self._end = list(tokenizer.think_end_tokens or ()) if thinks or inside else []
        self._inside = inside
        self._eos = sorted(tokenizer.eos_token_ids)
        self._size = max(vocab_size, len(tokenizer))
        self._vocabulary = _vocabulary(tokenizer, self._size)
        self._grammar, self._begun = grammar, begun
        self._matcher = LLMatcher(self._vocabulary, grammar, log_level=0)
        self._require_sound(UsageError)
        if begun and not self._matcher.consume_tokens(self._vocabulary.tokenize_str(begun)):
            raise UsageError("the answer was begun with a text that the grammar does not allow")
        self._prompt: int | None = None  # tokens before the answer, as the library counts them
        self._taken: list[int] = []  # tokens that the grammar has seen
        self._began: int | None = None  # where the answer began when it was last looked for
        self._looked = 0  # tokens that were looked through for the end of the thoughts

    def __call__(self, tokens: Any, logits: Any) -> Any:
        import mlx.core as mx

        if self._prompt is None:
            self._prompt = int(tokens.size)
        allowed = self._allowed(tokens[self._prompt :].tolist(), int(logits.shape[-1]))
        held = mx.where(mx.array(allowed), logits, -mx.inf)
        if mx.max(held).item() == -mx.inf:
            raise UsageError("nothing that the grammar allows next may be sampled: --ban or --logit-bias forbids it")
        return held

    def is_complete(self, ids: Sequence[int]) -> bool:
        """Whether nothing can follow these tokens of the answer but its end."""
        return self._follow(ids) and bool(self._matcher.is_stopped())

    def is_satisfied(self, ids: Sequence[int]) -> bool:
        """Whether the answer may end with these tokens."""
        return self._follow(ids) and bool(self._matcher.is_accepting())

    def accepts(self, text: str) -> bool:
        """Whether the answer may be this text, which is not what the tokens say where a stop text has cut it."""
        from llguidance import LLMatcher

        matcher = LLMatcher(self._vocabulary, self._grammar, log_level=0)
        whole = self._vocabulary.tokenize_str(self._begun + text)
        return bool(matcher.consume_tokens(whole) and matcher.is_accepting())

    def _allowed(self, ids: list[int], size: int) -> Any:
        """Which tokens may come next: a numpy array of bool."""
        import numpy as np

        allowed = np.ones(size, dtype=bool)
        if forced := self._opening(ids):
            allowed[:] = False
            allowed[forced] = True
        elif not self._follow(ids):
            allowed[self._eos] = False  # an answer does not end with its thoughts
        else:
            allowed[:] = self._mask(size)
            if not ids and self._start:
                allowed[self._start[0]] = True
        return allowed

    def _opening(self, ids: list[int]) -> int | None:
        """The token that must follow in a marker of several which the answer has begun."""
        begun = len(ids)
        return self._start[begun] if 0 < begun < len(self._start) and ids == self._start[:begun] else None

    def _follow(self, ids: Sequence[int]) -> bool:
        """Bring the grammar to where these tokens of the answer lead; False while they are thoughts."""
        begin = self._begins(ids)
        wanted = list(ids[begin:]) if begin is not None else []
        # A draft may go on behind the end, which nobody will see.
        wanted = wanted[: next((n for n, id in enumerate(wanted) if id in self._eos), len(wanted))]
        same = next((n for n, (a, b) in enumerate(zip(self._taken, wanted, strict=False)) if a != b),
                    min(len(self._taken), len(wanted)))  # fmt: skip
        if same < len(self._taken):
            self._matcher.rollback(len(self._taken) - same)
        if same < len(wanted):
            self._matcher.consume_tokens(wanted[same:])
        self._taken = wanted
        self._require_sound(MlxctlError)
        return begin is not None

    def _begins(self, ids: Sequence[int]) -> int | None:
        """Where the answer proper begins; None while it is not there."""
        opened = len(self._start)
        if self._inside:
            opened = 0
        elif not self._start or list(ids[:opened]) != self._start:
            return 0
        size, known = len(self._end), self._began
        if known is not None and list(ids[known - size : known]) == self._end:
            return known
        # What was looked through is looked through again only from where an end may have begun.
        since = opened if len(ids) < self._looked else max(opened, self._looked - size)
        ends = (n + size for n in range(since, len(ids) - size + 1) if list(ids[n : n + size]) == self._end)
        self._began, self._looked = next(ends, None), len(ids)
        return self._began

    def _mask(self, size: int) -> Any:
        import numpy as np
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

        words = allocate_token_bitmask(1, self._size)
        fill_next_token_bitmask(self._matcher, words)
        self._require_sound(MlxctlError)
        found = np.unpackbits(words.view(np.uint8), bitorder="little")[: min(self._size, size)]
        return np.pad(found, (0, size - len(found))).astype(bool)

    def _require_sound(self, kind: type[MlxctlError]) -> None:
        if self._matcher.is_error():
            raise kind(f"the grammar cannot be followed: {self._matcher.get_error().splitlines()[0][:200]}")


@functools.lru_cache(maxsize=2)
def _vocabulary(tokenizer: Any, vocab_size: int) -> Any:
    """The tokens as llguidance knows them. What a grammar spells is text, and none of it is a special token."""
    from llguidance import LLTokenizer

    try:
        data = Guard(tokenizer).renamed() | {"padding": None, "truncation": None}
        ends = protected(tokenizer).values()
        for token in data["added_tokens"]:
            token["special"] = token["special"] or token["id"] in ends
        return LLTokenizer(json.dumps(data), n_vocab=vocab_size, eos_token=sorted(tokenizer.eos_token_ids))
    except Exception as error:  # its parts are written in Rust, and raise what they like
        raise UsageError(f"this model's tokenizer cannot be held to a grammar: {first_line(error)}") from error
