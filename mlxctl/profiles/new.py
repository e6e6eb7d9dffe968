"""New profiles: laid out and checked before anything is written, and written whole or not at all."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlxctl import paths
from mlxctl.errors import ProfileError, ResourceError, UsageError
from mlxctl.options import shown
from mlxctl.profiles import places
from mlxctl.profiles.check import check
from mlxctl.profiles.layers import Resolved
from mlxctl.profiles.search import find, folders, is_path, is_shipped, project_folders, user_folder
from mlxctl.profiles.text import document
from mlxctl.profiles.values import Value
from mlxctl.writing import write_new

_NAME = re.compile(r"[^\W_][\w.+-]{0,99}")

# Flags of one call that a profile holds under other keys.
_KEPT_ELSEWHERE = ("request.chat_template_config", "request.think", "request.verbose")


@dataclass(frozen=True)
class NewProfile:
    """A profile that can be written. notes: what a person should know of it."""

    path: Path
    text: str
    notes: tuple[str, ...] = ()

    def write(self) -> None:
        """Put the file in place; UsageError when one has come there meanwhile."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResourceError(f"{self.path.parent}: {error.strerror}") from None
        try:
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
        return paths.short(self.path) if "/" in paths.short(self.path) else f"./{self.path.name}"


@dataclass(frozen=True)
class _Contents:
    values: Mapping[str, Any] = field(default_factory=dict)
    extends: str | None = None
    notes: tuple[str, ...] = ()


def plan(name: str, resolved: Resolved | None = None, description: str = "", *, user: bool = False) -> NewProfile:
    """Lay out a new profile, and see that it can be written and is in order. Raises UsageError, ResourceError.

    name: of the profile, or its path. resolved: the run that it shall repeat. user: for all projects of this person.
    """
    path = _place(name, user)
    _require_room(path)
    made = _repeating(resolved, path) if resolved is not None else _Contents()
    try:
        text = document(path.stem, description, made.extends, made.values, everything=resolved is None)
        text.encode()
    except TypeError:
        raise UsageError(f"profile {path.stem}: null cannot stand in a profile") from None
    except UnicodeEncodeError as error:
        raise UsageError(f"profile {shown(path.stem)}: {shown(error.object[error.start])} is not UTF-8 text") from None
    report = check(path, text)
    if report.faults:
        raise ProfileError("\n".join(report.faults), hint="such a profile cannot be written")
    return NewProfile(path, text, (*_shadows(path), *made.notes, *report.warnings))


def _place(name: str, user: bool) -> Path:
    """Where a new profile goes: the nearest .mlxctl/ of the project, or a new one here."""
    if is_path(name) and not name.endswith(".toml"):
        raise UsageError(f"profile {shown(name)}: the path of a profile ends in .toml")
    path = paths.absolute(name) if is_path(name) else None
    stem = path.stem if path else name
    if not _NAME.fullmatch(stem):
        raise UsageError(f"profile {shown(stem)}: a name is up to 100 letters, digits and . _ + -"
                         " and begins with a letter or digit")  # fmt: skip
    if path is not None:
        return Path(os.path.normpath(path))
    in_reach = [user_folder()] if user else [folder for folder in project_folders() if folder.name == ".mlxctl"]
    return (in_reach[0] if in_reach else paths.here() / ".mlxctl") / f"{name}.toml"


def _require_room(path: Path) -> None:
    """See that the file can be made before an hour's answer."""
    if os.path.lexists(path):
        raise UsageError(_taken(path), hint="mlxctl profile edit changes one")
    there = next(folder for folder in path.parents if os.path.lexists(folder))
    if not there.is_dir():
        raise UsageError(f"{path}: {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ResourceError(f"{path}: nothing may be written in {there}")


def _taken(path: Path) -> str:
    return f"profile {path.stem}: there is one already: {path}"


def _shadows(path: Path) -> list[str]:
    """Whose place the new one takes, for those too that extend it."""
    if path.parent not in [*folders(), paths.here() / ".mlxctl"]:
        return []
    with suppress(UsageError):
        return [f"{path.stem} means the new one from now on, not {paths.short(find(path.stem))}"]
    return []


def _repeating(resolved: Resolved, path: Path) -> _Contents:
    """A profile at `path` that repeats a run.

    It extends the run's profile; where --unset dropped something of that, it sets what was left itself.
    """
    flat = bool(resolved.unset)
    given = {key: places.from_here(key, value) for key, value in resolved.values.items() if value.value is not None
             and (value.layer in ("flag", "variable") or (flat and value.layer == "profile"))}  # fmt: skip
    left = {key: value.place for key, value in given.items() if _belongs_to_one_call(key, value, path.parent)}
    held = {key: value for key, value in given.items() if key not in left and not key.startswith("request.")}
    for key, value in held.items():
        for name in places.outside(key, value, path.parent):
            raise UsageError(f"{value.origin}: {shown(name)} is not in the folder of the new profile, {path.parent}",
                             hint="a profile reads only files of its own folder: copy the file there")  # fmt: skip
    values = {key: places.as_written(key, value, path.parent).value for key, value in held.items()}
    values |= {f"template.{name}": value for name, value in resolved.settings.asked_template.items()}
    extends = None if flat or not resolved.profile else _parent(resolved, path)
    return _Contents(values, extends, tuple(_notes(left, held)))


def _belongs_to_one_call(key: str, value: Value, folder: Path) -> bool:
    """Flags that no profile can hold, and files of the question, which are not of the profile's folder."""
    if key == "prompt.files":
        return value.layer == "flag" and any(places.outside(key, value, folder))
    return key.startswith("request.") and key not in _KEPT_ELSEWHERE and value.layer == "flag"


def _notes(left: Mapping[str, str], held: Mapping[str, Value]) -> list[str]:
    variables = [value.place for value in held.values() if value.layer == "variable"]
    return [f"left out, for they belong to one call: {', '.join(left.values())}"] * bool(left) + [
        f"kept too is what these set: {', '.join(variables)}"
    ] * bool(variables)


def _parent(resolved: Resolved, path: Path) -> str:
    """What `extends` must say for the run's profile: its name where that will do, else its path."""
    parent = resolved.profile[0].path
    if parent.parent == path.parent or is_shipped(parent) or parent.parent in _of_the_user():
        _refuse_circle(path, resolved)
        return parent.stem
    return places.seen_from(path.parent, parent)


def _of_the_user() -> list[Path]:
    with suppress(UsageError):
        return [user_folder()]
    return []


def _refuse_circle(path: Path, resolved: Resolved) -> None:
    """A profile that extends one of its own name would find itself."""
    for profile in resolved.profile:
        if profile.path.stem == path.stem and path.parent in [*folders(), paths.here() / ".mlxctl"]:
            raise UsageError(f"profile {path.stem}: the run uses {profile.path}, which has that name: "
                             "give the new one another")  # fmt: skip
