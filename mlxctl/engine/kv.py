"""KV caches: make, describe, cut, copy, write, read."""

import copy as copying
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from mlxctl.errors import CacheError, first_line
from mlxctl.settings import KV


@dataclass(frozen=True)
class Prefix:
    """The beginning of a prompt, processed: caches that hold exactly these tokens.

    With a draft model, its caches follow the main model's.
    """

    ids: list[int]
    caches: list[Any]


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

    return tuple(type(part).__name__ for part in _parts(make_prompt_cache(model)))


def measure(caches: list[Any]) -> tuple[int, int, int]:
    """(bytes held, layers with a cache, layers whose cache is quantized)."""
    parts = list(_parts(caches))
    size = sum(part.nbytes for part in parts if not part.empty())
    return size, len(caches), sum(type(part).__name__ == "QuantizedKVCache" for part in parts)


def length(caches: Sequence[Any]) -> int:
    """Tokens that caches hold, 0 where their kind does not tell."""
    return max(_offsets(caches), default=0)


def _offsets(caches: Sequence[Any]) -> list[int]:
    return [part.offset for part in _parts(caches) if isinstance(getattr(part, "offset", None), int)]


def _parts(caches: Sequence[Any]) -> Iterator[Any]:
    """The caches, and in the place of a CacheList those inside it."""
    for cache in caches:
        yield from _parts(cache.caches) if hasattr(cache, "caches") else (cache,)


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
    return all(_can_step_back(part) for part in _parts(caches))


def _can_step_back(part: Any) -> bool:
    # A chunked cache says yes to everything; what it has dropped at its front is gone all the same.
    return bool(part.is_trimmable()) and getattr(part, "start_position", 0) == 0


def always_steps_back(caches: Sequence[Any]) -> bool:
    """Whether caches of this kind can step back however long they get."""
    return all(type(part).__name__ in ("KVCache", "QuantizedKVCache") for part in _parts(caches))


def may_be_split(caches: Sequence[Any], tokens: int) -> bool:
    """Whether a prompt of so many tokens gives the same in one piece and in two.

    A rotating cache that keeps its first tokens (max_kv_size) shows them to what comes after a cut, and not to what
    is in one piece with them, once it is full.
    """
    keeping = [part for part in _parts(caches) if getattr(part, "keep", 0) > 0]
    return all(tokens <= part.max_size for part in keeping)


def may_be_cut(caches: Sequence[Any], tokens: int, kv: KV) -> bool:
    """Whether so many tokens would have been quantized, where caches are."""
    quantized = any(type(part).__name__ == "QuantizedKVCache" for part in _parts(caches))
    return not quantized or tokens >= kv.quantized_kv_start


def count(caches: Sequence[Any]) -> int:
    """The number of caches, those inside a CacheList each."""
    return len(list(_parts(caches)))


def copy(caches: list[Any]) -> list[Any]:
    """Caches that no use of the others changes."""
    return copying.deepcopy(caches)


def cut(prefix: Prefix, tokens: int) -> Prefix | None:
    """A copy of the first tokens of a prefix; None where this kind of cache cannot step back so far."""
    if not 0 <= tokens <= len(prefix.ids):
        return None
    if tokens < len(prefix.ids) and not can_step_back(prefix.caches):
        return None
    caches = copy(prefix.caches)
    _take_off(caches, len(prefix.ids) - tokens)
    return Prefix(prefix.ids[:tokens], caches)


def reconciled(ids: list[int], caches: list[Any]) -> Prefix | None:
    """Caches at the end of a run, and the tokens they hold: speculative decoding may lack the last of `ids`, and leaves
    its two models at different ones."""
    held = _offsets(caches)
    tokens = min([*held, len(ids)])
    if any(offset != tokens for offset in held):
        if not can_step_back(caches):
            return None
        for part in _parts(caches):
            part.trim(part.offset - tokens)
    return Prefix(ids[:tokens], caches)


def _take_off(caches: list[Any], tokens: int) -> None:
    for part in _parts(caches):
        if tokens:
            part.trim(tokens)


# Comparing


def last(caches: list[Any]) -> list[Any]:
    """The arrays that caches hold for their last token."""
    return [_dequantized(part, buffer)[..., end - 1 : end, :] for part in _parts(caches)
            for end in (part.offset - getattr(part, "start_position", 0),)
            for buffer in (part.keys, part.values)]  # fmt: skip


