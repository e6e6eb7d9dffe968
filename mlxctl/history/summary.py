"""Runs of one model and profile, summed up."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median, quantiles
from typing import Any

from mlxctl.history import bandwidth
from mlxctl.history.record import Record

# What is measured of runs: the heading for a person, the unit, and digits behind the point.
MEASURES: dict[str, tuple[str, str, int]] = {
    "prompt_tps": ("PROMPT", "tok/s", 1),
    "generation_tps": ("GENERATION", "tok/s", 1),
    "ttft_s": ("FIRST TOKEN", "s", 2),
    "load_s": ("LOAD", "s", 2),
    "peak_memory_gb": ("PEAK", "GB", 2),
}


@dataclass(frozen=True)
class Spread:
    """The middle of values, and what 5 and 95 % of them are below, None for a single one."""

    median: float
    p5: float | None
    p95: float | None


@dataclass(frozen=True)
class Group:
    """Runs of a model with a profile. measures: by name, None where no run knows it. cached: the share of prompt tokens
    that came from a cache. ceiling_share: the median of the parts of their ceilings that runs reached."""

    model: str
    profile: str | None
    runs: int
    measures: dict[str, Spread | None]
    finish_reasons: dict[str, int]
    cached: float | None
    ceiling_share: float | None

    def as_dict(self) -> dict[str, Any]:
        """Flat, as a row of a table."""
        row: dict[str, Any] = {"model": self.model, "profile": self.profile, "runs": self.runs}
        for name, spread in self.measures.items():
            for part in ("median", "p5", "p95"):
                row[f"{name}_{part}"] = getattr(spread, part) if spread is not None else None
        row |= {"finish_reasons": self.finish_reasons, "cached_share": self.cached,
                "ceiling_share": self.ceiling_share}  # fmt: skip
        return row


NOTHING = Group("", None, 0, dict.fromkeys(MEASURES), {}, None, None)


def groups(records: Iterable[Record]) -> list[Group]:
    """One group a model and profile, in the order of their names."""
    ordered = sorted(records, key=_key)
    return [_group(model, profile or None, list(runs)) for (model, profile), runs in groupby(ordered, key=_key)]


def values(records: Iterable[Record], name: str) -> list[float]:
    """What is known of one figure of the timing."""
    found = (getattr(record.run.timing, name) for record in records)
    return [value for value in found if value is not None]


def spread(found: Sequence[float]) -> Spread | None:
    """The middle and the edges of values."""
    if len(found) < 2:
        return Spread(found[0], None, None) if found else None
    cuts = quantiles(found, n=20, method="inclusive")
    return Spread(median(found), cuts[0], cuts[-1])


def _key(record: Record) -> tuple[str, str]:
    return record.model, record.profile or ""


def _group(model: str, profile: str | None, records: list[Record]) -> Group:
    ended = Counter(record.run.finish_reason for record in records if record.run.finish_reason is not None)
    shares = list(_shares(records))
    return Group(
        model,
        profile,
        len(records),
        {name: spread(values(records, name)) for name in MEASURES},
        dict(sorted(ended.items())),
        _cached(records),
        median(shares) if shares else None,
    )


def _cached(records: Sequence[Record]) -> float | None:
    told = [record.run.timing for record in records if record.run.timing.cached_tokens is not None]
    total = sum(timing.prompt_tokens or 0 for timing in told)
    return sum(timing.cached_tokens or 0 for timing in told) / total if total else None


def _shares(records: Iterable[Record]) -> Iterator[float]:
    for record in records:
        found = bandwidth.share(record.run.timing, record.run.device)
        if found is not None:
            yield found
