"""Where mlxctl keeps things: the XDG directories, on macOS too."""

from contextlib import suppress
from pathlib import Path

from mlxctl.errors import UsageError, first_line

_PACKAGE = Path(__file__).parent


def config_dir() -> Path:
    """`$XDG_CONFIG_HOME/mlxctl`. Raises UsageError where there is no home to put it in."""
    return _folder("user_config_path", "XDG_CONFIG_HOME")


def cache_dir() -> Path:
    """`$XDG_CACHE_HOME/mlxctl`. Raises UsageError where there is no home to put it in."""
    return _folder("user_cache_path", "XDG_CACHE_HOME")


def data_dir() -> Path:
    """`$XDG_DATA_HOME/mlxctl`. Raises UsageError where there is no home to put it in."""
    return _folder("user_data_path", "XDG_DATA_HOME")


def state_dir() -> Path:
    """`$XDG_STATE_HOME/mlxctl`. Raises UsageError where there is no home to put it in."""
    return _folder("user_state_path", "XDG_STATE_HOME")


def _folder(kind: str, variable: str) -> Path:
    from platformdirs.unix import Unix  # not paid for by --help

    with suppress(RuntimeError):
        path: Path = getattr(Unix("mlxctl"), kind)
        if path.parts[0] != "~":  # what older releases leave where no home is known
            return path
    raise UsageError(f"there is no home directory: set HOME, or {variable}")


def home() -> Path | None:
    """The home directory, where there is one."""
    try:
        return Path.home().resolve()
    except RuntimeError:
        return None


def expand(name: str) -> Path:
    """A path that somebody gave, ~ included; UsageError where there is no such home, or no such name can be."""
    try:
        path = Path(name).expanduser()
        path.exists()  # a name too long, or with a null character, fails here rather than anywhere later
    except (RuntimeError, ValueError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else first_line(error)
        raise UsageError(f"{name[:80]!r}: no such path ({why})") from None
    return path


def is_file(path: Path | str) -> bool:
    """Whether there is such a file; one that may not be looked at, or a name that cannot be, is not there."""
    with suppress(OSError, ValueError):
        return Path(path).is_file()
    return False


def is_dir(path: Path) -> bool:
    """Whether there is such a folder, likewise."""
    with suppress(OSError, ValueError):
        return path.is_dir()
    return False


def here() -> Path:
    """The working directory; UsageError when it was deleted or may not be looked at."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(f"the working directory: {error.strerror}") from None


def absolute(name: str) -> Path:
    """A path that somebody gave, in full: from the working directory, ~ included."""
    path = expand(name)
    return path if path.is_absolute() else here() / path


def short(path: Path) -> str:
    """A path as a person would write it here: relative below the working directory, with ~ below the home."""
    with suppress(OSError):
        if path.is_relative_to(Path.cwd()):
            return str(path.relative_to(Path.cwd()))
    owned = home()
    return f"~/{path.relative_to(owned)}" if owned and path.is_relative_to(owned) else str(path)


def shipped_dir(name: str) -> Path:
    """A folder that comes with the package: inside it when installed, beside it in a checkout."""
    installed = _PACKAGE / "_shipped" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
