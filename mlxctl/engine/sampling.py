"""Samplers and logits processors, from settings."""

from typing import Any

from mlxctl.errors import UsageError
from mlxctl.settings import Settings


def make_sampler(settings: Settings, tokenizer: Any, vocab_size: int | None) -> Any:
    """The library's sampler. Settings must have passed `rules`: a bad value inside it poisons the random state."""
    from mlx_lm.sample_utils import make_sampler as make

    s = settings.sampler
    whole = vocab_size is not None and s.top_k == vocab_size  # the library refuses it; it keeps every token
    return make(
        s.temp,
        s.top_p,
        s.min_p,
        s.min_tokens_to_keep,
        top_k=0 if whole else s.top_k,
        xtc_probability=s.xtc_probability,
        xtc_threshold=s.xtc_threshold,
        xtc_special_tokens=[*tokenizer.encode("\n"), *tokenizer.eos_token_ids],
    )


def make_logits_processors(settings: Settings, tokenizer: Any, seen: list[int]) -> list[Any]:
    """The library's bias and penalties; bans are a bias of minus infinity.

    seen: prompt tokens that the library is not fed, because they are in the caches: penalties look at them too.
    """
    from mlx_lm.sample_utils import make_logits_processors as make

    logits = settings.logits
    bias = {token_id(tokenizer, token, "logit_bias"): value for token, value in logits.logit_bias.items()}
    bias |= {token_id(tokenizer, token, "ban"): float("-inf") for token in logits.ban}
    if len(set(logits.ban)) >= len(tokenizer):
        raise UsageError("ban: every token of the vocabulary is banned, none is left to answer with")
    processors: list[Any] = make(
        bias,
        logits.repetition_penalty,
        logits.repetition_context_size,
        logits.presence_penalty,
        logits.presence_context_size,
        logits.frequency_penalty,
        logits.frequency_context_size,
    )
    window = max(logits.repetition_context_size, logits.presence_context_size, logits.frequency_context_size)
    return [_after(seen[-window:], processor) for processor in processors]


def _after(seen: list[int], processor: Any) -> Any:
    import mlx.core as mx

    before = mx.array(seen, dtype=mx.uint32)
    return lambda tokens, logits: processor(mx.concatenate([before, tokens.astype(mx.uint32)]), logits)


def token_id(tokenizer: Any, text: str, what: str) -> int:
    """The id of a token given by its text, or as "id:7"; UsageError when it is no single token of the vocabulary."""
    if text.startswith("id:") and text[3:].isascii() and text[3:].isdecimal():
        return _known_id(tokenizer, int(text[3:]), what)
    ids = tokenizer.encode(text, add_special_tokens=False) if text else []
    if len(ids) != 1:
        pieces = f"{len(ids)} tokens" if ids else "no token"
        raise UsageError(
            f"{what}: {text!r} is {pieces} of this model's vocabulary, not one",
            hint='give a token by its id as "id:7"; text of several tokens can end an answer with --stop',
        )
    return int(ids[0])


def _known_id(tokenizer: Any, id: int, what: str) -> int:
    if id >= len(tokenizer):
        raise UsageError(f"{what}: id {id} is beyond the vocabulary ({len(tokenizer)} tokens)")
    return id
