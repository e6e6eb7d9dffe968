"""Where mlxctl keeps things: the XDG directories, on macOS too."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from platformdirs.unix import Unix

_PACKAGE = Path(__file__).parent


def _dirs() -> "Unix":
    from platformdirs.unix import Unix  # not paid for by --help

    return Unix("mlxctl")


def config_dir() -> Path:
    """`$XDG_CONFIG_HOME/mlxctl`."""
    return _dirs().user_config_path


def cache_dir() -> Path:
    """`$XDG_CACHE_HOME/mlxctl`."""
    return _dirs().user_cache_path


def shipped_dir(name: str) -> Path:
    """A folder that comes with the package: inside it when installed, beside it in a checkout."""
    installed = _PACKAGE / "_shipped" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
