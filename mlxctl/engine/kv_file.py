"""Files of KV caches, as mlx_lm reads and writes them."""

import copy as copying
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from mlxctl.engine.kv import Prefix, parts
from mlxctl.errors import CacheError, ResourceError, first_line, is_out_of_memory


def write(path: Path, prefix: Prefix, metadata: dict[str, str]) -> None:
    """Write caches as mlx_lm reads them; only what the tokens need, where the library writes whole buffers.

    path: ends in ".safetensors". Raises OSError, or RuntimeError from the library.
    """
    from mlx_lm.models.cache import save_prompt_cache

    save_prompt_cache(str(path), [compact(cache) for cache in prefix.caches], metadata)


def compact(cache: Any) -> Any:
    """A copy whose buffers end with the tokens."""
    if hasattr(cache, "caches"):
        return type(cache)(*(compact(part) for part in cache.caches))
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
        if is_out_of_memory(error):
            raise ResourceError(f"out of memory ({first_line(error)})") from error
        # What the library raises for foreign bytes: RuntimeError, ValueError, KeyError, TypeError, AttributeError.
        raise CacheError(f"not a prompt cache of this mlx-lm version ({first_line(error)})") from error
    if not caches or not isinstance(metadata, dict) or not all(_is_sound(part) for part in parts(caches)):
        raise CacheError("not a prompt cache that can be used: its parts do not fit each other")
    return caches, metadata


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
    sizes = {buffer.shape[2] if buffer.ndim == 4 else -1 for buffer in (*buffers(keys), *buffers(values))}
    held = min(offset - start, getattr(part, "max_size", offset))
    plain: list[Any] = [buffer for buffer in (keys, values) if not isinstance(buffer, tuple | list)]
    floating = all(mx.issubdtype(buffer.dtype, mx.floating) for buffer in plain)
    return floating and len(sizes) == 1 and 0 <= held <= sizes.pop()


def buffers(buffer: Any) -> Sequence[Any]:
    return buffer if isinstance(buffer, tuple | list) else [buffer]
