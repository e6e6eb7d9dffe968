"""KV caches: make, describe, read."""

from pathlib import Path
from typing import Any

from mlxctl.errors import CacheError, first_line
from mlxctl.settings import KV


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

    return tuple(type(part).__name__ for cache in make_prompt_cache(model) for part in _parts(cache))


def measure(caches: list[Any]) -> tuple[int, int, int]:
    """(bytes held, layers with a cache, layers whose cache is quantized)."""
    parts = [part for cache in caches for part in _parts(cache)]
    size = sum(part.nbytes for part in parts if not part.empty())
    return size, len(caches), sum(type(part).__name__ == "QuantizedKVCache" for part in parts)


def read_prompt_cache(path: str, model_path: str | None, kv: KV) -> tuple[list[Any], dict[str, str]]:
    """Read a file that mlx_lm.cache_prompt wrote: (caches, its metadata). Raises CacheError."""
    from mlx_lm.models.cache import QuantizedKVCache, load_prompt_cache

    if not Path(path).is_file():
        raise CacheError(f"{path}: no such prompt cache")
    try:
        caches, metadata = load_prompt_cache(path, return_metadata=True)
        made_by = metadata["model"]
    except Exception as error:
        # What the library raises for foreign bytes: RuntimeError, ValueError, KeyError, TypeError, AttributeError.
        raise CacheError(f"{path}: not a prompt cache of this mlx-lm version ({first_line(error)})") from error
    if model_path is not None and not _same_place(model_path, made_by):
        raise CacheError(f"{path}: made by the model {made_by}, not by {model_path}")
    for cache in caches:
        if isinstance(cache, QuantizedKVCache) and kv.kv_bits is not None:
            _same("kv_bits", path, cache.bits, kv.kv_bits)
            _same("kv_group_size", path, cache.group_size, kv.kv_group_size)
    return caches, metadata


def length(caches: list[Any]) -> int:
    """Tokens that caches hold, 0 where their kind does not tell."""
    offsets = [
        part.offset for cache in caches for part in _parts(cache) if isinstance(getattr(part, "offset", None), int)
    ]
    return max(offsets, default=0)


def _same_place(one: str, other: str) -> bool:
    """Whether two names mean the same model: "/m" and "/m/" do."""
    return one == other or (Path(one).is_dir() and Path(one).resolve() == Path(other).resolve())


def _same(name: str, path: str, stored: int, asked: int) -> None:
    if asked != stored:
        raise CacheError(f"{path}: holds {name} {stored}, not {asked}")


def _parts(cache: Any) -> list[Any]:
    """The caches inside a CacheList, or the cache itself."""
    return [part for inner in cache.caches for part in _parts(inner)] if hasattr(cache, "caches") else [cache]


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
