"""Names of files and folders in profiles, which mean them relative to their own folder; flags mean them from here."""

import os
from collections.abc import Iterator
from pathlib import Path

from mlxctl import grammars, options, paths
from mlxctl.options import Option
from mlxctl.profiles.values import Value

_ROWS = [option for option in options.options() if option.in_profile]
FILE_KEYS = [row.key for row in _ROWS if row.metavar == "PATH"]  # what a profile reads stays inside its folder
_PLACES = {row.key: row for row in _ROWS if row.metavar in ("FOLDER", "MODEL", "CACHE")}


def _is_file(key: str, value: Value) -> bool:
    """Whether this is the name of a file that is read; a schema may be given as such, or as itself."""
    schema = key == "generation.json_schema" and value.value is not None and grammars.names_file(value.value)
    return schema or key in FILE_KEYS


def anchor(key: str, value: Value, folder: Path) -> Value:
    """A value of a profile in that folder (a path in full), with every name in full."""
    if _is_file(key, value) or (key in _PLACES and _is_relative(_PLACES[key], value.value)):
        return value.renamed(lambda name: str(folder / name))
    return value


def outside(key: str, value: Value, folder: Path) -> Iterator[str]:
    """The file names in a value of a profile that lead out of its folder."""
    if _is_file(key, value):
        yield from (name for name in value.names() if not _inside(folder, name))


def from_here(key: str, value: Value) -> Value:
    """A value of a flag or variable, with every name in full: they are meant from the working directory."""
    if value.layer not in ("flag", "variable"):
        return value
    if _is_file(key, value) or (key in _PLACES and _is_local(_PLACES[key], value.value)):
        return value.renamed(lambda name: str(paths.absolute(name)))
    return value


def as_written(key: str, value: Value, folder: Path) -> Value:
    """A value, its names in full, as a profile in that folder must put it; a file must be inside (`outside` tells)."""
    if _is_file(key, value):
        return value.renamed(lambda name: _relative(Path(name), folder))
    if key in _PLACES and value.value is not None and value.value.startswith("/"):
        return value.renamed(lambda name: seen_from(folder, Path(name)))
    return value


def seen_from(folder: Path, path: Path) -> str:
    """A path as a profile in the folder should put it: relative when both are of one project, else in full."""
    full = os.path.normpath(path)
    if not Path(full).is_relative_to(folder.parent):
        return full
    relative = os.path.relpath(full, folder)
    return relative if relative.startswith("../") else f"./{relative}"


def _relative(path: Path, folder: Path) -> str:
    """The name of a file inside a folder, as seen from there."""
    if path.is_relative_to(folder):
        return str(path.relative_to(folder))
    return os.path.relpath(path.resolve(), folder.resolve())


def _is_relative(row: Option, name: str) -> bool:
    """Whether this means a folder relative to the one around: an adapter always is one, a model may be a repository."""
    if row.metavar == "FOLDER":
        return bool(name) and not name.startswith("~")
    return name.startswith(("./", "../"))


def _is_local(row: Option, name: str) -> bool:
    """Whether a flag means something in the file system by this name."""
    if row.metavar == "CACHE":
        return "/" in name or name.endswith(".safetensors")
    return _is_relative(row, name) or paths.expand(name).exists()


def _inside(folder: Path, name: str) -> bool:
    try:
        return bool(name) and (folder / name).resolve().is_relative_to(folder.resolve())
    except (ValueError, OSError):
        return False
