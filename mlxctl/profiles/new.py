"""New profiles: planned and checked before anything is written, and written whole or not at all."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlxctl import paths
from mlxctl.errors import ResourceError, UsageError
from mlxctl.options import by_key, shown
from mlxctl.profiles.files import FILE_KEYS, MODEL_KEYS, Value, inside
from mlxctl.profiles.layers import Resolved
from mlxctl.profiles.search import find, is_path, project_folders, user_folder
from mlxctl.profiles.text import document
from mlxctl.writing import write_new

_NAME = re.compile(r"[^\W_][\w.+-]{0,99}")

# Flags of one call that a profile holds under other keys.
_KEPT_ELSEWHERE = ("request.chat_template_config", "request.think", "request.verbose")


@dataclass(frozen=True)
class NewProfile:
    """A profile that could be written. left_out: flags of the command line that no profile can hold."""

    path: Path
    text: str
    left_out: tuple[str, ...] = ()

    def write(self) -> None:
        """Put the file in place; UsageError when one has come there meanwhile."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_new(self.path, self.text.encode())
        except FileExistsError:
            raise UsageError(_taken(self.path)) from None
        except OSError as error:
            raise ResourceError(f"{self.path}: {error.strerror}") from None

    @property
    def called(self) -> str:
        """What -P takes to find it from here: its name, or its path where the name would find another or none."""
        with suppress(UsageError):
            if find(self.path.stem).resolve() == self.path.resolve():
                return self.path.stem
        return str(self.path)


@dataclass(frozen=True)
class _Draft:
    values: Mapping[str, Any] = field(default_factory=dict)
    extends: str | None = None
    left_out: tuple[str, ...] = ()


def plan(name: str, resolved: Resolved | None = None, description: str = "", *, user: bool = False) -> NewProfile:
    """Lay out a new profile, and see that it can be written. Raises UsageError.

    name: of the profile, or its path. resolved: the run that it shall repeat. user: for all projects of this person.
    """
    path = _place(name, user)
    if path.exists() or path.is_symlink():
        raise UsageError(_taken(path), hint="mlxctl profile edit changes one")
    draft = _repeating(resolved, path) if resolved is not None else _Draft()
    if resolved is not None and draft.extends is not None:
        _refuse_circle(path, draft.extends, resolved)
    try:
        text = document(path.stem, description, draft.extends, draft.values, everything=resolved is None)
    except TypeError as error:
        raise UsageError(f"profile {name}: {error}: null cannot stand in a profile") from None
    return NewProfile(path, text, draft.left_out)


def _taken(path: Path) -> str:
    return f"profile {path.stem}: there is one already: {path}"


def _place(name: str, user: bool) -> Path:
    """Where a new profile goes: the nearest .mlxctl/ of the project, or a new one here."""
    if is_path(name):
        if not name.endswith(".toml"):
            raise UsageError(f"profile {name}: the path of a profile ends in .toml")
        return paths.expand(name).absolute()
    if not _NAME.fullmatch(name):
        raise UsageError(f"profile {shown(name)}: a name is up to 100 letters, digits and . _ + -"
                         " and begins with a letter or digit")  # fmt: skip
    folders = [user_folder()] if user else [f for f in project_folders() if f.name == ".mlxctl"]
    path = (folders[0] if folders else paths.here() / ".mlxctl") / f"{name}.toml"
    return paths.expand(str(path))


def _repeating(resolved: Resolved, path: Path) -> _Draft:
    """A profile at `path` that repeats a run.

    It extends the run's profile; where --unset dropped something of that, it sets what was left itself.
    """
    flat = bool(resolved.unset)
    given = {key: value for key, value in resolved.values.items()
             if value.layer in ("flag", "variable") or (flat and value.layer == "profile")}  # fmt: skip
    held = {key: value for key, value in given.items() if not key.startswith("request.")}
    values = {key: _moved(key, value, path.parent).value for key, value in held.items()}
    left_out = [value.place for key, value in given.items()
                if key not in held and key not in _KEPT_ELSEWHERE and value.layer == "flag"]  # fmt: skip
    extends = None if flat or not resolved.profile else _parent(resolved, path.parent)
    return _Draft(values | _template(resolved), extends, tuple(left_out))


def _template(resolved: Resolved) -> dict[str, Any]:
    """Arguments of the chat template that flags set, as keys of a profile."""
    request = resolved.settings.request
    asked = dict(request.chat_template_config)
    if request.think is not None:
        asked["enable_thinking"] = request.think
    return {f"template.{name}": value for name, value in asked.items()}


def _parent(resolved: Resolved, folder: Path) -> str:
    """What `extends` must say for the run's profile: its name, or its path where the name would not do.

    A profile for all projects finds no profile of this one by its name.
    """
    name, path = resolved.settings.profile or "", resolved.profile[0].path
    everywhere = (user_folder(), paths.shipped_dir("profiles"))
    elsewhere = folder == user_folder() and path.parent not in everywhere
    return _seen_from(folder, path) if is_path(name) or elsewhere else name


def _refuse_circle(path: Path, extends: str, resolved: Resolved) -> None:
    """A profile that extends one of its own name would find itself."""
    names = [extends, *(profile.extends for profile in resolved.profile)]
    if path.stem in names and path.parent.name in (".mlxctl", "profiles"):
        raise UsageError(f"profile {path.stem}: the run uses the profile of that name: give the new one another")


def _moved(key: str, value: Value, folder: Path) -> Value:
    """A value as it must stand in a profile in that folder: file names are relative to it."""
    if key in FILE_KEYS:
        return value.renamed(lambda name: _own_file(key, name, folder))
    if key in MODEL_KEYS and value.layer != "profile" and _is_local(value.value):
        return value.renamed(lambda name: _seen_from(folder, paths.here() / name))
    return value


def _is_local(name: str) -> bool:
    """Whether a model or adapter was given by a path relative to the working directory."""
    return not name.startswith(("/", "~")) and paths.expand(name).exists()


def _own_file(key: str, name: str, folder: Path) -> str:
    full = paths.expand(name).absolute()
    if not inside(folder, str(full)):
        raise UsageError(f"{by_key()[key].flag_name} {name}: a profile reads only files in its own folder, {folder}",
                         hint="copy the file there, or leave it out")  # fmt: skip
    return os.path.relpath(full.resolve(), folder.resolve())


def _seen_from(folder: Path, path: Path) -> str:
    """A path relative to the profile's folder when both are of one project, else in full."""
    path = path.resolve()
    if path.is_relative_to(folder.resolve().parent):
        relative = os.path.relpath(path, folder.resolve())
        return relative if relative.startswith("../") else f"./{relative}"
    return str(path)
