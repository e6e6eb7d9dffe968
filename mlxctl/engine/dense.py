"""Quantized weights on a CPU, expanded to the type that is computed in.

Measured on 2 cores with SmolLM2-135M in 4 bits and float32 scales: with OpenBLAS in the process dense weights read a
prompt seven times as fast and decode no slower, for eight times the memory. With the reference BLAS that mlx brings
they decode at 8.6 tokens/s rather than 9.3. So they are expanded where a fast BLAS is, and there is room.
"""

from pathlib import Path
from typing import Any

_SHARE = 0.5  # of the memory that is free: more for weights leaves too little for all else


def make_dense(model: Any, size: int) -> bool:
    """Expand the quantized weights of a lazy model where they fit; whether it did.

    size: bytes of a number in the type that is computed in.
    """
    from mlx_lm.utils import dequantize_model

    quantized = [layer for _, layer in model.named_modules() if hasattr(layer, "bits") and hasattr(layer, "scales")]
    numbers = sum(int(layer.weight.size) * 32 // int(layer.bits) for layer in quantized)
    if not quantized or numbers * size > _SHARE * available():
        return False
    dequantize_model(model)
    return True


def available() -> int:
    """Bytes of memory that are free for programs; 0 where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    found = next((line for line in lines if line.startswith("MemAvailable:")), "MemAvailable: 0 kB")
    return int(found.split()[1]) * 1024
