"""Where profiles lie, and which one a name means."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from mlxctl import paths
from mlxctl.errors import ProfileError, UsageError
from mlxctl.profiles.files import Profile, read

_TRUST = "model.trust_remote_code"


def chain(name: str) -> list[Profile]:
    """A profile and those it extends, the strongest first. Raises UsageError for a missing or circular parent."""
    found: list[Profile] = []
    wanted: str | None = name
    while wanted is not None:
        path = find(wanted, said_by=found)
        if path.resolve() in [profile.path.resolve() for profile in found]:
            names = " -> ".join([*(profile.name for profile in found), wanted])
            raise UsageError(f"profile {name}: extends goes in a circle: {names}")
        found.append(read(path))
        wanted = found[-1].extends
    return found


def find(name: str, said_by: Sequence[Profile] = ()) -> Path:
    """The file of a profile, given by name or path. said_by: the profiles that led here by what they extend.

    A path in a profile is relative to its folder.
    """
    by = f" (extended by {' -> '.join(profile.name for profile in said_by)})" if said_by else ""
    if is_path(name):
        path = paths.expand(str(Path(said_by[-1].path.parent, name) if said_by else name))
        if path.is_file():
            return path
        raise UsageError(f"profile {name}: {'not a file' if path.exists() else 'no such file'}{by}")
    if not name:
        raise UsageError(f"profile: an empty name names nothing{by}")
    paths.expand(f"{name}.toml")
    for folder in folders():
        path = folder / f"{name}.toml"
        if path.is_file():
            return path
    import difflib

    near = difflib.get_close_matches(name, {path.stem for path in everywhere()}, 1)
    raise UsageError(f"profile {name}: not found{by}" + (f"; did you mean {near[0]}?" if near else ""))


def is_path(name: str) -> bool:
    """Whether this is the path of a profile rather than its name."""
    return "/" in name or name.endswith(".toml")


def folders() -> list[Path]:
    """Where profiles are looked for, the nearest first."""
    return [*_project_folders(), user_folder(), paths.shipped_dir("profiles")]


def user_folder() -> Path:
    """Where a person keeps profiles for all projects."""
    return paths.config_dir() / "profiles"


def everywhere() -> Iterator[Path]:
    """Every profile in reach, the nearest folder first; of one name, all but the first are shadowed."""
    for folder in folders():
        # A name that begins with a dot is a draft, or an editor's.
        yield from sorted(path for path in folder.glob("*.toml") if path.is_file() and not path.name.startswith("."))


def unnamed() -> list[Profile]:
    """The chain of `default.toml`, where there is one that the user or root owns.

    Nobody asked for it by name, so that one lying in a project may not let a model run code of its own.
    """
    for folder in folders():
        path = folder / "default.toml"
        if path.is_file() and path.stat().st_uid in (os.getuid(), 0):
            found = chain(str(path))
            trust = next((p.values[_TRUST] for p in found if _TRUST in p.values), None)
            if trust is not None and trust.value and not path.is_relative_to(paths.config_dir()):
                raise ProfileError(f"{trust.origin}: {_TRUST}: a profile that nobody named may not set it",
                                   hint="name the profile with -P, or give --trust-remote-code")  # fmt: skip
            return found
    return []


def _project_folders() -> Iterator[Path]:
    """`.mlxctl/` and `profiles/` of the working directory and its parents, not above the repository or the home
    directory."""
    try:
        start = Path.cwd()
    except FileNotFoundError:
        return  # the working directory was deleted
    home = Path.home().resolve()
    for folder in (start, *start.parents):
        yield from (folder / name for name in (".mlxctl", "profiles") if (folder / name).is_dir())
        if (folder / ".git").exists() or folder == home:
            return
