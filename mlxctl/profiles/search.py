"""Where profiles lie, and which one a name means."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from mlxctl import paths
from mlxctl.errors import ProfileError, UsageError
from mlxctl.options import named
from mlxctl.profiles.files import Profile, examine

_TRUST = "model.trust_remote_code"


def chain(name: str) -> list[Profile]:
    """A profile and those it extends, the strongest first.

    Raises UsageError when there is no such profile, ProfileError with every fault of any of them, a missing or
    circular parent included.
    """
    found: list[Profile] = []
    faults: list[str] = []
    path = find(name)
    while True:
        profile, wrong = examine(path)
        found.append(profile)
        faults += wrong
        if profile.extends is None:
            break
        try:
            path = _parent(found)
        except ProfileError as error:
            faults.append(error.message)
            break
    if faults:
        raise ProfileError("\n".join(faults))
    return found


def _parent(found: Sequence[Profile]) -> Path:
    """The file that the last of a chain extends; a path in a profile is relative to its folder."""
    last = found[-1]
    wanted = last.extends or ""
    names = " -> ".join([*(profile.name for profile in found), named(wanted)])
    try:
        path = find(str(last.path.parent / wanted) if is_path(wanted) and not wanted.startswith("~") else wanted)
    except UsageError as error:
        raise ProfileError(f"{last.extends_place}: extends: {error.message} ({names})") from None
    if path.resolve() in [profile.path.resolve() for profile in found]:
        raise ProfileError(f"{last.extends_place}: extends: goes in a circle: {names}")
    return path


def find(name: str) -> Path:
    """The file of a profile, given by name or path."""
    if not name:
        raise UsageError("profile: an empty name names nothing")
    path = paths.expand(name if is_path(name) else f"{name}.toml")
    if is_path(name):
        if path.is_file():
            return path
        raise UsageError(f"profile {named(name)}: {'not a file' if path.exists() else 'no such file'}")
    for folder in folders():
        path = folder / f"{name}.toml"
        if path.is_file():
            return path
    import difflib

    near = difflib.get_close_matches(name, {path.stem for path in everywhere()}, 1)
    raise UsageError(f"profile {named(name)}: not found" + (f"; did you mean {near[0]}?" if near else ""))


def is_path(name: str) -> bool:
    """Whether this is the path of a profile rather than its name."""
    return "/" in name or name.endswith(".toml")


def folders() -> list[Path]:
    """Where profiles are looked for, the nearest first."""
    found = [*project_folders(), user_folder(), paths.shipped_dir("profiles")]
    return list({folder.resolve(): folder for folder in reversed(found)}.values())[::-1]


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
                raise ProfileError(f"{trust.place}: {_TRUST}: a profile that nobody named may not set it",
                                   hint="name the profile with -P, or give --trust-remote-code")  # fmt: skip
            return found
    return []


def project_folders() -> Iterator[Path]:
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
