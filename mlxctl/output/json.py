"""One JSON object when the run has ended."""

from typing import Any

import msgspec

from mlxctl.events import Done
from mlxctl.output import Quiet


class Writer(Quiet):
    """The run object of README ("mlxctl.run/1")."""

    def done(self, done: Done) -> None:
        self.out.write(encode(done.as_dict()) + "\n")

    def fail(self, message: str, exit_status: int) -> None:
        self.out.write(encode({"error": message, "exit_status": exit_status}) + "\n")


def encode(value: object) -> str:
    """A value as JSON on one line."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        # A file name that is not UTF-8, which Python holds as lone surrogates.
        return msgspec.json.encode(_readable(msgspec.to_builtins(value))).decode()


def _readable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_readable(key): _readable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_readable(item) for item in value]
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if isinstance(value, str) else value
