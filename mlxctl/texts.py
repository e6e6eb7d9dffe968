"""Text from files and streams: UTF-8, or refused."""

from mlxctl.errors import UsageError
from mlxctl.paths import expand


def decode(data: bytes, name: str) -> str:
    """Bytes as UTF-8 text; UsageError names the source and the first bad byte."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        wrong = f"{name}: not UTF-8 text (byte {error.start} is 0x{data[error.start]:02x})"
        raise UsageError(wrong, hint="-f FILE finds out the encoding" if name == "stdin" else None) from None


def read_file(path: str) -> str:
    """The text of a file; UsageError when there is none or it is not UTF-8."""
    try:
        return decode(expand(path).read_bytes(), path)
    except IsADirectoryError:
        raise UsageError(f"{path}: is a folder, not a text file") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def size(count: int) -> str:
    """Bytes as a person reads them: "35.1 MB"."""
    number, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while number >= 1000 and len(units) > 1:
        number, units = number / 1000, units[1:]
    return f"{number:.0f} {units[0]}" if units[0] == "bytes" else f"{number:.1f} {units[0]}"


def before(text: str) -> str:
    """A text as it stands before another: a blank line apart."""
    return text.rstrip("\n") + "\n\n"
