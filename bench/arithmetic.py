"""The arithmetic of a benchmark: percentiles, the spread over rounds, and whose turn it is."""

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Literal, TypeVar

import attrs

T = TypeVar("T")
Bound = Literal["at most", "at least", "exactly"]


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` of the ordered values do not exceed."""
    assert ordered
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


@attrs.frozen(kw_only=True)
class Spread:
    """What several rounds gave: the middle one, the lowest and the highest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Sum up at least one value."""
        return cls(median=statistics.median(values), low=min(values), high=max(values))

    def __str__(self) -> str:
        return f"{self.median:,.0f} ({self.low:,.0f} to {self.high:,.0f})"


def counted(number: int, thing: str) -> str:
    """So many of a thing whose plural ends with an s."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def interleave(variants: Sequence[T], rounds: int) -> Iterator[tuple[int, T]]:
    """A B A B …: each variant once a round, so that what drifts meanwhile drifts for all."""
    for number in range(rounds):
        for variant in variants:
            yield number, variant


@attrs.frozen(kw_only=True)
class Target:
    """What the figures are to reach. `bound` says on which side of `limit` the value must be."""

    what: str
    value: float
    limit: float
    unit: str
    bound: Bound = "at most"

    @property
    def met(self) -> bool:
        """Whether the value is on the right side; `exactly` allows for 2% of noise."""
        match self.bound:
            case "at most":
                return self.value <= self.limit
            case "at least":
                return self.value >= self.limit
            case _:
                return abs(self.value - self.limit) <= 0.02 * abs(self.limit)

    def as_line(self) -> str:
        """The target as a sentence of the table."""
        verdict = "met" if self.met else "NOT met"
        return f"{self.what}: {self.value:,.2f} {self.unit}, {self.bound} {self.limit:g}: {verdict}"
