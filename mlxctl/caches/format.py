"""The file of a prompt cache: what mlx_lm reads and writes, with what it lacks to be trusted.

A safetensors file whose metadata holds upstream's keys and one JSON text of ours. That text begins with a SHA-256 of
the whole file, taken with zeros in its place.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from mlxctl import options
from mlxctl.caches.meta import NO_CHECKSUM, VERSION, Meta
from mlxctl.engine import kv, kv_file
from mlxctl.engine.kv import Prefix
from mlxctl.errors import CacheError, ResourceError, is_out_of_memory

_KEY = "0.mlxctl"  # how mlx_lm spells the key "mlxctl" of the metadata it is given
_HEADER_MOST = 100_000_000  # bytes, as the safetensors format says
_BEFORE_CHECKSUM = b'{\\"checksum\\":\\"'


class _Version(msgspec.Struct):
    version: int


def write(path: Path, prefix: Prefix, meta: Meta) -> None:
    """Write a cache file at a path of its own, which ends in .safetensors, and on the disk. Raises ResourceError."""
    metadata = {"model": meta.upstream_model, "mlxctl": msgspec.json.encode(meta).decode()}
    if meta.complete:
        metadata["tokenizer_config"] = "{}"  # without it, mlx_lm refuses the file rather than go on in mid-text
    try:
        kv_file.write(path, prefix, metadata)
        with path.open("r+b") as file:
            _seal(file)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ResourceError(f"{path}: {error.strerror}") from error
    except RuntimeError as error:
        memory = is_out_of_memory(error)
        raise ResourceError("out of memory" if memory else f"{path}: it cannot be written: {error}") from error


def _seal(file: BinaryIO) -> None:
    """Put the checksum in its place."""
    length, header = _header(file)
    if os.fstat(file.fileno()).st_size < 8 + length + _data_size(Path(file.name), header):
        raise ResourceError("no space left on the device")  # of which the library's writer takes no notice
    start = _checksum_place(file, length)
    digest = _checksum(file, start)
    file.seek(start)
    file.write(digest.encode())


def read_meta(path: Path) -> Meta | None:
    """What a file says of itself, from its header alone; None for one that mlx_lm.cache_prompt wrote.

    Raises CacheError.
    """
    with _opened(path) as file:
        return _meta(path, _header(file)[1])


def require_cache(path: Path) -> None:
    """See that a file is a prompt cache, ours or mlx_lm's, before it is removed or replaced. Raises CacheError."""
    with _opened(path) as file:
        metadata = _header(file)[1]["__metadata__"]
    if _KEY not in metadata and not {"0.model", "1.0"} <= metadata.keys():
        raise CacheError(f"{path}: is no prompt cache, and is left alone")


def is_ours(path: Path) -> bool:
    """Whether a file says, be it damaged, that we wrote it."""
    with _opened(path) as file:
        length, _ = _header(file)
        file.seek(8)
        header = file.read(length)
    return _KEY.encode() in header or _BEFORE_CHECKSUM in header


def read(path: Path) -> tuple[Meta, Prefix]:
    """Read a cache file, and see that no bit of it is another than was written. Raises CacheError.

    All of it comes from one open file: whoever replaces it meanwhile does not change what was begun to be read.
    """
    with _opened(path) as file:
        length, header = _header(file)
        found = _meta(path, header)
        if found is None:
            raise CacheError(f"{path}: written by mlx_lm.cache_prompt, it does not say what it holds",
                             hint="--prompt-cache-file uses it as mlx_lm.generate does")  # fmt: skip
        if os.fstat(file.fileno()).st_size != 8 + length + _data_size(path, header):
            raise CacheError(f"{path}: is cut short, or something was added to it")
        if _checksum(file, _checksum_place(file, length)) != found.checksum:
            raise CacheError(f"{path}: is damaged: its checksum does not fit", hint="mlxctl cache save makes it anew")
        try:
            caches, _ = kv_file.read(file)
        except CacheError as error:
            raise CacheError(f"{path}: {error.message}") from error
    if not kv.hold(caches, len(found.ids)):
        raise CacheError(f"{path}: does not hold the {len(found.ids)} tokens that it says")
    return found, Prefix([*found.ids], caches, made_under=kv.shaping(found.kv))


def _opened(path: Path) -> BinaryIO:
    try:
        if not path.is_file():
            raise CacheError(f"{path}: no such prompt cache")
        return path.open("rb")
    except OSError as error:
        raise CacheError(f"{path}: {error.strerror}") from error


def _header(file: BinaryIO) -> tuple[int, dict[str, Any]]:
    """(length, contents) of the header of a safetensors file."""
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if length > min(_HEADER_MOST, os.fstat(file.fileno()).st_size - 8):
        raise CacheError(f"{file.name}: not a prompt cache, or cut short")
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise CacheError(f"{file.name}: not a prompt cache, or a damaged one") from error
    if not isinstance(header, dict) or not isinstance(header.get("__metadata__"), dict):
        raise CacheError(f"{file.name}: not a prompt cache: it has no metadata")
    return length, header


def _data_size(path: Path, header: Mapping[str, Any]) -> int:
    try:
        return max(
            (int(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"), default=0
        )
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise CacheError(f"{path}: not a prompt cache, or a damaged one") from error


def _meta(path: Path, header: Mapping[str, Any]) -> Meta | None:
    text = header["__metadata__"].get(_KEY)
    if text is None:
        return None
    try:
        version = msgspec.json.decode(text, type=_Version).version
        if version != VERSION:
            raise CacheError(f"{path}: format {version}, this mlxctl reads format {VERSION}",
                             hint="mlxctl cache save makes it anew")  # fmt: skip
        found = msgspec.json.decode(text, type=Meta)
        for section, values in (("kv", found.kv), ("model", found.made_with)):
            for name in values.__struct_fields__:
                options.check(options.by_key()[f"{section}.{name}"], getattr(values, name))
        if not all(0 <= id < 2**31 for id in found.ids):
            raise ValueError("an id that no vocabulary has")
        if not all(isinstance(message.get(key), str) for message in found.messages for key in ("role", "content")):
            raise ValueError("a message without role or content")
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise CacheError(f"{path}: its description is damaged") from error
    return found


def _checksum_place(file: BinaryIO, length: int) -> int:
    """Where in the file the checksum's digits begin."""
    file.seek(8)
    header = file.read(length)
    place = header.find(_BEFORE_CHECKSUM)
    if place < 0:
        raise CacheError(f"{file.name}: its description is damaged")
    return 8 + place + len(_BEFORE_CHECKSUM)


def _checksum(file: BinaryIO, start: int) -> str:
    """The SHA-256 of a file with zeros in the place of its checksum."""
    digest = hashlib.sha256()
    file.seek(0)
    digest.update(file.read(start))
    digest.update(NO_CHECKSUM.encode())
    file.seek(start + len(NO_CHECKSUM))
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()
