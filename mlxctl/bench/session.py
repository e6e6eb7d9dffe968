"""Running a bench: the tests of a plan, one measurement after the other."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from mlxctl.bench.rows import Row, Subject, row
from mlxctl.engine.bench import Sample, Task
from mlxctl.errors import UsageError
from mlxctl.settings import Settings

if TYPE_CHECKING:
    from mlxctl.engine.bench import Bench
    from mlxctl.engine.engine import Engine

_WARM_TOKENS = 8  # generated before the clock runs


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often. delay: seconds of rest before each measurement. together: the tests take turns,
    so that what changes on the machine meanwhile changes all."""

    tests: Sequence[Task]
    repetitions: int = 5
    delay: float = 0.0
    warmup: bool = True
    together: bool = False

    @property
    def measurements(self) -> int:
        return len(self.tests) * self.repetitions


def measure(engine: "Engine", settings: Settings, plan: Plan, bandwidth: float,
            tell: Callable[[str, int], None], warn: Callable[[str], None]) -> Iterator[Row]:  # fmt: skip
    """Run the plan; yields a row as soon as its test is done.

    bandwidth: bytes a second. tell: is told of each measurement that begins, and how many are done. warn: of settings.
    Raises UsageError for settings that the model cannot have, ResourceError.
    """
    for bits in {test.kv_bits for test in plan.tests}:
        engine.check(_with_bits(settings, bits), warn)
    bench, subject, done = engine.bench(settings), _subject(engine), 0
    parts = [plan.tests] if plan.together else [[test] for test in plan.tests]
    for part in parts:
        samples: dict[Task, list[Sample]] = {test: [] for test in part}
        for test in part:
            tell(test.name, done)
            if plan.warmup:
                bench.measure(replace(test, generate=min(test.generate, _WARM_TOKENS)))
        for _ in range(plan.repetitions):
            for test in part:
                tell(test.name, done)
                time.sleep(plan.delay)
                samples[test].append(bench.measure(test))
                done += 1
        yield from (_row(bench, subject, settings, test, samples[test], bandwidth) for test in part)


def require_batches(engine: "Engine", settings: Settings, tests: Sequence[Task]) -> None:
    """See that the model can answer several sequences at once, where that is to be measured. Raises UsageError."""
    from mlxctl.engine import kv

    if all(test.batch == 1 for test in tests):
        return
    if not kv.can_be_joined(engine.fresh_caches(settings)):
        raise UsageError(f"--batch-size: caches of {settings.model_id} cannot be put together once they hold tokens")


def unquantized(tests: Sequence[Task], settings: Settings) -> list[Task]:
    """The tests whose caches would be quantized, but for `quantized_kv_start`, which they do not come to."""
    start = settings.kv.quantized_kv_start
    return [test for test in tests if test.kv_bits is not None and test.depth + test.prompt + test.generate < start]


def beyond(tests: Sequence[Task], context: int | None) -> list[Task]:
    """The tests that are longer than the context a model was made for."""
    return [test for test in tests if context is not None and test.depth + test.prompt + test.generate > context]


def _row(bench: "Bench", subject: Subject, settings: Settings, test: Task, samples: Sequence[Sample],
         bandwidth: float) -> Row:  # fmt: skip
    needed = bench.bytes_per_token(test, samples[0])
    return row(subject, test, samples, settings, bytes_per_token=needed, bandwidth=bandwidth)


def _with_bits(settings: Settings, bits: int | None) -> Settings:
    return msgspec.structs.replace(settings, kv=msgspec.structs.replace(settings.kv, kv_bits=bits))


def _subject(engine: "Engine") -> Subject:
    size, info = engine.size(), engine.info
    return Subject(info.id, size.type, size.bytes, size.parameters, info.dtype, engine.device, engine.versions)
