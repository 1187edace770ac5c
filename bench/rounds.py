"""Rounds: what is measured and its baselines take turns, and each round is accounted for.

A round is one Run within a Stopwatch, which reads the clock and the CPU time of everybody who takes
part: the serving process, PostgreSQL with all of its processes, and this process, the client. The
fsync probe runs right before each round.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import attrs

from bench.arithmetic import Spread, interleave, percentile
from bench.machine import fsyncs_per_second
from bench.processes import cpu_us, family_cpu_us
from muster.pg.embedded import Embedded

PROBE_SECONDS = 0.1
CLIENT_LOAD_MAX = 0.8


@attrs.frozen(kw_only=True)
class Spent:
    """CPU time in microseconds, and the clock in seconds."""

    server_us: float
    postgres_us: float
    client_us: float
    seconds: float


@attrs.define
class Stopwatch:
    """Around the measured part of a round: `pid` serves, or this process does when it is None."""

    pid: int | None
    cluster: Embedded | None
    spent: Spent | None = None
    _began: Spent | None = None

    def __enter__(self) -> Self:
        """Begin."""
        self._began = self._read()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End."""
        began, ended = self._began, self._read()
        assert began is not None
        self.spent = Spent(
            server_us=ended.server_us - began.server_us,
            postgres_us=ended.postgres_us - began.postgres_us,
            client_us=ended.client_us - began.client_us,
            seconds=ended.seconds - began.seconds,
        )

    def _read(self) -> Spent:
        own_us = time.process_time() * 1e6
        postmaster = None if self.cluster is None else self.cluster.postmaster
        return Spent(
            server_us=own_us if self.pid is None else cpu_us(self.pid),
            postgres_us=0 if postmaster is None else family_cpu_us(postmaster),
            client_us=own_us,
            seconds=time.perf_counter(),
        )


# Does one round within the watch and returns the seconds that each operation took.
Run = Callable[[Stopwatch, int], Awaitable[Sequence[float]]]


@attrs.frozen(kw_only=True)
class Variant:
    """One thing to measure. `pid`: which process serves; None when this one does.

    `cluster` is for one that has a PostgreSQL of its own, instead of everybody's.
    """

    name: str
    clients: int
    run: Run
    pid: int | None
    baseline: bool = False
    cluster: Embedded | None = None
    facts: dict[str, float] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Figures:
    """What the rounds of one variant gave. CPU times are microseconds an operation."""

    name: str
    baseline: bool
    clients: int
    operations: int
    rounds: int
    per_second: Spread
    p50_ms: float
    p99_ms: float
    server_us: float
    postgres_us: float
    client_us: float | None  # None when the client is the server
    client_load: float | None  # of one CPU, while it measured
    fsyncs_per_second: Spread
    facts: dict[str, float] = attrs.field(factory=dict)

    @property
    def client_bound(self) -> bool:
        """The client was so busy that it may have been what was measured."""
        return self.client_load is not None and self.client_load > CLIENT_LOAD_MAX


@attrs.frozen(kw_only=True)
class Round:
    """One round as it was."""

    times: Sequence[float]
    spent: Spent
    fsyncs_per_second: float


async def compare(
    variants: Sequence[Variant], *, rounds: int, cluster: Embedded | None, folder: Path
) -> list[Figures]:
    """Measure the variants in turn, A B A B, `rounds` times each; `folder` is where fsync counts.

    One round of each goes before, unmeasured, so that everybody's caches and statements are warm.
    """
    for variant in variants:
        await variant.run(Stopwatch(variant.pid, variant.cluster or cluster), 0)
    done: dict[str, list[Round]] = {variant.name: [] for variant in variants}
    for number, variant in interleave(variants, rounds):
        probed = await fsyncs_per_second(folder, PROBE_SECONDS)
        watch = Stopwatch(variant.pid, variant.cluster or cluster)
        times = await variant.run(watch, number + 1)
        assert watch.spent is not None, f"{variant.name} measured nothing"
        assert times, f"{variant.name} did nothing"
        done[variant.name].append(Round(times=times, spent=watch.spent, fsyncs_per_second=probed))
    return [sum_up(variant, done[variant.name]) for variant in variants]


def sum_up(variant: Variant, rounds: Sequence[Round]) -> Figures:
    """The figures of a variant's rounds: rates by round, percentiles and CPU over all of them."""
    times = sorted(one for each in rounds for one in each.times)
    operations = len(times)
    serves_itself = variant.pid is None
    client_us = sum(each.spent.client_us for each in rounds)
    seconds = sum(each.spent.seconds for each in rounds)
    return Figures(
        name=variant.name,
        baseline=variant.baseline,
        clients=variant.clients,
        operations=operations,
        rounds=len(rounds),
        per_second=Spread.of([len(each.times) / each.spent.seconds for each in rounds]),
        p50_ms=percentile(times, 50) * 1000,
        p99_ms=percentile(times, 99) * 1000,
        server_us=sum(each.spent.server_us for each in rounds) / operations,
        postgres_us=sum(each.spent.postgres_us for each in rounds) / operations,
        client_us=None if serves_itself else client_us / operations,
        client_load=None if serves_itself else client_us / 1e6 / seconds,
        fsyncs_per_second=Spread.of([each.fsyncs_per_second for each in rounds]),
        facts=variant.facts,
    )
