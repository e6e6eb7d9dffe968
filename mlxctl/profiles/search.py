"""Where profiles lie, and which one a name means."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from mlxctl import paths
from mlxctl.errors import ProfileError, UsageError, did_you_mean, nearest
from mlxctl.options import named
from mlxctl.profiles.files import Profile, examine

TRUST = "model.trust_remote_code"
_LONGEST = 32  # profiles in a chain


def chain(name: str) -> list[Profile]:
    """A profile and those it extends, the strongest first.

    Raises UsageError when there is no such profile, ProfileError with every fault of any of them.
    """
    found, faults = examine_chain(find(name))
    if faults:
        raise ProfileError("\n".join(faults))
    return found


def examine_chain(path: Path, text: str | None = None) -> tuple[list[Profile], list[str]]:
    """A profile and those it extends, the strongest first, and every fault of any of them, a missing or circular
    parent included. text: what the file would hold."""
    profile, faults = examine(path, text)
    found = [profile]
    while found[-1].extends is not None:
        try:
            path = _parent(found)
        except ProfileError as error:
            return found, [*faults, error.message]
        profile, wrong = examine(path)
        found.append(profile)
        faults += wrong
    return found, faults


def _parent(found: Sequence[Profile]) -> Path:
    """The file that the last of a chain extends: a path is relative to its folder, a name is looked for there first."""
    last = found[-1]
    wanted = last.extends or ""
    names = " -> ".join([*(profile.name for profile in found), named(wanted)])
    if len(found) == _LONGEST:
        raise ProfileError(f"{last.extends_place}: extends: more than {_LONGEST} profiles build on each other")
    beside = last.path.parent / (wanted if is_path(wanted) else f"{wanted}.toml")
    try:
        path = find(str(beside) if is_path(wanted) or paths.is_file(beside) else wanted)
    except UsageError as error:
        raise ProfileError(f"{last.extends_place}: extends: {error.message} ({names})") from None
    if path.resolve() in [profile.path.resolve() for profile in found]:
        raise ProfileError(f"{last.extends_place}: extends: goes in a circle: {names}")
    return path


def find(name: str) -> Path:
    """The file of a profile, given by name or path; in full."""
    if not name:
        raise UsageError("profile: an empty name names nothing")
    if is_path(name):
        path = paths.absolute(name)
        if paths.is_file(path):
            return path
        raise UsageError(f"profile {named(name)}: {'not a file' if path.exists() else 'no such file'}")
    paths.expand(f"{name}.toml")
    for folder in folders():
        path = folder / f"{name}.toml"
        if paths.is_file(path):
            return path
    near = did_you_mean(nearest(name, {path.stem for path in everywhere()}))
    raise UsageError(f"profile {named(name)}: not found{near}", hint="mlxctl profile list shows those in reach")


def is_path(name: str) -> bool:
    """Whether this is the path of a profile rather than its name."""
    return "/" in name or name.endswith(".toml")


def folders() -> list[Path]:
    """Where profiles are looked for, the nearest first."""
    found = [*project_folders()]
    with suppress(UsageError):  # where there is no home, nobody keeps profiles in it
        found.append(user_folder())
    found.append(paths.shipped_dir("profiles"))
    nearest_first: dict[Path, Path] = {}
    for folder in found:
        nearest_first.setdefault(folder.resolve(), folder)
    return list(nearest_first.values())


def is_shipped(path: Path) -> bool:
    """Whether a profile comes with mlxctl."""
    return path.resolve().is_relative_to(paths.shipped_dir("profiles").resolve())


def user_folder() -> Path:
    """Where a person keeps profiles for all projects."""
    return paths.config_dir() / "profiles"


def everywhere() -> Iterator[Path]:
    """Every profile in reach, the nearest folder first; of one name, all but the first are shadowed."""
    for folder in folders():
        with suppress(OSError):  # a folder that may not be looked into
            # A name that begins with a dot is a draft, or an editor's.
            yield from sorted(path for path in folder.glob("[!.]*.toml") if paths.is_file(path))


def unnamed() -> list[Profile]:
    """The chain of `default.toml`, where there is one that the user or root owns."""
    for folder in folders():
        path = folder / "default.toml"
        if paths.is_file(path) and is_ours(path):
            found = chain(str(path))
            if faults := faults_of_default(found):
                raise ProfileError("\n".join(faults), hint="name the profile with -P, or give --trust-remote-code")
            return found
    return []


def faults_of_default(found: Sequence[Profile]) -> list[str]:
    """What is asked for by nobody may not do: let a model run code of its own, unless the user's own configuration
    says so; or build on a file of somebody else."""
    trusting = next((profile for profile in found if TRUST in profile.values), None)
    faults = [f"{profile.path}: belongs to another user, and nobody named it" for profile in found
              if not is_ours(profile.path)]  # fmt: skip
    if trusting and trusting.values[TRUST].value and not _is_of_the_user(trusting.path):
        faults.append(f"{trusting.values[TRUST].place}: {TRUST}: a profile that nobody named may not set it")
    return faults


def is_ours(path: Path) -> bool:
    """Whether a file belongs to the user or to root."""
    return path.stat().st_uid in (os.getuid(), 0)


def _is_of_the_user(path: Path) -> bool:
    with suppress(UsageError):
        return Path(os.path.normpath(path)).is_relative_to(paths.config_dir())
    return False


def project_folders() -> Iterator[Path]:
    """`.mlxctl/` and `profiles/` of the working directory and its parents, not above the repository or the home
    directory."""
    try:
        start = paths.here()
    except UsageError:
        return
    home = paths.home()
    for folder in (start, *start.parents):
        yield from (folder / name for name in (".mlxctl", "profiles") if paths.is_dir(folder / name))
        if paths.is_dir(folder / ".git") or paths.is_file(folder / ".git") or folder == home:
            return
