"""Telling whether two models are the same one."""

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mlxctl import paths
from mlxctl.errors import UsageError
from mlxctl.writing import replace, write_new

_SAMPLES, _BLOCK = 64, 1 << 12
_PATTERNS = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.py", "*.txt", "*.tiktoken")
_WEIGHTS = ("*.safetensors", "config.json", "adapter_config.json", "*.py")
_TOKENIZER = ("tokenizer.json", "tokenizer.model", "vocab.*", "merges.txt", "added_tokens.json", "*.tiktoken")
_KNOWN = 1000  # digests that are remembered


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


def weights_digest(folder: Path) -> str:
    """Hash every byte that a model's or adapter's numbers depend on: what a prompt cache must be sure of.

    Reading a model takes seconds for each ten gigabytes, so that the digest of a file is remembered until the file
    changes; the hub's own files carry theirs in their names.
    """
    return _digest(_files(folder, _WEIGHTS))


def tokenizer_digest(folder: Path) -> str:
    """Hash what the ids of a text depend on."""
    return _digest(_files(folder, _TOKENIZER))


def identity(folder: Path, adapter: Path | None, draft: Path | None) -> dict[str, str | None]:
    """What files the state of a prompt depends on: digests of weights, tokenizer, adapter and draft model."""
    return {
        "model": weights_digest(folder),
        "tokenizer": tokenizer_digest(folder),
        "adapter": weights_digest(adapter) if adapter is not None else None,
        "draft": weights_digest(draft) if draft is not None else None,
    }


def _digest(files: list[Path]) -> str:
    memory = _Memory()
    whole = hashlib.sha256()
    for path in files:
        whole.update(f"{path.name}\0{memory.digest(path)}\0".encode())
    memory.save()
    return whole.hexdigest()[:32]


class _Memory:
    """Digests of files by where they are, how large, and when they changed."""

    def __init__(self) -> None:
        self._new: dict[str, str] = {}
        self._known: dict[str, str] = {}
        with suppress(OSError, ValueError, UsageError):
            found = json.loads(self._path().read_text(encoding="utf-8"))
            self._known = {key: value for key, value in found.items() if isinstance(value, str)}

    def digest(self, path: Path) -> str:
        """The SHA-256 of a file, read only if it is not known."""
        real = path.resolve()
        if real.parent.name == "blobs" and len(real.name) == 64:
            return real.name  # the hub's cache names its large files so
        state = real.stat()
        key = f"{state.st_dev}:{state.st_ino}:{state.st_size}:{state.st_mtime_ns}:{state.st_ctime_ns}"
        if key not in self._known:
            with real.open("rb") as file:
                self._known[key] = self._new[key] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._known[key]

    def save(self) -> None:
        """Keep what was learnt; where nothing can be written, it is learnt again."""
        if not self._new:
            return
        text = json.dumps(dict(list(self._known.items())[-_KNOWN:])).encode()
        with suppress(OSError, UsageError):
            path = self._path()
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                write_new(path, text)
            except FileExistsError:
                replace(path, text)

    def _path(self) -> Path:
        return paths.cache_dir() / "digests.json"
