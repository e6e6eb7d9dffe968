"""What the state of a prompt depends on: caches of another identity mean nothing to a model."""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlxctl import paths
from mlxctl.engine import kv
from mlxctl.errors import CacheError, UsageError
from mlxctl.settings import Settings
from mlxctl.writing import replace, write_new

if TYPE_CHECKING:
    from mlxctl.caches.meta import Meta
    from mlxctl.engine.engine import Engine

_WEIGHTS = ("*.safetensors", "config.json", "adapter_config.json", "*.py")
_TOKENIZER = ("tokenizer.json", "tokenizer.model", "vocab.*", "merges.txt", "added_tokens.json", "*.tiktoken")
_KNOWN = 1000  # digests that are remembered


def of_engine(engine: "Engine") -> dict[str, Any]:
    """The identity of a model in memory. Raises CacheError where its files are others by now."""
    if not engine.is_as_loaded:
        raise CacheError("the files of the model were changed since it was loaded")
    return {**_of_files(*engine.folders), **engine.traits}


def expected(settings: Settings, meta: "Meta") -> dict[str, Any]:
    """The identity that a run with these settings would have, as far as it can be told without loading a model.

    What cannot be told is taken as the cache says. Raises ModelError where a model is not there.
    """
    from mlxctl.engine.loader import locate

    def folder(name: str) -> Path:
        return locate(name, revision=settings.model.revision, offline=True, say=lambda message: None)

    model = settings.model
    files = _of_files(
        folder(settings.model_id),
        paths.expand(model.adapter_path) if model.adapter_path is not None else None,
        folder(model.draft_model) if model.draft_model is not None else None,
    )
    dtype = meta.identity.get("dtype") if model.dtype in ("auto", "native") else model.dtype
    return {**files, "dtype": dtype, "quantize_activations": model.quantize_activations,
            "layers": meta.identity.get("layers")}  # fmt: skip


def kind(identity: dict[str, Any], settings: Settings) -> str:
    """What must be the same for one run's state to serve another, as a hash."""
    text = json.dumps([identity, kv.shaping(settings.kv)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _of_files(folder: Path, adapter: Path | None, draft: Path | None) -> dict[str, str | None]:
    return {
        "model": _digest(folder, _WEIGHTS),
        "tokenizer": _digest(folder, _TOKENIZER),
        "adapter": _digest(adapter, _WEIGHTS) if adapter is not None else None,
        "draft": _digest(draft, _WEIGHTS) if draft is not None else None,
    }


def _digest(folder: Path, patterns: Iterable[str]) -> str:
    """Hash every byte of some files of a folder.

    Reading a model takes seconds for each ten gigabytes, so that the digest of a file is remembered until the file
    changes; the hub's own files carry theirs in their names.
    """
    memory = _Memory()
    whole = hashlib.sha256()
    for path in sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}):
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
