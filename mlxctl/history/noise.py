"""Whether two sets of measurements differ by more than noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, sqrt
from statistics import NormalDist, median

LEVEL = 0.05  # how often chance alone may be called a difference
_EXACT = 50_000  # splits of the ranks that are counted one by one


@dataclass(frozen=True)
class Difference:
    """Of b from a. change: of the medians, 0.1 for a tenth more; None from nothing to something.

    p: how often chance alone differs so much, None where there are too few values to tell at all.
    """

    a: float
    b: float
    change: float | None
    p: float | None

    @property
    def words(self) -> str:
        """p as a person reads it: "p = 0.03"."""
        return "" if self.p is None else "p < 0.001" if self.p < 0.001 else f"p = {self.p:.2g}"

    @property
    def percent(self) -> str:
        """The change as a person reads it: "+9.1 %"."""
        return "-" if self.change is None else f"{100 * self.change:+.1f} %"

    @property
    def is_real(self) -> bool:
        """Whether it is more than noise."""
        return self.p is not None and self.p < LEVEL


def difference(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Compare two sets of at least one value each, by Mann and Whitney's test of ranks: it asks nothing of the way in
    which values spread, and an outlier counts as one value."""
    low, high = median(a), median(b)
    tellable = 2 / comb(len(a) + len(b), len(a)) < LEVEL
    return Difference(low, high, _change(low, high), _p_value(a, b) if tellable else None)


def _change(a: float, b: float) -> float | None:
    return b / a - 1 if a else None if b else 0.0


def needed() -> int:
    """The least number of values on each side with which anything can be told."""
    return next(n for n in range(1, 100) if 2 / comb(2 * n, n) < LEVEL)


def _p_value(a: Sequence[float], b: Sequence[float]) -> float:
    ranks = _ranks([*a, *b])
    expected = len(a) * (len(a) + len(b) + 1) / 2
    off = abs(sum(ranks[: len(a)]) - expected)
    if comb(len(ranks), len(a)) <= _EXACT:
        splits = [sum(split) for split in combinations(ranks, len(a))]
        return sum(abs(total - expected) >= off - 1e-9 for total in splits) / len(splits)
    spread = sqrt(_variance(ranks, len(a), len(b)))
    return 2 * (1 - NormalDist().cdf(max(off - 0.5, 0.0) / spread)) if spread else 1.0


def _ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value, those that are equal sharing theirs."""
    order = sorted(values)
    first = {value: place for place, value in reversed(list(enumerate(order, 1)))}
    last = {value: place for place, value in enumerate(order, 1)}
    return [(first[value] + last[value]) / 2 for value in values]


def _variance(ranks: Sequence[float], a: int, b: int) -> float:
    """Of the sum of a's ranks, when chance alone deals them."""
    total = a + b
    middle = (total + 1) / 2
    return a * b / (total * (total - 1)) * sum((rank - middle) ** 2 for rank in ranks)
