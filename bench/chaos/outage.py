"""How long nobody got anything done, while the server should have been up."""

import itertools
from collections.abc import Sequence

import attrs

from bench.chaos.children import ChaosError
from bench.chaos.nemeses import Blow, Kind


@attrs.frozen(kw_only=True)
class Outages:
    """The longest times, in seconds; 0 where there was none."""

    silence_seconds: float  # without any success, whatever was being done to the server
    outage_seconds: float  # the same, less the time in which it was down or not ready
    server_ready_seconds: float  # from the start of a killed server until it said so
    postgres_ready_seconds: float  # from PostgreSQL's return until /readyz said so


def measure_outages(
    successes: Sequence[float], blows: Sequence[Blow], *, ended: float, began: float | None = None
) -> Outages:
    """Look between the successes, and between both ends of the load, from the first one by default.

    ChaosError when that is asked for and there is none: such a storm has shown nothing.
    """
    if began is None:
        if not successes:
            raise ChaosError("nobody got anything done: no client was answered even once")
        began = min(successes)
    times = sorted(one for one in successes if began <= one <= ended)
    points = [began, *times, ended]
    gaps = list(itertools.pairwise(points))
    down = [(blow.at, blow.until) for blow in blows]
    return Outages(
        silence_seconds=max(end - start for start, end in gaps),
        outage_seconds=max(end - start - _overlap(start, end, down) for start, end in gaps),
        server_ready_seconds=_longest(blows, Kind.SERVER),
        postgres_ready_seconds=max(_longest(blows, Kind.POSTMASTER), _longest(blows, Kind.BACKEND)),
    )


def _overlap(start: float, end: float, down: Sequence[tuple[float, float]]) -> float:
    # The heavy blows are one after the other, so their times do not overlap.
    return sum(max(0.0, min(end, until) - max(start, at)) for at, until in down)


def _longest(blows: Sequence[Blow], kind: Kind) -> float:
    return max((blow.ready_seconds or 0.0 for blow in blows if blow.kind is kind), default=0.0)
