"""How fast a model could generate at most: the bytes that one token needs, and how fast memory delivers bytes.

Each token needs every weight that takes part in it, and the caches as they are. No decoding is faster than memory
delivers these; what is counted is the least that must be read, so the ceiling is never too low.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from mlxctl.engine import device

_ACTIVE_KEYS = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k", "top_k_experts",
                "top_k")  # fmt: skip
_SPARSE_KEYS = ("index_topk",)  # attention that looks at some of the tokens alone
_TABLES = ("embed_tokens", "wte", "word_embeddings", "tok_embeddings", "embeddings", "embedding", "embed_in")
_SENSES = re.compile(r"vision|visual|audio|image")  # parts that a token of text does not pass
_SAMPLE_BYTES = {"cpu": 512_000_000, "gpu": 2_000_000_000}  # far more than the largest of a CPU's own caches
_SAMPLES = 7


def weight_bytes(model: Any, config: dict[str, Any]) -> int | None:
    """Bytes of weights that one token touches; None where that cannot be told: how many experts take part, which of
    several tables is the output's matrix, or what sparse attention leaves out."""
    text = config.get("text_config") or config
    if any(key in text for key in _SPARSE_KEYS):
        return None
    modules = [(name, module) for name, module in model.named_modules() if not _SENSES.search(name)]
    tied = _tied(modules, text)
    if tied is None:
        return None
    total = 0.0
    for _, module in modules:
        size = sum(array.nbytes for array in _own(module))
        if _is_table(module):
            size = (
                size if any(module is table for table in tied) else 0
            )  # a row of it; the whole where it is the output's matrix, too
        if _holds_experts(module):
            active = _active(text)
            if active is None:
                return None
            size = size * min(active / int(module.weight.shape[0]), 1.0)
        total += size
    return round(total)


def _tied(modules: list[tuple[str, Any]], text: dict[str, Any]) -> list[Any] | None:
    """The table that is the output's matrix, too, if one is; None where nobody can tell."""
    tables = [(name, module) for name, module in modules if _is_table(module)]
    rows = text.get("vocab_size") or max((int(table.weight.shape[0]) for _, table in tables), default=0)
    found = [(name, table) for name, table in tables if table.weight.shape[0] >= rows]
    if len(found) > 1:
        found = [(name, table) for name, table in found if name.rpartition(".")[2] in _TABLES]
    if any(_is_head(module, rows) for _, module in modules) or not tables:
        return []
    return [table for _, table in found] if len(found) == 1 else None


def measure_bandwidth() -> float:
    """Bytes a second that the device reads from memory: the best of some passes over more than its caches hold."""
    import mlx.core as mx

    read = _reader_of_cpu() if device.is_cpu() else _reader_of_gpu()
    rates = []
    for _ in range(_SAMPLES):
        started = time.perf_counter()
        size = read()
        rates.append(size / (time.perf_counter() - started))
    del read  # what it holds
    mx.clear_cache()
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

    memory = int(mx.device_info().get("memory_size", 0))
    data = mx.ones((min(_SAMPLE_BYTES["gpu"], memory // 16 or _SAMPLE_BYTES["gpu"]) // 4,))
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


def _is_head(module: Any, rows: int) -> bool:
    """Whether a module may be the output's matrix: linear, of whatever kind, with a row a token."""
    name = type(module).__name__
    return "Linear" in name and "Switch" not in name and "weight" in module and module["weight"].shape[0] >= rows


def _holds_experts(module: Any) -> bool:
    """Whether a module holds the weights of experts, of which a token touches some."""
    return "SwitchLinear" in type(module).__name__ and "weight" in module


def _active(text: dict[str, Any]) -> int | None:
    """How many experts take part in a token."""
    found = (text.get(key) for key in _ACTIVE_KEYS)
    return next((value for value in found if isinstance(value, int) and value > 0), None)