def _dequantized(part: Any, buffer: Any) -> Any:
    import mlx.core as mx

    if not isinstance(buffer, tuple | list):
        return buffer
    weights, scales, biases = buffer
    return mx.dequantize(weights, scales, biases, group_size=part.group_size, bits=part.bits)


def likeness(one: list[Any], other: list[Any]) -> float:
    """The smallest cosine between arrays, or what two lists of caches hold; 1 for the same, -1 for other shapes."""
    import mlx.core as mx

    pairs = list(zip(_arrays(one), _arrays(other), strict=False))
    if len(_arrays(one)) != len(_arrays(other)) or any(a.shape != b.shape for a, b in pairs):
        return -1.0

    def cosine(a: Any, b: Any) -> float:
        a, b = a.astype(mx.float32).flatten(), b.astype(mx.float32).flatten()
        size = float(mx.linalg.norm(a)) * float(mx.linalg.norm(b))
        return float(mx.sum(a * b)) / size if size else float(bool(mx.array_equal(a, b)))

    return min((cosine(a, b) for a, b in pairs), default=1.0)


def _arrays(held: Sequence[Any]) -> list[Any]:
    """Arrays themselves, or those of caches cut to what they hold."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    values = [item if isinstance(item, mx.array) else _compact(item).state for item in held]
    flat: list[tuple[str, Any]] = tree_flatten(values)  # type: ignore[assignment]
    return [value for _, value in flat if isinstance(value, mx.array)]


# Files


def write(path: Path, prefix: Prefix, metadata: dict[str, str]) -> None:
    """Write caches as mlx_lm reads them; only what the tokens need, where the library writes whole buffers.

    path: ends in ".safetensors". Raises OSError, or RuntimeError from the library.
    """
    from mlx_lm.models.cache import save_prompt_cache

    save_prompt_cache(str(path), [_compact(cache) for cache in prefix.caches], metadata)


def _compact(cache: Any) -> Any:
    """A copy whose buffers end with the tokens."""
    if hasattr(cache, "caches"):
        return type(cache)(*(_compact(part) for part in cache.caches))
    made = copying.copy(cache)
    if getattr(made, "keys", None) is None:
        return made
    if type(cache).__name__ == "RotatingKVCache" and cache.offset > cache.max_size:
        _unroll(made)
    else:
        end = cache.offset - getattr(cache, "start_position", 0)
        made.keys, made.values = _first(cache.keys, end), _first(cache.values, end)
    return made


def _unroll(cache: Any) -> None:
    """Put a rotating cache in order, without what its next token would drop."""
    cache.keys, cache.values = cache._temporal_order(cache.keys), cache._temporal_order(cache.values)
    spare = cache.keys.shape[2] - cache.max_size
    cache.keys, cache.values = cache._trim(spare, cache.keys), cache._trim(spare, cache.values)
    cache._idx = cache.keys.shape[2]


def _first(buffer: Any, tokens: int) -> Any:
    """The first tokens of a buffer, or of each buffer of a quantized one."""
    if isinstance(buffer, tuple | list):
        return type(buffer)(_first(part, tokens) for part in buffer)
    return buffer[..., :tokens, :]


def read(file: BinaryIO) -> tuple[list[Any], dict[str, str]]:
    """(caches, metadata) of an open file that mlx_lm or `write` wrote. Raises CacheError with the reason alone."""
    import mlx.core as mx
    from mlx_lm.models.cache import load_prompt_cache
    from safetensors import SafetensorError, safe_open

    try:
        # The library reads whatever the header says; this one checks that it fits the file.
        with safe_open(f"/dev/fd/{file.fileno()}", framework="np"):
            pass
        file.seek(0)
        caches, metadata = load_prompt_cache(file, return_metadata=True)
        mx.eval([cache.state for cache in caches])
    except SafetensorError as error:
        raise CacheError(f"no prompt cache, or a damaged one ({first_line(error)})") from error
    except Exception as error:
        # What the library raises for foreign bytes: RuntimeError, ValueError, KeyError, TypeError, AttributeError.
        raise CacheError(f"not a prompt cache of this mlx-lm version ({first_line(error)})") from error
    if not caches or not isinstance(metadata, dict) or not all(_is_sound(part) for part in _parts(caches)):
        raise CacheError("not a prompt cache that can be used: its parts do not fit each other")
    return caches, metadata


def fit(held: Sequence[Any], fresh: Sequence[Any], kv: KV) -> bool:
    """Whether caches from a file are of the kinds and shapes that the model makes. fresh: its own, of some tokens."""
    pairs = list(zip(_parts(held), _parts(fresh), strict=False))
    return (
        count(held) == count(fresh) and len(held) == len(fresh) and all(_fits(one, other, kv) for one, other in pairs)
    )


def _fits(held: Any, fresh: Any, kv: KV) -> bool:
    if type(held).__name__ == "QuantizedKVCache" and type(fresh).__name__ == "KVCache" and kv.kv_bits is not None:
        fresh = fresh.to_quantized(group_size=kv.kv_group_size, bits=kv.kv_bits)
    if getattr(held, "keys", None) is None and not hasattr(held, "cache"):
        return type(held) is type(fresh)
    in_order = getattr(held, "_idx", None) in (None, held.keys.shape[2] if hasattr(held, "_idx") else None)
    return type(held) is type(fresh) and in_order and _signature(held) == _signature(fresh)


def _signature(part: Any) -> list[Any]:
    """What does not change with the tokens: numbers of the cache's own, and shapes without the axis of the tokens."""
    if hasattr(part, "cache"):
        return [None if array is None else (array.shape, array.dtype) for array in part.cache]
    numbers = [getattr(part, name, None) for name in ("keep", "max_size", "chunk_size", "group_size", "bits")]
    shapes = [(*buffer.shape[:2], *buffer.shape[3:], buffer.dtype)
              for buffer in (*_buffers(part.keys), *_buffers(part.values))]  # fmt: skip
    return [*numbers, *shapes]


