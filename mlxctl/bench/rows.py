"""What a bench found: a row a test, in llama-bench's words where they mean the same."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import mean, stdev
from typing import Any

from mlxctl.engine.bench import Sample, Task
from mlxctl.settings import Settings


@dataclass(frozen=True)
class Subject:
    """What is measured. model_size: bytes of its weights."""

    model_filename: str
    model_type: str
    model_size: int
    model_n_params: int
    dtype: str
    device: str
    versions: dict[str, str]


@dataclass(frozen=True)
class Row:
    """One test. *_ns: nanoseconds, *_ts: tokens per second, one sample a repetition; None for what cannot be known.

    bytes_per_token: what a token reads at least; ceiling_ts: the rate at which memory delivers that.
    """

    subject: Subject
    test: Task
    prefill_step_size: int
    kv_group_size: int | None
    quantized_kv_start: int | None
    test_time: str
    samples_ns: list[int]
    samples_ts: list[float]
    peak_memory_gb: float
    bytes_per_token: int | None
    ceiling_ts: float | None

    @property
    def avg_ts(self) -> float:
        return mean(self.samples_ts)

    @property
    def stddev_ts(self) -> float | None:
        return stdev(self.samples_ts) if len(self.samples_ts) > 1 else None

    @property
    def ceiling_share(self) -> float | None:
        return self.avg_ts / self.ceiling_ts if self.ceiling_ts else None

    def as_dict(self) -> dict[str, Any]:
        """Flat, as JSON types."""
        spread = round(stdev(self.samples_ns)) if len(self.samples_ns) > 1 else None
        return {
            **asdict(self.subject),
            "test": self.test.name,
            "n_prompt": self.test.prompt,
            "n_gen": self.test.generate,
            "n_depth": self.test.depth,
            "batch_size": self.test.batch,
            "kv_bits": self.test.kv_bits,
            "kv_group_size": self.kv_group_size,
            "quantized_kv_start": self.quantized_kv_start,
            "prefill_step_size": self.prefill_step_size,
            "test_time": self.test_time,
            "avg_ns": round(mean(self.samples_ns)),
            "stddev_ns": spread,
            "avg_ts": self.avg_ts,
            "stddev_ts": self.stddev_ts,
            "samples_ns": self.samples_ns,
            "samples_ts": self.samples_ts,
            "peak_memory_gb": self.peak_memory_gb,
            "bytes_per_token": self.bytes_per_token,
            "ceiling_ts": self.ceiling_ts,
            "ceiling_share": self.ceiling_share,
        }


def row(subject: Subject, test: Task, samples: Sequence[Sample], settings: Settings, *, bytes_per_token: int | None,
        bandwidth: float) -> Row:  # fmt: skip
    """Put samples together. bandwidth: bytes a second."""
    quantizes = test.kv_bits is not None
    return Row(
        subject,
        test,
        settings.generation.prefill_step_size,
        settings.kv.kv_group_size if quantizes else None,
        settings.kv.quantized_kv_start if quantizes else None,
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        [round(sample.seconds * 1e9) for sample in samples],
        [test.tokens / sample.seconds for sample in samples],
        max(sample.peak_memory_gb for sample in samples),
        bytes_per_token,
        bandwidth / bytes_per_token if bytes_per_token else None,
    )
