"""Telling whether two models are the same one."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

_SAMPLES, _BLOCK = 64, 1 << 12
_PATTERNS = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.py", "*.txt", "*.tiktoken")


def fingerprint(folders: Iterable[Path]) -> str:
    """Hash the files of a model, its adapter and its draft model: "sha256:" and 32 hex digits.

    Small files count whole; of large ones the size, both ends (a safetensors header is at the front) and blocks
    spread over the rest, so that another training step shows, at the cost of a few hundred reads.
    """
    whole = hashlib.sha256()
    for folder in folders:
        for path in _files(folder, _PATTERNS):
            whole.update(f"{path.name}\0".encode())
            whole.update(_sampled(path))
        whole.update(b"\0\0")
    return "sha256:" + whole.hexdigest()[:32]


def file_states(folders: Iterable[Path]) -> dict[Path, tuple[int, ...]]:
    """What tells that a file of a model was changed or replaced, without reading it."""
    found: dict[Path, tuple[int, ...]] = {}
    for folder in folders:
        for path in _files(folder, ("*",)):
            state = path.stat()
            found[path.resolve()] = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    return found


def _files(folder: Path, patterns: Iterable[str]) -> list[Path]:
    return sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})


def _sampled(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest.update(str(size).encode())
        if size <= _SAMPLES * _BLOCK:
            digest.update(file.read())
        else:
            digest.update(file.read(_SAMPLES * _BLOCK))
            for i in range(1, _SAMPLES + 1):
                file.seek((size - _BLOCK) * i // _SAMPLES)
                digest.update(file.read(_BLOCK))
    return digest.digest()
