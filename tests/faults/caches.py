"""Cache files under attack: programs that are watched while they run, and files that say what they should not."""

import hashlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from conftest import Result
from forked import Server

PATIENCE_S = 60.0  # for one run of a tiny model, which takes a fifth of a second
LINE = "The rain in the morning was light. "  # 15 tokens
QUESTION = "What then?"
GREEDY = ("--temp", "0", "-m", "8")
KEY = "0.mlxctl"
Header = dict[str, Any]


class Watched:
    """mlxctl from a fork server: a real process each time, which is killed when it takes too long."""

    def __init__(self, env: Mapping[str, str], cwd: Path) -> None:
        self.cwd = cwd
        (cwd / ".git").mkdir(parents=True, exist_ok=True)
        self._server = Server(env)
        self._env = dict(env)

    def __call__(
        self, *args: str, input: str = "", env: Mapping[str, str] | None = None, patience: float = PATIENCE_S
    ) -> Result:
        """Run to the end. A negative status is the signal that ended it."""
        watch = threading.Timer(patience, self.signal, [signal.SIGKILL])
        watch.start()
        try:
            code, out, err = self._server.run("mlxctl", args, input.encode(), self.cwd, {**self._env, **(env or {})})
        finally:
            watch.cancel()
        return Result(code, out.decode(errors="replace"), err.decode(errors="replace"))

    def start(self, *args: str, input: str = "") -> tuple[threading.Thread, list[Result]]:
        """Run in a thread; what it ended with is in the list then."""
        results: list[Result] = []
        thread = threading.Thread(target=lambda: results.append(self(*args, input=input)), daemon=True)
        thread.start()
        return thread, results

    def child(self) -> int | None:
        """The process that runs now."""
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
        ).stdout.split()
        pairs = zip(listed[::2], listed[1::2], strict=True)
        return next((int(pid) for pid, parent in pairs if int(parent) == self._server._process.pid), None)

    def signal(self, number: int) -> None:
        """Send it to the process that runs now, if there is one."""
        if (pid := self.child()) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def close(self) -> None:
        self._server.close()


def fault(done: Result, right: str) -> str | None:
    """What is wrong with a run from a cache that may be unusable; None for a clean refusal, or the right answer."""
    for word in ("Traceback", "Exception ignored", "  File ", "a fault of mlxctl"):
        if word in done.err:
            return f"exit {done.code}, {word!r}: {done.err[-400:]!r}"
    if done.code == 0:
        return None if done.out == right else f"another answer: {done.out!r}, not {right!r}"
    if done.code < 0:
        return f"ended by signal {-done.code} (9: it hung)"
    if done.code != 4:
        return f"exit {done.code}: {done.err[-300:]!r}"
    if done.out or not 1 <= len(done.err.splitlines()) <= 2:
        return f"exit 4, stdout {done.out!r}, stderr {done.err[-300:]!r}"
    return None


# Files


def split(blob: bytes) -> tuple[Header, bytes]:
    """(header, data) of a safetensors file."""
    end = 8 + int.from_bytes(blob[:8], "little")
    return json.loads(blob[8:end]), blob[end:]


def join(header: Header | str | bytes, data: bytes) -> bytes:
    """A safetensors file; the header as a text may be anything."""
    if isinstance(header, dict):
        header = json.dumps(header, separators=(",", ":"))
    raw = header.encode() if isinstance(header, str) else header
    return len(raw).to_bytes(8, "little") + raw + data


def seal(header: Header, data: bytes) -> bytes:
    """A safetensors file whose checksum is right, so that all else in it is taken at its word."""
    text = header["__metadata__"][KEY]
    blank = re.sub(r'\A\{"checksum":"[^"]*"', f'{{"checksum":"{"0" * 64}"', text)
    header = {**header, "__metadata__": {**header["__metadata__"], KEY: blank}}
    digest = hashlib.sha256(join(header, data)).hexdigest()
    header["__metadata__"][KEY] = blank.replace("0" * 64, digest, 1)
    return join(header, data)


def retold(blob: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """The file with a changed description, and the checksum of that."""
    header, data = split(blob)
    said = json.loads(header["__metadata__"][KEY])
    change(said)
    header["__metadata__"][KEY] = json.dumps(said, separators=(",", ":"))
    return seal(header, data)


def reworded(blob: bytes, old: str, new: str) -> bytes:
    """The file with other text in its description, and the checksum of that."""
    header, data = split(blob)
    text = header["__metadata__"][KEY]
    assert old in text, f"{old} is not in {text[:300]}"
    header["__metadata__"][KEY] = text.replace(old, new, 1)
    return seal(header, data)


def rebuilt(blob: bytes, change: Callable[[Header], Any]) -> bytes:
    """The file with a changed header, and the checksum of that."""
    header, data = split(blob)
    change(header)
    return seal(header, data)


def flipped(blob: bytes, bit: int) -> bytes:
    """The file with one bit turned over."""
    changed = bytearray(blob)
    changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


def leftovers(folder: Path, *expected: str) -> list[str]:
    """What lies in a folder beside what should."""
    return sorted(path.name for path in folder.iterdir() if path.name not in expected)


def until(what: Callable[[], bool], patience: float = PATIENCE_S) -> None:
    """Wait, looking all the time."""
    deadline = time.monotonic() + patience
    while not what():
        assert time.monotonic() < deadline, f"it did not come in {patience} s"
