"""Prompt caches that mlx_lm.cache_prompt wrote: what they hold in tokens is not known, only how many."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mlxctl.engine import kv, kv_file
from mlxctl.errors import CacheError
from mlxctl.settings import KV, Settings


@dataclass(frozen=True)
class StoredCache:
    """The beginning of a conversation, already processed, read from a file."""

    caches: list[Any]
    tokenizer_config: dict[str, Any]
    tokens: int


def with_stored(settings: Settings) -> tuple[Settings, StoredCache | None]:
    """Read the prompt cache file, if one is named; it also names the model, where the settings do not."""
    path = settings.request.prompt_cache_file
    if path is None:
        return settings, None
    caches, metadata = _read(path, settings.model.path, settings.kv)
    try:
        eos = json.loads(metadata["tokenizer_config"]).get("eos_token")
    except (KeyError, ValueError, AttributeError, RecursionError) as error:
        raise CacheError(f"{path}: its metadata holds no tokenizer_config") from error
    # Of what the file says of the tokenizer only what cache_prompt can be told is taken, and only as text.
    stored = StoredCache(caches, {"eos_token": eos} if isinstance(eos, str) else {}, kv.length(caches))
    model = msgspec.structs.replace(settings.model, path=metadata["model"])
    return msgspec.structs.replace(settings, model=model), stored


def _read(path: str, model_path: str | None, asked: KV) -> tuple[list[Any], dict[str, str]]:
    """Read a file that mlx_lm.cache_prompt wrote: (caches, its metadata). Raises CacheError."""
    from mlx_lm.models.cache import QuantizedKVCache

    if not Path(path).is_file():
        raise CacheError(f"{path}: no such prompt cache")
    try:
        with Path(path).open("rb") as file:
            caches, metadata = kv_file.read(file)
        made_by = metadata["model"]
    except OSError as error:
        raise CacheError(f"{path}: {error.strerror}") from error
    except CacheError as error:
        raise CacheError(f"{path}: {error.message}") from error
    except KeyError as error:
        raise CacheError(f"{path}: not a prompt cache of this mlx-lm version (its metadata names no model)") from error
    if model_path is not None and not _same_place(model_path, made_by):
        raise CacheError(f"{path}: made by the model {made_by}, not by {model_path}")
    for cache in caches:
        if isinstance(cache, QuantizedKVCache) and asked.kv_bits is not None:
            _same("kv_bits", path, cache.bits, asked.kv_bits)
            _same("kv_group_size", path, cache.group_size, asked.kv_group_size)
    return caches, metadata


def _same_place(one: str, other: str) -> bool:
    """Whether two names mean the same model: "/m" and "/m/" do."""
    return one == other or (Path(one).is_dir() and Path(one).resolve() == Path(other).resolve())


def _same(name: str, path: str, stored: int, asked: int) -> None:
    if asked != stored:
        raise CacheError(f"{path}: holds {name} {stored}, not {asked}")
