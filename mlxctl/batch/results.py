"""What a batch writes: a record a line, in the order of the lines or as they are done; and what an earlier one did."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from mlxctl.batch.lines import Line
from mlxctl.errors import MlxctlError, UsageError
from mlxctl.events import Done
from mlxctl.output.json import encode
from mlxctl.paths import expand


def answered(line: Line, done: Done) -> dict[str, Any]:
    """The record of an answer."""
    return {"id": line.id, "line": line.number, **done.as_dict()}


def failed(line: Line, error: MlxctlError) -> dict[str, Any]:
    """The record of a line that has none."""
    return {"id": line.id, "line": line.number, "error": error.message, "exit_status": int(error.exit_status)}


class Results:
    """Writes records; in the order of the lines, one is held back until those before it are there."""

    def __init__(self, write: Callable[[str], object], lines: Sequence[Line], *, ordered: bool) -> None:
        self._write = write
        self._waiting = [line.number for line in lines] if ordered else []
        self._held: dict[int, dict[str, Any]] = {}
        self._ordered = ordered

    def add(self, record: dict[str, Any]) -> None:
        """One more record."""
        if not self._ordered:
            self._write(encode(record) + "\n")
            return
        self._held[record["line"]] = record
        while self._waiting and self._waiting[0] in self._held:
            self._write(encode(self._held.pop(self._waiting.pop(0))) + "\n")

    def finish(self) -> None:
        """Nothing more comes: what was held back goes out."""
        for number in sorted(self._held):
            self._write(encode(self._held.pop(number)) + "\n")


def finished(name: str) -> set[str | int]:
    """The ids that an earlier batch has answered. A line that was cut off counts for nothing. Raises UsageError."""
    try:
        data = expand(name).read_bytes()
    except FileNotFoundError:
        return set()  # nothing yet: the first call of a loop is like all others
    except OSError as error:
        raise UsageError(f"--resume {name}: {error.strerror}") from None
    found = set()
    for line in data.splitlines():
        try:
            record = json.loads(line)
            if record["finish_reason"] in ("stop", "length"):
                found.add(record["id"])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return found
