"""KV caches: make, feed, measure, cut, copy."""

import copy as copying
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mlxctl.settings import KV


@dataclass(frozen=True)
class Prefix:
    """The beginning of a prompt, processed: caches that hold exactly these tokens. With a draft model, its caches
    follow the main model's.

    stays: it may be needed again, so that who uses it takes a copy. made_under: settings that shaped the caches
    (`shaping`), None for none that anybody asks for.
    """

    ids: list[int]
    caches: list[Any]
    stays: bool = False
    made_under: tuple[Any, ...] | None = None


WORTH_SHARING = 32  # tokens that are processed once rather than with each prompt


def can_be_batched(caches: Sequence[Any]) -> bool:
    """Whether caches of several sequences can be put together."""
    return all(hasattr(cache, "merge") for cache in caches)


def keeps_first(caches: Sequence[Any]) -> bool:
    """Whether a cache that is full keeps its first tokens when it drops the oldest."""
    return any(getattr(part, "keep", 0) > 0 for part in parts(caches))


def can_be_joined(caches: Sequence[Any]) -> bool:
    """Whether they can once they hold tokens."""
    return can_be_batched(caches) and all(type(part).__name__ != "ChunkedKVCache" for part in parts(caches))


def shaping(kv: KV) -> tuple[Any, ...]:
    """What of the settings makes caches other ones."""
    quantized = () if kv.kv_bits is None else (kv.kv_bits, kv.kv_group_size, kv.quantized_kv_start)
    return (kv.max_kv_size, *quantized)


def make_caches(model: Any, draft: Any | None, kv: KV) -> list[Any] | None:
    """Fresh caches for a run; with a draft model its caches follow the main model's.

    None when the library has to make them itself: it finds the draft model's part by the number of layers.
    """
    from mlx_lm.models.cache import make_prompt_cache

    if draft is None:
        return list(make_prompt_cache(model, kv.max_kv_size))
    main, second = make_prompt_cache(model), make_prompt_cache(draft)
    return [*main, *second] if len(main) == len(model.layers) else None


def cache_types(model: Any) -> tuple[str, ...]:
    """Class names of the caches a model would make, those inside a CacheList too."""
    from mlx_lm.models.cache import make_prompt_cache

    return tuple(type(part).__name__ for part in parts(make_prompt_cache(model)))


def measure(caches: list[Any]) -> tuple[int, int, int]:
    """(bytes held, layers with a cache, layers whose cache is quantized)."""
    single = list(parts(caches))
    size = sum(part.nbytes for part in single if not part.empty())
    return size, len(caches), sum(type(part).__name__ == "QuantizedKVCache" for part in single)


def held_bytes(caches: list[Any]) -> int:
    """Bytes of the tokens that caches hold, without the room they keep for more."""
    return int(sum(part.nbytes * _filled(part) for part in parts(caches) if not part.empty()))


def _filled(part: Any) -> float:
    """The share of its buffers that a cache uses; all, where its kind does not tell."""
    keys, offset = getattr(part, "keys", None), getattr(part, "offset", None)
    if keys is None or not isinstance(offset, int):
        return 1.0
    room: int = (keys[0] if isinstance(keys, tuple | list) else keys).shape[-2]
    return min(1.0, (offset - getattr(part, "start_position", 0)) / room)


def length(caches: Sequence[Any]) -> int:
    """Tokens that caches hold, 0 where their kind does not tell."""
    return max(offsets(caches), default=0)


def offsets(caches: Sequence[Any]) -> list[int]:
    return [part.offset for part in parts(caches) if isinstance(getattr(part, "offset", None), int)]


def parts(caches: Sequence[Any]) -> Iterator[Any]:
    """The caches, and in the place of a CacheList those inside it."""
    for cache in caches:
        yield from parts(cache.caches) if hasattr(cache, "caches") else (cache,)


