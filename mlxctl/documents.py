"""Text files that are handed to the model: found by name, folder or pattern, and decoded whatever their encoding."""

import glob
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from mlxctl.errors import UsageError
from mlxctl.paths import expand, is_dir

_MAGIC = frozenset("*?[")
MOST = 200_000_000  # bytes of a text that a prompt is made of; files and pipes may be endless


@dataclass(frozen=True)
class Document:
    """A file's text. name: as it was given, or as it was found in a folder that was given."""

    name: str
    text: str


def gather(names: Sequence[str], *, recursive: bool, say: Callable[[str], None]) -> list[Document]:
    """The documents of some names, in their order; a folder's in the order of their paths.

    recursive: take folders and patterns, too; what is no text in them is left out, and told. Raises UsageError.
    """
    return [document for name in names for document in _of(name, recursive=recursive, say=say)]


def read(name: str, say: Callable[[str], None]) -> str:
    """A file as text: UTF-8, else what its bytes look like most, which is told. Raises UsageError."""
    data = bytes_of(name)
    with suppress(UnicodeDecodeError):
        text = data.decode("utf-8-sig")
        if "\0" in text:
            raise UsageError(f"{name}: this is no text, it holds null characters")
        return text
    found = _guess(data)
    if found is None:
        raise UsageError(f"{name}: this is no text")
    text, encoding = found
    say(f"{name}: it is no UTF-8 and is read as {encoding}")
    return text


def _of(name: str, *, recursive: bool, say: Callable[[str], None]) -> Iterator[Document]:
    path = expand(name)
    if name == "-":
        raise UsageError("-f -: stdin goes before the question by itself; - as the question waits for it")
    if is_dir(path):
        if not recursive:
            raise UsageError(f"{name}: is a folder, not a text file", hint="--recursive takes the text files in it")
        yield from _texts(list(_inside(path)), name, say)
    elif not path.exists() and _MAGIC & set(name):
        if not recursive:
            raise UsageError(f"{name}: no such file", hint="let the shell read the pattern (no quotes), or --recursive")
        found = sorted(Path(one) for one in glob.glob(str(path), recursive=True))  # noqa: PTH207
        root = Path(*takewhile(lambda part: not _MAGIC & set(part), path.parts))
        yield from _texts([one for one in found if one.is_file() and not _linked(one, root)], name, say)
    else:
        yield Document(name, read(name, say))


def _inside(folder: Path) -> Iterator[Path]:
    """The plain files below a folder, without what is hidden, and without following links."""
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    for path in paths:
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir():
            yield from _inside(path)
        elif path.is_file():
            yield path


def _linked(path: Path, root: Path) -> bool:
    """Whether a link leads to a file found below a folder: it may be found again, or lie elsewhere."""
    below = path.relative_to(root).parts
    return any(root.joinpath(*below[:size]).is_symlink() for size in range(1, len(below) + 1))


def _texts(paths: Sequence[Path], name: str, say: Callable[[str], None]) -> Iterator[Document]:
    left_out: list[Path] = []
    for path in paths:
        try:
            yield Document(str(path), read(str(path), say))
        except UsageError:
            left_out.append(path)
    if len(left_out) == len(paths):
        raise UsageError(f"{name}: there is no text file in it")
    if left_out:
        more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
        say(f"{left_out[0]}{more}, of {len(paths)} files, are no text and are left out")


def bytes_of(name: str) -> bytes:
    """What a file holds, as far as a prompt could. Raises UsageError."""
    try:
        with expand(name).open("rb") as file:
            data = file.read(MOST + 1)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from None
    if len(data) > MOST:
        raise UsageError(f"{name}: has more than {MOST // 10**6} MB, and no model takes so much")
    return data


def _guess(data: bytes) -> tuple[str, str] | None:
    """(text, encoding) of bytes that are not UTF-8; None for what looks like no text."""
    from charset_normalizer import from_bytes, is_binary

    if is_binary(data):
        return None
    found = list(from_bytes(data))
    # Of several that are as likely, the one that most such files are of.
    equal = [one for one in found if (one.chaos, one.coherence) == (found[0].chaos, found[0].coherence)]
    best = next((one for one in equal if one.encoding == "cp1252"), found[0] if found else None)
    return None if best is None else (str(best), best.encoding)
