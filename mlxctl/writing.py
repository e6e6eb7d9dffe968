"""Files written whole or not at all, whatever happens meanwhile."""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_new(path: Path, data: bytes, *, private: bool = True) -> None:
    """Write a file that is not there yet, for its owner alone; FileExistsError, and nothing changed, when it is.

    private: as in `put`.
    """
    with _aside(path, data) as source:
        if not private:
            umask = os.umask(0o077)
            os.umask(umask)
            source.chmod(0o666 & ~umask)
        try:
            os.link(source, path)  # unlike a rename, it never takes another's place
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            path.open("x").close()  # the name is ours from here on
            source.rename(path)


def replace(path: Path, data: bytes) -> None:
    """Put new contents in the place of a file's; its mode stays, and a link stays a link.

    Raises OSError, also where the link leads to what is no plain file.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "this is no plain file")
    with _aside(path, data) as source:
        source.chmod(stat.S_IMODE(path.stat().st_mode))
        source.rename(path)


def put(path: Path, data: bytes, *, private: bool = True) -> None:
    """Have a file hold this, whether it is there yet or not. Raises OSError, also where it is no plain file.

    private: a new one is for its owner alone; else its mode is what the umask leaves.
    """
    try:
        write_new(path, data, private=private)
    except FileExistsError:
        replace(path, data)


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _aside(path: Path, data: bytes) -> Iterator[Path]:
    """The data in a temporary file of the same folder, on the disk."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".tmp", delete=False) as file:
        source = Path(file.name)
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            yield source
        finally:
            source.unlink(missing_ok=True)
