"""The backend, its name, and the type to compute in."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from mlxctl.engine import blas
from mlxctl.engine.imports import import_transformers
from mlxctl.errors import ModelError, first_line

_HALF = ("float16", "bfloat16")
_VERSIONS = ("mlxctl", "mlx", "mlx-lm", "transformers")


def require_backend() -> None:
    """Import mlx and mlx-lm, after a fast BLAS where there is one, or say what is missing (ModelError)."""
    blas.preload()
    try:
        import mlx.core  # noqa: F401

        import_transformers()
        import mlx_lm  # noqa: F401
    except ImportError as error:
        raise ModelError(
            f"no MLX backend is installed ({first_line(error)})",
            hint='install one: pip install "mlxctl[cpu]", or [cuda12] or [cuda13] for an NVIDIA GPU',
        ) from error
    except ValueError as error:
        # It asks for 2048 open files, and may not get them.
        raise ModelError(f"mlx-lm cannot start: {error}", hint="ulimit -n may be too low: mlx-lm wants 4096") from error
    except OSError as error:
        raise ModelError(f"mlx-lm cannot start: {error}", hint="is the working directory still there?") from error


def is_cpu() -> bool:
    """Whether mlx computes on a CPU."""
    import mlx.core as mx

    return bool(mx.default_device() == mx.cpu)


def describe() -> str:
    """The device that computes, in words: "cpu (AMD EPYC)", "gpu (Apple M2 Max)"."""
    import mlx.core as mx

    kind = "cpu" if is_cpu() else "gpu"
    name = mx.device_info().get("device_name")
    return f"{kind} ({name})" if name else kind


def versions() -> dict[str, str]:
    """Versions of the packages that decide what comes out, and the fast BLAS that computes, where there is one."""
    found = {name: found for name in _VERSIONS if (found := _version(name))}
    return found | ({"blas": library} if (library := blas.fast()) else {})


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def plan_dtype(wanted: str, stored: str) -> str:
    """The type to compute in, for a model stored in `stored`.

    On a CPU half precision is emulated: a 4-bit model with float16 scales decodes 0.3 tokens/s, with float32 ones 9.
    """
    if wanted == "auto":
        return "float32" if is_cpu() and stored in _HALF else stored
    return stored if wanted == "native" else wanted


def stored_dtype(model: Any) -> str:
    """The floating type of the largest part of the model's parameters."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    sizes: dict[str, int] = {}
    parameters: list[tuple[str, Any]] = tree_flatten(model.parameters())  # type: ignore[assignment]
    for _, value in parameters:
        if mx.issubdtype(value.dtype, mx.floating):
            name = str(value.dtype).removeprefix("mlx.core.")
            sizes[name] = sizes.get(name, 0) + value.size
    return max(sizes, key=lambda name: sizes[name], default="float32")


@contextmanager
def wired() -> Iterator[None]:
    """Keep the model's memory wired while it runs (Metal; elsewhere this does nothing)."""
    import mlx.core as mx
    from mlx_lm.utils import maybe_set_recommended_wired_limit

    before = maybe_set_recommended_wired_limit()
    try:
        yield
    finally:
        if before is not None:
            synchronize()
            mx.set_wired_limit(before)


def synchronize() -> None:
    """Wait for what was begun on the library's stream, which is not the default one."""
    import mlx.core as mx
    from mlx_lm.generate import generation_stream

    mx.synchronize(generation_stream)


def ask_for_compiler() -> None:
    """Let mlx find out now whether there is a C++ compiler for its CPU kernels.

    It asks once, through system(3), which ignores SIGINT meanwhile: a Ctrl-C would be lost. Blocked here, it waits.
    """
    import mlx.core as mx

    if not is_cpu() or threading.current_thread() is not threading.main_thread():
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        mx.eval(mx.compile(lambda x: mx.exp(x) + 1)(mx.array([1.0])))
    except RuntimeError as error:
        raise ModelError(f"mlx cannot compute: {first_line(error)}", hint="it needs a TMPDIR to write to") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
