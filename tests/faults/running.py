"""Programs under way: start them, wait for what they show, signal them, never leave one behind."""

import array
import fcntl
import json
import os
import select
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import Program

PATIENCE_S = 90.0  # for anything observable: a slow machine loads a model in ten seconds
ENDLESS = ("--max-tokens", "-1")
LINE = "The rain in the morning was light. "  # 15 tokens of the tiny byte-level tokenizers


class Running:
    """A started program and what came out of it so far."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.pid = process.pid
        self.out = b""
        self.err = b""

    def wait_out(self, ready: Callable[[bytes], bool], patience: float = PATIENCE_S) -> bytes:
        """Read stdout as it comes until `ready` of all of it."""
        assert self.process.stdout is not None
        self.out = read_until(self.process.stdout.fileno(), ready, self.out, patience)
        return self.out

    def wait_err(self, ready: Callable[[bytes], bool], patience: float = PATIENCE_S) -> bytes:
        """Read stderr as it comes until `ready` of all of it."""
        assert self.process.stderr is not None
        self.err = read_until(self.process.stderr.fileno(), ready, self.err, patience)
        return self.err

    def signal(self, number: int) -> float:
        """Send it; return when that was."""
        self.process.send_signal(number)
        return time.monotonic()

    def end(self, patience: float = PATIENCE_S) -> int:
        """Read the streams up to their end; return the exit status."""
        out, err = self.process.communicate(timeout=patience)
        self.out += out or b""
        self.err += err or b""
        return self.process.returncode


def read_until(fd: int, ready: Callable[[bytes], bool], data: bytes = b"", patience: float = PATIENCE_S) -> bytes:
    """Add what can be read to `data` until `ready`; fails at the end of the file, or when nothing comes."""
    deadline = time.monotonic() + patience
    while not ready(data):
        left = max(0.0, deadline - time.monotonic())
        assert select.select([fd], [], [], left)[0], f"nothing more came in {patience} s after {data[-300:]!r}"
        more = os.read(fd, 65536)
        assert more, f"it ended too early, after {data[-300:]!r}"
        data += more
    return data


def default_signals() -> None:
    """What a shell gives a job in the foreground, whatever the test runner was started with."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def running(mlxctl: Program, *args: str, env: Mapping[str, str] | None = None, **streams: Any) -> Iterator[Running]:
    """Start it in a session of its own, stdin /dev/null and both outputs pipes unless told; kill it at the end."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
               "preexec_fn": default_signals, **streams}  # fmt: skip
    process = mlxctl.popen(*args, env=env, start_new_session=True, **streams)
    try:
        yield Running(process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@contextmanager
def shell(mlxctl: Program, script: str, *args: str, **streams: Any) -> Iterator[Running]:
    """Run a bash script in which "$M" is the program and "$@" the arguments."""
    bash = Program("mlxctl", {**mlxctl.env, "M": mlxctl.path}, mlxctl.cwd)
    bash.path = "/bin/bash"
    with running(bash, "-c", script, "bash", *args, **streams) as started:
        yield started


def wait_for(what: Callable[[], bool], patience: float = PATIENCE_S) -> None:
    """Until it is so; fails when it never is."""
    deadline = time.monotonic() + patience
    while not what():
        assert time.monotonic() < deadline, f"{what} did not come in {patience} s"
        time.sleep(0.01)


def waiting(fd: int) -> int:
    """Bytes in a pipe that nobody has read yet."""
    count = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]


def cpu_seconds(pid: int) -> float:
    """Processor time a process has used, in whole seconds."""
    text = subprocess.run(["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
    parts = text.strip().replace("-", ":").split(":")
    return sum(float(part) * unit for part, unit in zip(reversed(parts), (1, 60, 3600, 86400), strict=False))


@contextmanager
def dead_pipe() -> Iterator[int]:
    """The end to write to of a pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        yield writer
    finally:
        os.close(writer)


def prompt_file(folder: Path, tokens: int) -> str:
    """Path of a text of about so many tokens."""
    path = folder / f"{tokens}.txt"
    path.write_text(LINE * (tokens // 15))
    return str(path)


def shim(folder: Path, module: str, code: str) -> dict[str, str]:
    """An environment in which importing `module` runs `code`."""
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(code)
    return {"PYTHONPATH": str(folder)}


def events(out: bytes) -> list[dict[str, Any]]:
    """The lines of --format jsonl; the last one must be whole."""
    assert out.endswith(b"\n"), out[-300:]
    return [json.loads(line) for line in out.splitlines()]


def no_traceback(err: bytes) -> None:
    """Nothing on stderr that only a Python programmer wants to see."""
    for word in (b"Traceback", b"Exception ignored", b"  File ", b"Error in sys.", b"a fault of mlxctl"):
        assert word not in err, err.decode(errors="replace")


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A disk of its own at a folder, which is made."""
    folder.mkdir()
    if os.getuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "mlxctl-test", str(folder)],
                             capture_output=True, check=False)  # fmt: skip
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path, leave: int) -> None:
    """Leave that many bytes free, or some less."""
    with (folder / "filler").open("wb") as file, suppress(OSError):
        while True:
            os.write(file.fileno(), bytes(4096))
    size = (folder / "filler").stat().st_size
    os.truncate(folder / "filler", max(0, (size - leave) // 4096 * 4096))
