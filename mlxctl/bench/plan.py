"""What a bench measures: lists and ranges of numbers, and the tests they make."""

import re
from collections.abc import Sequence
from itertools import product

from mlxctl.engine.bench import Task

_MOST = 1000  # numbers that a range may stand for, and the largest step of one that has none is 1
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?:([+*])([0-9]{1,9}))?)?")


def numbers(text: str) -> list[int]:
    """The numbers of "512", "0,1024", "128-512+128" or "256-4096*2", as llama-bench writes them. Raises ValueError."""
    return [number for part in text.split(",") for number in _span(part.strip())]


def _span(part: str) -> list[int]:
    found = _RANGE.fullmatch(part)
    if not found:
        raise ValueError(f"expected numbers such as 512, 0,1024, 128-512+128 or 256-4096*2, got {part[:40]!r}")
    first, last, operator, step = int(found[1]), int(found[2] or found[1]), found[3] or "+", int(found[4] or 1)
    if last < first:
        raise ValueError(f"{part}: the range ends before it begins")
    if step < (2 if operator == "*" else 1) or (operator == "*" and first == 0 and last > 0):
        raise ValueError(f"{part}: the range would never end")
    span = []
    while first <= last:
        span.append(first)
        if len(span) > _MOST:
            raise ValueError(f"{part}: more than {_MOST} numbers")
        first = first + step if operator == "+" else first * step or last + 1
    return span


def tests(prompts: Sequence[int], generates: Sequence[int], depths: Sequence[int], kv_bits: Sequence[int | None],
          batches: Sequence[int]) -> list[Task]:  # fmt: skip
    """Every combination: the processing of each prompt and each generation, behind each depth. 0 leaves a kind out."""
    whats = [(prompt, 0) for prompt in prompts if prompt] + [(0, generate) for generate in generates if generate]
    return [
        Task(prompt, generate, depth, bits, batch)
        for depth, bits, batch, (prompt, generate) in product(depths, kv_bits, batches, whats)
    ]