def hold(caches: Sequence[Any], tokens: int) -> bool:
    """Whether every cache that tells how many tokens it holds tells this."""
    return all(offset == tokens for offset in _offsets(caches))


def _is_sound(part: Any) -> bool:
    """Whether what a cache says of itself fits what it holds."""
    import mlx.core as mx

    if hasattr(part, "cache"):
        return all(array is None or mx.issubdtype(array.dtype, mx.floating) for array in part.cache)
    keys, values = getattr(part, "keys", None), getattr(part, "values", None)
    if keys is None:
        return values is None and getattr(part, "offset", 0) == 0
    offset, start = part.offset, getattr(part, "start_position", 0)
    if not all(isinstance(number, int) and number >= 0 for number in (offset, start)):
        return False
    sizes = {buffer.shape[2] if buffer.ndim == 4 else -1 for buffer in (*_buffers(keys), *_buffers(values))}
    held = min(offset - start, getattr(part, "max_size", offset))
    plain: list[Any] = [buffer for buffer in (keys, values) if not isinstance(buffer, tuple | list)]
    floating = all(mx.issubdtype(buffer.dtype, mx.floating) for buffer in plain)
    return floating and len(sizes) == 1 and 0 <= held <= sizes.pop()


def _buffers(buffer: Any) -> Sequence[Any]:
    return buffer if isinstance(buffer, tuple | list) else [buffer]


def read_upstream(path: str, model_path: str | None, kv: KV) -> tuple[list[Any], dict[str, str]]:
    """Read a file that mlx_lm.cache_prompt wrote: (caches, its metadata). Raises CacheError."""
    from mlx_lm.models.cache import QuantizedKVCache

    if not Path(path).is_file():
        raise CacheError(f"{path}: no such prompt cache")
    try:
        with Path(path).open("rb") as file:
            caches, metadata = read(file)
        made_by = metadata["model"]
    except OSError as error:
        raise CacheError(f"{path}: {error.strerror}") from error
    except CacheError as error:
        raise CacheError(f"{path}: {error.message}") from error
    except KeyError as error:
        raise CacheError(f"{path}: not a prompt cache of this mlx-lm version (its metadata names no model)") from error
    if model_path is not None and not _same_place(model_path, made_by):
        raise CacheError(f"{path}: made by the model {made_by}, not by {model_path}")
    for cache in caches:
        if isinstance(cache, QuantizedKVCache) and kv.kv_bits is not None:
            _same("kv_bits", path, cache.bits, kv.kv_bits)
            _same("kv_group_size", path, cache.group_size, kv.kv_group_size)
    return caches, metadata


def _same_place(one: str, other: str) -> bool:
    """Whether two names mean the same model: "/m" and "/m/" do."""
    return one == other or (Path(one).is_dir() and Path(one).resolve() == Path(other).resolve())


def _same(name: str, path: str, stored: int, asked: int) -> None:
    if asked != stored:
        raise CacheError(f"{path}: holds {name} {stored}, not {asked}")
