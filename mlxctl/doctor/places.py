"""Folders, the hub's cache, and completions."""

import os
import shlex
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mlxctl import paths
from mlxctl.doctor import Found, Patient, check, fail, ok, warning
from mlxctl.doctor.machine import hub_folder
from mlxctl.errors import ExitStatus

_SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "MLXCTL_OFFLINE")
_SCRIPTS = {  # where a shell finds the script of its own, below the home directory or the data directory
    "bash": ("bash-completion/completions/mlxctl", (".bashrc", ".bash_profile", ".profile")),
    "zsh": ("zsh/site-functions/_mlxctl", (".zshrc", ".zprofile", ".zshenv")),
    "fish": ("fish/vendor_completions.d/mlxctl.fish",
             (".config/fish/completions/mlxctl.fish", ".config/fish/config.fish")),
}  # fmt: skip


@check("hub cache")
def hub(patient: Patient) -> Iterator[Found]:
    from mlxctl.engine.loader import is_set

    folder = hub_folder(patient)
    models = sum(entry.name.startswith("models--") for entry in folder.iterdir()) if folder.is_dir() else 0
    switches = [f"{name}={patient.environ[name]}" for name in _SWITCHES if is_set(patient.environ.get(name))]
    text = f"{paths.short(folder)}, {models} model{'' if models == 1 else 's'}"
    if switches:
        yield warning(f"{text}; {', '.join(switches)}: nothing is fetched", "unset it to fetch models")
    elif folder.is_dir() and not os.access(folder, os.W_OK):
        yield fail(f"{text}: it cannot be written", f"chmod u+w {_quoted(folder)}", ExitStatus.MODEL)
    else:
        yield ok(text)


@check("folders")
def folders(patient: Patient) -> Iterator[Found]:
    """Those that mlxctl writes to; what holds prompts is for its owner alone."""
    places = {"config": paths.config_dir(), "cache": paths.cache_dir(), "data": paths.data_dir(),
              "state": paths.state_dir()}  # fmt: skip
    wrong = False
    for name, folder in places.items():
        for finding in (*_unwritable(name, folder), *_open_to_others(folder)):
            wrong = True
            yield finding
    if not wrong:
        yield ok(", ".join(map(paths.short, places.values())))


def _unwritable(name: str, folder: Path) -> Iterator[Found]:
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    if not nearest.is_dir():
        yield fail(f"{paths.short(nearest)} is no folder, and the {name} folder has no place",
                   f"move it away, or set XDG_{name.upper()}_HOME", ExitStatus.RESOURCES)  # fmt: skip
    elif not os.access(nearest, os.W_OK | os.X_OK) or not _takes_files(nearest):
        mend = f"chmod u+rwx {_quoted(nearest)}, or set XDG_{name.upper()}_HOME"
        yield fail(f"{paths.short(folder)} cannot be written", mend, ExitStatus.RESOURCES)


def _quoted(path: Path) -> str:
    """A path for a shell, which expands ~ only where it is not quoted."""
    beginning, home, rest = paths.short(path).rpartition("~/")
    return shlex.quote(str(path)) if beginning else home + shlex.quote(rest)


def _takes_files(folder: Path) -> bool:
    """Whether a file can be made there: rights alone do not tell."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _open_to_others(folder: Path) -> Iterator[Found]:
    """Files with prompts that others may read."""
    names = [path for part in ("prompts", "auto", "sessions") for path in (folder / part).glob("*")]
    names += [path for path in (folder / "chat_history", folder / "history.db") if path.exists()]
    seen = [path for path in names if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077]
    if seen:
        more = f" and {len(seen) - 1} more" if len(seen) > 1 else ""
        yield warning(f"others can read {paths.short(seen[0])}{more}", f"chmod -R go= {_quoted(folder)}")


@check("completions")
def completions(patient: Patient) -> Iterator[Found]:
    """Those of the person's shell."""
    shell = Path(patient.environ.get("SHELL") or "").name
    if shell not in _SCRIPTS:
        yield ok(f"none for {shell}" if shell else "no shell is named in SHELL")
        return
    script, files = _SCRIPTS[shell]
    home = Path(patient.environ.get("HOME") or "/")
    data = Path(patient.environ.get("XDG_DATA_HOME") or home / ".local/share")
    brew = patient.environ.get("HOMEBREW_PREFIX") or "/opt/homebrew"
    places = [above / script for above in (data, Path("/usr/share"), Path("/usr/local/share"), Path(brew) / "share")]
    places += [Path(brew) / "etc/bash_completion.d/mlxctl"] if shell == "bash" else []
    places += [(Path(patient.environ.get("ZDOTDIR") or home) if shell == "zsh" else home) / file for file in files]
    found = next((path for path in places if _speaks_of_us(path)), None)
    if found is None:
        yield warning(f"not set up for {shell}", "mlxctl completion --help tells how")
    else:
        yield ok(f"{shell}, {paths.short(found)}")


def _speaks_of_us(path: Path) -> bool:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        own = "mlxctl" in path.name  # a script of ours, which begins with comments
        return any("mlxctl" in line for line in lines if own or not line.lstrip().startswith("#"))
    except OSError:
        return False
