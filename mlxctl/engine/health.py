"""Whether the backend computes, how much memory it may use, and which BLAS it computes with."""

import ctypes.util
import json
import sys
from pathlib import Path
from typing import Any

from mlxctl.engine import device
from mlxctl.errors import ModelError, first_line

_GOOD = ("openblas", "mkl", "blis", "accelerate", "armpl")  # as they spell themselves in file names


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


def loaded_blas() -> list[str]:
    """The BLAS libraries in this process (Linux; elsewhere nobody can say), once mlx is imported."""
    if sys.platform != "linux":
        return []
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    files = {fields[5] for fields in (line.split(maxsplit=5) for line in lines) if len(fields) > 5}
    names = {Path(file).name for file in files if not any(other in file for other in ("numpy", "scipy"))}
    return sorted(name for name in names if "blas" in name.lower() or "mkl" in name.lower())


def system_blas() -> str | None:
    """A fast BLAS that the system has, whether mlx uses it or not."""
    return next((found for name in _GOOD if (found := _library(name))), None)


def _library(name: str) -> str | None:
    try:
        return ctypes.util.find_library(name)
    except OSError:  # it asks programs, whose own loader may complain in their output
        return None


def is_fast(library: str) -> bool:
    """Whether a BLAS is one of the fast ones, by its file's name."""
    return any(name in library.lower() for name in _GOOD)