def feed(model: Any, caches: list[Any], ids: list[int], kv: KV) -> list[Any]:
    """Process prompt tokens; return the caches, quantized where the settings say so."""
    import mlx.core as mx
    from mlx_lm.generate import generation_stream, maybe_quantize_kv_cache

    with mx.stream(generation_stream):
        model(mx.array(ids)[None], cache=caches)
        maybe_quantize_kv_cache(caches, kv.quantized_kv_start, kv.kv_group_size, kv.kv_bits)
        mx.eval([cache.state for cache in caches])
        mx.clear_cache()
    return caches


# Cutting


def can_step_back(caches: Sequence[Any]) -> bool:
    """Whether tokens can be taken off the end, and what is left is as if they had never been there."""
    return all(_can_step_back(part) for part in parts(caches))


def _can_step_back(part: Any) -> bool:
    # A chunked cache says yes to everything; what it has dropped at its front is gone all the same.
    return bool(part.is_trimmable()) and getattr(part, "start_position", 0) == 0


def always_steps_back(caches: Sequence[Any]) -> bool:
    """Whether caches of this kind can step back however long they get."""
    return all(type(part).__name__ in ("KVCache", "QuantizedKVCache") for part in parts(caches))


def may_be_split(caches: Sequence[Any], tokens: int) -> bool:
    """Whether a prompt of so many tokens gives the same in one piece and in two.

    A rotating cache that keeps its first tokens (max_kv_size) shows them to what comes after a cut, and not to what
    is in one piece with them, once it is full.
    """
    keeping = [part for part in parts(caches) if getattr(part, "keep", 0) > 0]
    return all(tokens <= part.max_size for part in keeping)


def may_be_cut(caches: Sequence[Any], tokens: int, kv: KV) -> bool:
    """Whether so many tokens would have been quantized, where caches are."""
    quantized = any(type(part).__name__ == "QuantizedKVCache" for part in parts(caches))
    return not quantized or tokens >= kv.quantized_kv_start


def count(caches: Sequence[Any]) -> int:
    """The number of caches, those inside a CacheList each."""
    return len(list(parts(caches)))


def copy(caches: list[Any]) -> list[Any]:
    """Caches that no use of the others changes."""
    return copying.deepcopy(caches)


def copied(prefix: Prefix) -> Prefix:
    """A prefix that no use of the other changes."""
    return Prefix([*prefix.ids], copy(prefix.caches), made_under=prefix.made_under)


def take(prefix: Prefix, tokens: int) -> Prefix | None:
    """The first tokens of a prefix. Unless it stays, it is left empty: a copy may be gigabytes.

    None, and the prefix as it was, where this kind of cache cannot step back so far.
    """
    if not 0 <= tokens <= len(prefix.ids):
        return None
    if tokens < len(prefix.ids) and not can_step_back(prefix.caches):
        return None
    caches = copy(prefix.caches) if prefix.stays else [*prefix.caches]
    taken = Prefix(prefix.ids[:tokens], caches, made_under=prefix.made_under)
    _take_off(taken.caches, len(prefix.ids) - tokens)
    if not prefix.stays:
        prefix.ids.clear()
        prefix.caches.clear()
    return taken


def reconciled(ids: list[int], caches: list[Any]) -> Prefix | None:
    """Caches at the end of a run, and the tokens they hold: speculative decoding may lack the last of `ids`, and leaves
    its two models at different ones."""
    held = offsets(caches)
    tokens = min([*held, len(ids)])
    if any(offset != tokens for offset in held):
        if not can_step_back(caches):
            return None
        for part in parts(caches):
            part.trim(part.offset - tokens)
    return Prefix(ids[:tokens], caches)


def _take_off(caches: list[Any], tokens: int) -> None:
    for part in parts(caches):
        if tokens:
            part.trim(tokens)


def step_back(caches: Sequence[Any], tokens: int) -> None:
    """Take off what comes after so many tokens, from caches that can step back."""
    for part in parts(caches):
        part.trim(part.offset - tokens)


def hold(caches: Sequence[Any], tokens: int) -> bool:
    """Whether every cache that tells how many tokens it holds tells this."""
    return all(offset == tokens for offset in offsets(caches))
