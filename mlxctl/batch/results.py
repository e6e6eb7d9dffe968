"""What a batch writes: a record a line, in the order of the lines or as they are done; and what an earlier one did."""

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlxctl.batch.lines import Line, is_id
from mlxctl.errors import MlxctlError, UsageError
from mlxctl.events import Done
from mlxctl.output.json import encode
from mlxctl.paths import expand


def answered(line: Line, done: Done) -> dict[str, Any]:
    """The record of an answer."""
    return {"id": line.id, "line": line.number, "input": line.digest, **done.as_dict()}


def failed(line: Line, error: MlxctlError) -> dict[str, Any]:
    """The record of a line that has none."""
    where = f"line {line.number}: "
    message = where + error.message.removeprefix(where)
    return {"id": line.id, "line": line.number, "error": message, "exit_status": int(error.exit_status)}


class Results:
    """Writes records; in the order of the lines, one is held back until those before it are there."""

    def __init__(self, write: Callable[[str], object], lines: Sequence[Line], *, ordered: bool) -> None:
        self._write = write
        self._waiting = deque(line.number for line in lines) if ordered else deque[int]()
        self._held: dict[int, dict[str, Any]] = {}
        self._ordered = ordered

    def add(self, record: dict[str, Any]) -> None:
        """One more record."""
        if not self._ordered:
            self._write(encode(record) + "\n")
            return
        self._held[record["line"]] = record
        while self._waiting and self._waiting[0] in self._held:
            self._write(encode(self._held.pop(self._waiting.popleft())) + "\n")

    def finish(self) -> None:
        """Nothing more comes: what was held back goes out."""
        for number in sorted(self._held):
            self._write(encode(self._held.pop(number)) + "\n")


@dataclass(frozen=True)
class Earlier:
    """What an earlier batch answered. text: its record's line. input: the digest of the line it answers, if it says."""

    text: str
    input: str | None


def earlier(name: str) -> dict[str | int, Earlier]:
    """The answers of an earlier batch, by their ids. A record that was cut off counts for nothing.

    Raises UsageError for a file that cannot be read, or has no record at all.
    """
    try:
        data = expand(name).read_bytes()
    except FileNotFoundError:
        return {}  # nothing yet: the first call of a loop is like all others
    except OSError as error:
        raise UsageError(f"--resume {name}: {error.strerror}") from None
    records = [(line, record) for line in data.split(b"\n") if (record := _record(line)) is not None]
    if not records and data.strip():
        raise UsageError(f"--resume {name}: there is no record of a batch in it")
    return {
        record["id"]: Earlier(line.decode("utf-8", "surrogateescape") + "\n", record.get("input"))
        for line, record in records
        if record.get("finish_reason") in ("stop", "length")
    }


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_one = isinstance(found, dict) and is_id(found.get("id")) and "line" in found
    return found if is_one else None
