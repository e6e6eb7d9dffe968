"""Python, the processor, the system, memory and disk."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from mlxctl import paths, texts
from mlxctl.doctor import Found, Patient, check, fail, ok, warning

_PYTHON = (3, 11)
_OLDEST_MACOS, _WIRED_MACOS = (14, 0), (15, 0)  # for mlx at all; for memory that stays wired
_LOW_DISK = 10_000_000_000  # bytes: a model of some size has no room


@check("python")
def python(patient: Patient) -> Iterator[Found]:
    found = f"{platform.python_version()}, {sys.executable}"
    yield ok(found) if sys.version_info >= _PYTHON else fail(found, "mlxctl needs Python 3.11 or later")


@check("processor")
def processor(patient: Patient) -> Iterator[Found]:
    """On a Mac an x86 Python under Rosetta cannot use MLX."""
    machine = platform.machine()
    if sys.platform != "darwin" or machine == "arm64":
        yield ok(f"{machine}, {os.cpu_count()} cores")
    elif _asked("/usr/sbin/sysctl", "-n", "sysctl.proc_translated") == "1":
        yield fail("Python runs under Rosetta, as an x86 program", "install an arm64 Python and mlxctl with it")
    else:
        yield fail(f"a Mac with {machine}", "MLX needs Apple silicon")


@check("system")
def system(patient: Patient) -> Iterator[Found]:
    if sys.platform != "darwin":
        yield ok(f"{platform.system()} {platform.release()}")
        return
    version = platform.mac_ver()[0]
    number = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if number < _OLDEST_MACOS:
        yield fail(f"macOS {version}", "MLX needs macOS 14 or later")
    elif number < _WIRED_MACOS:
        yield warning(f"macOS {version}: large models may be slow", "macOS 15 keeps their memory wired")
    else:
        yield ok(f"macOS {version}")


@check("memory")
def memory(patient: Patient) -> Iterator[Found]:
    """The machine's, without asking the device."""
    yield ok(texts.size(memory_size()))


def memory_size() -> int:
    """Bytes of memory that the machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@check("disk")
def disk(patient: Patient) -> Iterator[Found]:
    """Room where models and caches are kept."""
    places = [*map(_existing, (hub_folder(patient), paths.cache_dir(), paths.data_dir()))]
    for place in {place.stat().st_dev: place for place in reversed(places)}.values():  # one of each disk
        free = shutil.disk_usage(place).free
        text = f"{texts.size(free)} free at {paths.short(place)}"
        yield ok(text) if free >= _LOW_DISK else warning(text, "models and caches need room: mlxctl cache prune")


def hub_folder(patient: Patient) -> Path:
    """Where huggingface_hub keeps models, by the variables that it reads."""
    environ = patient.environ
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):  # in the order of huggingface_hub
        if environ.get(name):
            return Path(environ[name]).expanduser()
    home = environ.get("HF_HOME") or str(Path(environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    return Path(home).expanduser() / "hub"


def _existing(path: Path) -> Path:
    """The folder itself, or the nearest above it that is there."""
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def _asked(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
