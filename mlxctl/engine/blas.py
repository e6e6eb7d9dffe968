"""A fast BLAS for the CPU backend of mlx on Linux, which brings the reference one.

Put in the process before mlx, with its symbols for all, it takes the place of mlx's own: matrices are multiplied some
twenty times as fast.
"""

import ctypes
import functools
import os
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from mlxctl.errors import UsageError

VARIABLE = "MLXCTL_BLAS"
# By the names under which systems have them; the first that is there is taken.
_LIBRARIES = ("libopenblas.so.0", "libmkl_rt.so.2", "libmkl_rt.so.1", "libblis.so.4", "libblis.so.3")


_GOOD = ("openblas", "mkl", "blis", "armpl")  # as they spell themselves in file names


def preload(environ: Mapping[str, str] = os.environ) -> str | None:
    """Load the best BLAS of the system, if mlx computes on a CPU under Linux and is not there yet; return its name.

    Raises UsageError for a value of MLXCTL_BLAS that is neither "auto" nor "off".
    """
    wanted = environ.get(VARIABLE, "auto")
    if wanted not in ("auto", "off"):
        raise UsageError(f"{VARIABLE}: expected auto or off, got {wanted!r}")
    if wanted == "off" or sys.platform != "linux" or "mlx.core" in sys.modules or not _on_a_cpu():
        return None
    return next((name for name in _LIBRARIES if _load(name)), None)


def _on_a_cpu() -> bool:
    """Whether mlx's CPU backend is the one that is installed."""
    try:
        distribution("mlx-cpu")
    except PackageNotFoundError:
        return False
    return True


def _load(name: str) -> bool:
    try:
        if not hasattr(ctypes.CDLL(name), "cblas_sgemm"):  # built without the interface that mlx calls
            return False
        ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


def loaded() -> list[str]:
    """The BLAS libraries in this process (Linux; elsewhere nobody can say), once mlx is imported."""
    if sys.platform != "linux":
        return []
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    files = {fields[5] for fields in (line.split(maxsplit=5) for line in lines) if len(fields) > 5}
    names = {Path(file).name for file in files if not any(other in file for other in ("numpy", "scipy"))}
    return sorted(name for name in names if "blas" in name.lower() or "mkl" in name.lower())


@functools.cache
def fast() -> str | None:
    """The fast BLAS that mlx computes with, once it is imported."""
    return next((name for name in loaded() if is_fast(name)), None)


def is_fast(library: str) -> bool:
    """Whether a BLAS is one of the fast ones, by its file's name."""
    return any(name in library.lower() for name in _GOOD)
