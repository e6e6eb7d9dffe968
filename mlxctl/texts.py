"""Text from files and streams: UTF-8, or refused."""

from mlxctl.errors import UsageError
from mlxctl.paths import expand


def decode(data: bytes, name: str) -> str:
    """Bytes as UTF-8 text; UsageError names the source and the first bad byte."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not UTF-8 text (byte {error.start} is 0x{data[error.start]:02x})") from None


def read_file(path: str) -> str:
    """The text of a file; UsageError when there is none or it is not UTF-8."""
    try:
        return decode(expand(path).read_bytes(), path)
    except IsADirectoryError:
        raise UsageError(f"{path}: is a folder, not a text file") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def before(text: str) -> str:
    """A text as it stands before another: a blank line apart."""
    return text.rstrip("\n") + "\n\n"
