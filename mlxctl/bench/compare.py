"""A bench beside an earlier one: what has become slower by more than noise."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from mlxctl import options
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
    samples_ts: Annotated[list[Annotated[float, Meta(gt=1e-6, lt=1e12)]], Meta(min_length=1)]
    n_depth: int = 0
    batch_size: int = 1
    kv_bits: int | None = None
    model_filename: str = ""
    device: str = ""
    dtype: str = ""
    prefill_step_size: int | None = None
    kv_group_size: int | None = None
    quantized_kv_start: int | None = None

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
        return self.difference.is_real and self.difference.b < (1 - LEAST) * self.difference.a


def read(name: str) -> list[Base]:
    """The rows of an earlier `bench -o json` or `-o jsonl`. Raises UsageError."""
    if not name:
        raise UsageError("--compare: an empty name names no file")
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


def require(base: Sequence[Base], tests: Sequence[Task]) -> None:
    """See that there is something to compare, before it is measured. Raises UsageError."""
    shared = {one.test for one in base} & {*tests}
    if not shared:
        raise UsageError("--compare: the earlier bench has none of these tests")
    twice = [one for one, count in Counter((one.test, one.model_filename) for one in base).items()
             if count > 1 and one[0] in shared]  # fmt: skip
    if twice:
        raise UsageError(f"--compare: the earlier bench has {twice[0][0].name} several times")


def compared(base: Sequence[Base], rows: Sequence[Row]) -> list[Compared]:
    """The tests that both have. Raises UsageError where the earlier bench has one several times."""
    found = []
    for row in rows:
        earlier = _same(base, row)
        if len(earlier) > 1:
            raise UsageError(f"--compare: the earlier bench has {row.test.name} {len(earlier)} times")
        found += [Compared(row.test, noise.difference(one.samples_ts, row.samples_ts)) for one in earlier]
    return found


def _same(base: Sequence[Base], row: Row) -> list[Base]:
    """The same test in the earlier bench; of several models the same model's."""
    found = [one for one in base if one.test == row.test]
    same = [one for one in found if Path(one.model_filename).name == Path(row.subject.model_filename).name]
    return same or found


def strangers(base: Sequence[Base], row: Row) -> list[str]:
    """In what the earlier bench was of something else, in words."""
    ours = {
        "model": Path(row.subject.model_filename).name,
        "device": row.subject.device,
        "dtype": row.subject.dtype,
        "prefill_step_size": str(row.prefill_step_size),
        "kv_group_size": str(row.kv_group_size or ""),
        "quantized_kv_start": "" if row.quantized_kv_start is None else str(row.quantized_kv_start),
    }
    found = []
    for name, here in ours.items():
        theirs = {_said(one, name) for one in _same(base, row) or base} - {""}
        if theirs - {here}:
            found.append(f"its {name} is {', '.join(map(options.named, sorted(theirs)))}, here it is {here}")
    return found


def _said(one: Base, name: str) -> str:
    """What a row says of itself, "" for nothing."""
    if name == "model":
        return Path(one.model_filename).name
    value = getattr(one, name)
    return "" if value is None else str(value)
