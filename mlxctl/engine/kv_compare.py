"""Comparing KV caches: whether they fit a model, and how alike two of them are."""

from collections.abc import Sequence
from typing import Any

from mlxctl.engine.kv import count, parts
from mlxctl.engine.kv_file import buffers, compact
from mlxctl.settings import KV


def fit(held: Sequence[Any], fresh: Sequence[Any], kv: KV) -> bool:
    """Whether caches from a file are of the kinds and shapes that the model makes. fresh: its own, of some tokens."""
    pairs = list(zip(parts(held), parts(fresh), strict=False))
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
              for buffer in (*buffers(part.keys), *buffers(part.values))]  # fmt: skip
    return [*numbers, *shapes]


def last(caches: list[Any]) -> list[Any]:
    """The arrays that caches hold for their last token."""
    return [_dequantized(part, buffer)[..., end - 1 : end, :] for part in parts(caches)
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

    pairs = [_last_of_both(a, b) for a, b in zip(_arrays(one), _arrays(other), strict=False)]
    if len(_arrays(one)) != len(_arrays(other)) or any(a.shape != b.shape for a, b in pairs):
        return -1.0

    def cosine(a: Any, b: Any) -> float:
        a, b = a.astype(mx.float32).flatten(), b.astype(mx.float32).flatten()
        size = float(mx.linalg.norm(a)) * float(mx.linalg.norm(b))
        return float(mx.sum(a * b)) / size if size else float(bool(mx.array_equal(a, b)))

    return min((cosine(a, b) for a, b in pairs), default=1.0)


def _last_of_both(one: Any, other: Any) -> tuple[Any, Any]:
    """The tokens that both hold: a chunked cache drops its first ones where a step ends, and steps differ."""
    if one.ndim != 4 or other.ndim != 4:
        return one, other
    tokens = min(one.shape[2], other.shape[2])
    return one[..., one.shape[2] - tokens :, :], other[..., other.shape[2] - tokens :, :]


def _arrays(held: Sequence[Any]) -> list[Any]:
    """Arrays themselves, or those of caches cut to what they hold."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    values = [item if isinstance(item, mx.array) else compact(item).state for item in held]
    flat: list[tuple[str, Any]] = tree_flatten(values)  # type: ignore[assignment]
    return [value for _, value in flat if isinstance(value, mx.array)]
