"""How fast a model could generate at most: the bytes that one token needs, and how fast memory delivers bytes.

Each token needs every weight that takes part in it, and the caches as they are. No decoding is faster than memory
delivers these; what is counted is the least that must be read, so the ceiling is never too low.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from mlxctl.engine import device

_ACTIVE_KEYS = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k", "top_k_experts",
                "top_k")  # fmt: skip
_SAMPLE_BYTES = {"cpu": 512_000_000, "gpu": 2_000_000_000}  # far more than the largest of a CPU's own caches
_SAMPLES = 7


def weight_bytes(model: Any, config: dict[str, Any]) -> int | None:
    """Bytes of weights that one token touches; None where it is not known how many experts take part."""
    tables = [module for _, module in model.named_modules() if _is_table(module)]
    largest = max(tables, key=lambda table: int(table.weight.shape[0]), default=None)
    total = 0.0
    for _, module in model.named_modules():
        size = sum(array.nbytes for array in _own(module))
        if _is_table(module):
            # A row of it; the whole where it is the output's matrix too.
            size = size if module is largest and not _has_head(model, module) else 0
        if _holds_experts(module):
            active = _active(config)
            if active is None:
                return None
            size = size * min(active / int(module.weight.shape[0]), 1.0)
        total += size
    return round(total)


def measure_bandwidth() -> float:
    """Bytes a second that the device reads from memory: the best of some passes over more than its caches hold."""
    read = _reader_of_cpu() if device.is_cpu() else _reader_of_gpu()
    rates = []
    for _ in range(_SAMPLES):
        started = time.perf_counter()
        size = read()
        rates.append(size / (time.perf_counter() - started))
    return max(rates)


def _reader_of_cpu() -> Callable[[], int]:
    """numpy reads with vector instructions, in a thread a core; mlx's own kernels do not on a CPU."""
    import numpy as np

    parts = [np.ones(_SAMPLE_BYTES["cpu"] // 4 // _cores(), np.float32) for _ in range(_cores())]

    def read() -> int:
        threads = [threading.Thread(target=part.max) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(part.nbytes for part in parts)

    return read


def _reader_of_gpu() -> Callable[[], int]:
    import mlx.core as mx

    data = mx.ones((_SAMPLE_BYTES["gpu"] // 4,))
    mx.eval(data)

    def read() -> int:
        mx.eval(mx.sum(data))
        return int(data.nbytes)

    return read


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _own(module: Any) -> Iterator[Any]:
    """The arrays of a module itself, not of those inside it."""
    import mlx.core as mx

    yield from (value for value in module.values() if isinstance(value, mx.array))


def _is_table(module: Any) -> bool:
    """Whether a module is an embedding, of which a token touches one row."""
    return type(module).__name__ in ("Embedding", "QuantizedEmbedding")


def _has_head(model: Any, table: Any) -> bool:
    """Whether the output has a matrix of its own beside the embedding."""
    rows = table.weight.shape[0]
    linear = (module for _, module in model.named_modules() if type(module).__name__ in ("Linear", "QuantizedLinear"))
    return any(module.weight.shape[0] == rows for module in linear)


def _holds_experts(module: Any) -> bool:
    """Whether a module holds the weights of experts, of which a token touches some."""
    return "SwitchLinear" in type(module).__name__ and "weight" in module


def _active(config: dict[str, Any]) -> int | None:
    """How many experts take part in a token."""
    text = config.get("text_config") or config
    found = (text.get(key) for key in _ACTIVE_KEYS)
    return next((value for value in found if isinstance(value, int) and value > 0), None)
