"""The figures of a run: as a line for a person, and as JSON."""

import os
from typing import Any

from mlxctl.errors import ResourceError, UsageError
from mlxctl.events import Done
from mlxctl.output.json import encode
from mlxctl.paths import expand


def line(done: Done) -> str:
    """All that matters on one line; what is not known is left out."""
    t = done.timing
    parts = [
        _count(t.prompt_tokens, "prompt token") + (f" ({t.cached_tokens} cached)" if t.cached_tokens else ""),
        f"{t.prompt_tps:.1f} tok/s" if t.prompt_tps is not None else "",
        f"first token {t.ttft_s:.2f} s" if t.ttft_s is not None else "",
        _count(t.generation_tokens, "token"),
        f"{t.generation_tps:.1f} tok/s{_share(done)}" if t.generation_tps is not None else "",
        f"{t.draft_accepted} of {t.draft_tokens} drafted accepted" if t.draft_tokens is not None else "",
        f"{t.kv_layers_quantized} of {t.kv_layers} cache layers quantized" if t.kv_layers_quantized else "",
        f"peak {t.peak_memory_gb:.2f} GB" if t.peak_memory_gb is not None else "",
        _stop(done.stop),
    ]
    return " · ".join(part for part in parts if part)


def short(done: Done) -> str:
    """What matters of one turn of a conversation, on a short line."""
    t = done.timing
    parts = [
        _count(t.generation_tokens, "token"),
        f"{t.generation_tps:.1f} tok/s" if t.generation_tps is not None else "",
        f"first after {t.ttft_s:.2f} s" if t.ttft_s is not None else "",
        f"{t.prefill_tokens} read" + (f", {t.cached_tokens} cached" if t.cached_tokens else ""),
    ]
    return " · ".join(part for part in parts if part)


def record(done: Done) -> dict[str, Any]:
    """The run object without the words of the answer."""
    return {key: value for key, value in done.as_dict().items() if key not in ("text", "thinking")}


def as_json(done: Done) -> str:
    """The record on one line."""
    return encode(record(done))


def append(path: str, done: Done) -> None:
    """Add the record to a JSONL file, in one write, so that several runs may share it."""
    data = (as_json(done) + "\n").encode()
    try:
        with open_log(path) as file:
            file.write(data)
    except OSError as error:
        raise ResourceError(f"--stats-file {path}: {error.strerror}") from None


def open_log(path: str) -> Any:
    """Open a JSONL file to add to it, unbuffered; UsageError when that cannot be."""
    try:
        return expand(path).open("ab", buffering=0)
    except OSError as error:
        raise UsageError(f"--stats-file {path}: {os.strerror(error.errno or 0)}") from None


def _share(done: Done) -> str:
    """Which part of the rate that memory allows it was, where that is known."""
    rate, ceiling = done.timing.generation_tps, done.timing.ceiling_tps
    return f" ({100 * rate / ceiling:.0f} % of the ceiling)" if rate is not None and ceiling else ""


def _count(number: int | None, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}" if number is not None else ""


def _stop(stop: dict[str, Any]) -> str:
    return {
        "eos": "ended by {token}",
        "string": "ended by the stop text {string!r}",
        "grammar": "ended by the grammar",
        "length": "cut at {max_tokens} tokens",
        "signal": "interrupted by {signal}",
    }[stop["kind"]].format(**stop)
