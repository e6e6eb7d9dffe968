"""Where mlxctl keeps things: the XDG directories, on macOS too."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mlxctl.errors import UsageError, first_line

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


def expand(name: str) -> Path:
    """A path that somebody gave, ~ included; UsageError where there is no such home, or no such name can be."""
    try:
        path = Path(name).expanduser()
        path.exists()  # a name too long, or with a null character, fails here rather than anywhere later
    except (RuntimeError, ValueError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else first_line(error)
        raise UsageError(f"{name[:80]!r}: no such path ({why})") from None
    return path


def here() -> Path:
    """The working directory; UsageError when it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the working directory does not exist any more") from None


def short(path: Path) -> str:
    """A path as a person would write it here: relative below the working directory, with ~ below the home."""
    with suppress(FileNotFoundError):
        if path.is_relative_to(Path.cwd()):
            return str(path.relative_to(Path.cwd()))
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)


def shipped_dir(name: str) -> Path:
    """A folder that comes with the package: inside it when installed, beside it in a checkout."""
    installed = _PACKAGE / "_shipped" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
