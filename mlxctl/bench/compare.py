"""A bench beside an earlier one: what has become slower by more than noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from mlxctl.bench.rows import Row
from mlxctl.engine.bench import Task
from mlxctl.errors import UsageError, first_line
from mlxctl.history import noise
from mlxctl.history.noise import Difference
from mlxctl.paths import expand

LEAST = 0.05  # how much slower counts: two processes on one machine differ by some per cent


class Base(msgspec.Struct, frozen=True):
    """What a comparison needs of a row; llama-bench's JSON has it, too."""

    n_prompt: int
    n_gen: int
    samples_ts: Annotated[list[Annotated[float, Meta(gt=0)]], Meta(min_length=1)]
    n_depth: int = 0
    batch_size: int = 1
    kv_bits: int | None = None
    model_filename: str = ""
    device: str = ""

    @property
    def test(self) -> Task:
        return Task(self.n_prompt, self.n_gen, self.n_depth, self.kv_bits, self.batch_size)


@dataclass(frozen=True)
class Compared:
    """A test in both. difference: of this bench from BASE, so that a negative change is slower."""

    test: Task
    difference: Difference

    @property
    def is_regression(self) -> bool:
        return self.difference.is_real and self.difference.change < -LEAST


def read(name: str) -> list[Base]:
    """The rows of an earlier `bench -o json` or `-o jsonl`. Raises UsageError."""
    try:
        data = expand(name).read_bytes()
    except OSError as error:
        raise UsageError(f"--compare {name}: {error.strerror}") from None
    try:
        found = _decoded(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(f"--compare {name}: this is not what bench -o json writes ({first_line(error)})") from None
    if not found:
        raise UsageError(f"--compare {name}: it holds no test")
    return found


def _decoded(data: bytes) -> list[Base]:
    if data.lstrip().startswith(b"["):
        return msgspec.json.decode(data, type=list[Base])
    return [msgspec.json.decode(line, type=Base) for line in data.splitlines() if line.strip()]


def compared(base: Sequence[Base], rows: Sequence[Row]) -> list[Compared]:
    """The tests that both have."""
    earlier = {one.test: one.samples_ts for one in base}
    return [Compared(row.test, noise.difference(earlier[row.test], row.samples_ts))
            for row in rows if row.test in earlier]  # fmt: skip


def strangers(base: Sequence[Base], row: Row) -> list[str]:
    """In what the earlier bench was of something else, in words."""
    pairs = [("model", {Path(one.model_filename).name for one in base}, Path(row.subject.model_filename).name),
             ("device", {one.device for one in base}, row.subject.device)]  # fmt: skip
    return [f"its {name} is {', '.join(sorted(theirs))}, here it is {ours}"
            for name, theirs, ours in pairs if theirs - {ours, ""}]  # fmt: skip
