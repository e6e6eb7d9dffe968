"""Run language models with MLX. `Engine`, `Settings` and `load_profile` work without the command line."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Engine", "Settings", "load_profile"]

if TYPE_CHECKING:
    from mlxctl.engine.engine import Engine
    from mlxctl.profiles import load_profile
    from mlxctl.settings import Settings

_HOMES = {"Engine": "mlxctl.engine.engine", "Settings": "mlxctl.settings", "load_profile": "mlxctl.profiles"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import mlxctl` alone must stay quick."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
