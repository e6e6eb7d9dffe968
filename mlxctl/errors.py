"""Exit statuses and the exceptions that carry them."""

import enum


class ExitStatus(enum.IntEnum):
    """What a run of `mlxctl` tells its caller (the table in README is made from this)."""

    OK = 0
    FAULT = 1
    USAGE = 2
    MODEL = 3
    CACHE = 4
    TEMPLATE = 5
    RESOURCES = 6
    LENGTH = 10
    INTERRUPTED = 130
    READER_GONE = 141
    TERMINATED = 143


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


class ReaderGone(MlxctlError):
    """Whoever read our output has gone away."""

    exit_status = ExitStatus.READER_GONE
