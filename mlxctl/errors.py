"""Exit statuses and the exceptions that carry them."""

import enum
from collections.abc import Iterable


class ExitStatus(enum.IntEnum):
    """What a run of `mlxctl` tells its caller."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> "ExitStatus":
        status = int.__new__(cls, value)
        status._value_ = value
        status.meaning = meaning
        return status

    OK = 0, "done"
    FAULT = 1, "a fault of mlxctl's own (`MLXCTL_DEBUG=1` shows where), or the library gave up on these settings"
    USAGE = 2, "the command line, a variable, a profile or the prompt is wrong"
    MODEL = 3, "the model, tokenizer, adapter or backend cannot be loaded"
    CACHE = 4, "the prompt cache cannot be used"
    TEMPLATE = 5, "the chat template fails or refuses the messages"
    RESOURCES = 6, "out of memory or disk, or the history cannot be read"
    LENGTH = 10, "the answer was cut by the token limit, and `--fail-on-length` was given"
    DIFFERS = 11, "`bench --compare` found a regression, or `stats replay` other tokens"
    INTERRUPTED = 130, "interrupted (SIGINT); what was generated stays printed"
    READER_GONE = 141, "the reader of stdout went away (SIGPIPE)"
    TERMINATED = 143, "terminated (SIGTERM); what was generated stays printed"


class MlxctlError(Exception):
    """A fault that is told in one or two lines: what is wrong and, as `hint`, what to do."""

    exit_status = ExitStatus.FAULT

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(MlxctlError):
    """The command line, a variable, a profile or the prompt is wrong."""

    exit_status = ExitStatus.USAGE


class ProfileError(UsageError):
    """A profile is wrong. Its message is lines of "file:line: key: what is wrong", as compilers print them."""


class ModelError(MlxctlError):
    """A model, tokenizer, adapter or backend cannot be loaded."""

    exit_status = ExitStatus.MODEL


class CacheError(MlxctlError):
    """A prompt cache cannot be used."""

    exit_status = ExitStatus.CACHE


class TemplateError(MlxctlError):
    """The chat template refuses the messages or fails."""

    exit_status = ExitStatus.TEMPLATE


class ResourceError(MlxctlError):
    """Memory or disk is exhausted."""

    exit_status = ExitStatus.RESOURCES


class HistoryError(ResourceError):
    """The record of past runs cannot be read or written."""


class ReaderGone(MlxctlError):
    """Whoever read our output has gone away."""

    exit_status = ExitStatus.READER_GONE


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that a mistyped one may have meant."""
    import difflib

    return next(iter(difflib.get_close_matches(name, list(known), 1, cutoff)), None)


def did_you_mean(name: str | None) -> str:
    """The end of an error about a name that does not exist."""
    return "" if name is None else f"; did you mean {name}?"


def first_line(error: Exception) -> str:
    """What an exception says, in one line, or its name; a line that ends in a colon takes the next one along."""
    first, *rest = (str(error).strip() or type(error).__name__).splitlines()
    return f"{first.rstrip()} {rest[0].strip()}" if rest and first.rstrip().endswith(":") else first


def is_out_of_memory(error: Exception) -> bool:
    """Whether an exception means that memory is exhausted: CPU, Metal and CUDA each say it in their own words."""
    words = ("unable to allocate", "attempting to allocate", "out of memory", "outofmemory", "insufficient memory",
             "bad_alloc")  # fmt: skip
    return isinstance(error, MemoryError) or any(word in str(error).lower() for word in words)
