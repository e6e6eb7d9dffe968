"""Whether the backend computes, how much memory it may use, and whether weights are whole."""

import json
from pathlib import Path
from typing import Any

from mlxctl.engine import device
from mlxctl.errors import ModelError, first_line


def compute() -> str:
    """The device that computes, in words, after a sum that is checked. Raises ModelError."""
    device.require_backend()
    try:
        import mlx.core as mx

        found = (mx.ones((64, 64)) @ mx.ones((64, 64))).sum().item()
    except Exception as error:  # a driver or a compiler that is missing shows itself in any way
        raise ModelError(f"mlx cannot compute: {first_line(error)}") from error
    if found != 64**3:
        raise ModelError(f"mlx computes wrong: {found} for {64**3}")
    return device.describe()


def limits() -> dict[str, int]:
    """Bytes of memory as the device tells them: "memory_size", and on Metal what may stay wired at most
    ("max_recommended_working_set_size")."""
    import mlx.core as mx

    info: dict[str, Any] = dict(mx.device_info())
    return {name: size for name, size in info.items() if isinstance(size, int)}


def is_whole(file: Path) -> bool:
    """Whether a file of weights has a header that fits it."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(file), framework="np"):
            return True
    except (SafetensorError, OSError):
        return False


def missing_parts(folder: Path) -> list[str]:
    """The files of weights that a model's index names and that are not there."""
    try:
        index = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
        parts = {str(name) for name in index["weight_map"].values()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return []  # no index, or one that the library does not read either
    return sorted(part for part in parts if not (folder / part).is_file())
