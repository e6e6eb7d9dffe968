"""The bandwidth of this machine's memory, measured once, and the ceiling it sets to a rate."""

import functools
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from mlxctl import paths, writing
from mlxctl.errors import MlxctlError
from mlxctl.events import Done, Timing
from mlxctl.output.json import encode


class Bandwidth(msgspec.Struct, frozen=True):
    """Bytes a second that a device reads, as measured at a time (seconds since 1970)."""

    bytes_per_s: float
    at: float


def known(device: str) -> Bandwidth | None:
    """What was measured of a device of this machine; None for nothing that can be read."""
    return _all().get(_key(device))


def measured(device: str, say: Callable[[str], None]) -> Bandwidth:
    """The same, measured now, and the higher of this and what is known: a busy machine shows less than it can.

    What cannot be kept is told.
    """
    from mlxctl.engine.roofline import measure_bandwidth

    before, found = known(device), Bandwidth(measure_bandwidth(), time.time())
    if before is not None and before.bytes_per_s >= found.bytes_per_s:
        return before
    try:
        _keep({**_all(), _key(device): found})
    except (OSError, MlxctlError) as error:
        say(f"the memory's bandwidth cannot be kept for the next time: {error}")
    return found


def with_ceiling(done: Done) -> Done:
    """A run with the rate that memory allows, where that is known."""
    ceiling = ceiling_tps(done.timing, done.device)
    return done if ceiling is None else replace(done, timing=replace(done.timing, ceiling_tps=ceiling))


def ceiling_tps(timing: Timing, device: str) -> float | None:
    """The highest rate that memory allows a run; None where the bytes or the bandwidth are not known."""
    if timing.ceiling_tps is not None or timing.bytes_per_token is None:
        return timing.ceiling_tps
    found = known(device)
    return found.bytes_per_s / timing.bytes_per_token if found is not None else None


def share(timing: Timing, device: str) -> float | None:
    """Which part of the ceiling a run's rate was."""
    ceiling = ceiling_tps(timing, device)
    return timing.generation_tps / ceiling if ceiling and timing.generation_tps is not None else None


def explain(device: str) -> str:
    """How the ceiling comes about, in a few lines, with what was measured here."""
    found = known(device)
    how = "numpy reads 512 MB with a thread a core" if device.startswith("cpu") else "mlx adds up 2 GB on the device"
    measured_text = (
        f"Measured here on {time.strftime('%Y-%m-%d', time.localtime(found.at))}: {found.bytes_per_s / 1e9:.1f} GB/s, "
        f"the best of seven passes ({how}) and of all benches; kept in {paths.short(_file())}, remove it to begin anew."
        if found is not None
        else "It was not measured here yet: mlxctl bench does so."
    )
    return (
        "The ceiling of a rate is the memory's bandwidth over the bytes that one token reads: the weights that take "
        "part in it (of an embedding a row, of experts those that are active) and the caches at that length. Nothing "
        "decodes faster, but for a model that fits in the processor's own caches. "
        + measured_text
    )  # fmt: skip


def _file() -> Path:
    return paths.cache_dir() / "bandwidth.json"


def _key(device: str) -> str:
    """A home may be shared by machines."""
    return f"{device} of {platform.node()}"


def forget() -> None:
    """Read the file anew at the next question."""
    _all.cache_clear()


@functools.cache
def _all() -> dict[str, Bandwidth]:
    with suppress(OSError, msgspec.MsgspecError, ValueError, MlxctlError):
        if paths.is_file(_file()):
            found = msgspec.json.decode(_file().read_bytes(), type=dict[str, Bandwidth])
            return {key: one for key, one in found.items() if one.bytes_per_s > 0 and 0 <= one.at < 1e11}
    return {}


def _keep(found: dict[str, Bandwidth]) -> None:
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    writing.put(file, (encode(found) + "\n").encode())
    forget()
