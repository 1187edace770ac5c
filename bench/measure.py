"""Figures of one kind of request: how many a second, and how long the slow ones take."""

import time
from collections.abc import Awaitable, Callable, Iterable

import attrs
import trio

from bench.client import Connection


@attrs.frozen(kw_only=True)
class Figures:
    """What was measured of one kind of request; times are in milliseconds."""

    name: str
    requests: int
    clients: int
    seconds: float
    p50_ms: float
    p95_ms: float
    p99_ms: float

    @property
    def per_second(self) -> float:
        """Requests a second, all clients together."""
        return self.requests / self.seconds

    def as_line(self) -> str:
        """One line of the table that `HEADING` heads."""
        return (
            f"{self.name:<36}{self.requests:>9}{self.clients:>9}{self.per_second:>11.0f}"
            f"{self.p50_ms:>9.2f}{self.p95_ms:>9.2f}{self.p99_ms:>9.2f}"
        )


HEADING = (
    f"{'what':<36}{'requests':>9}{'clients':>9}{'a second':>11}"
    f"{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}"
)
Work = Callable[[Connection, int], Awaitable[None]]


async def measure(name: str, port: int, work: Work, *, requests: int, clients: int) -> Figures:
    """Run `work` as often as `requests` says, spread over clients with one connection each.

    Each client begins its next request when its last was answered. `work` raises if an answer is
    not the one that it expects, and that ends the run: a fast refusal is no figure.
    """
    assert 0 < clients <= requests
    times: list[float] = []

    async def one(first: int) -> None:
        async with Connection.open(port) as connection:
            for number in range(first, requests, clients):
                began = time.perf_counter()
                await work(connection, number)
                times.append(time.perf_counter() - began)

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for first in range(clients):
            nursery.start_soon(one, first)
    return figures(name, times, clients=clients, seconds=time.perf_counter() - began)


def figures(name: str, times: Iterable[float], *, clients: int, seconds: float) -> Figures:
    """Sum up the seconds that requests took."""
    ordered = sorted(times)
    return Figures(
        name=name,
        requests=len(ordered),
        clients=clients,
        seconds=seconds,
        p50_ms=percentile(ordered, 50) * 1000,
        p95_ms=percentile(ordered, 95) * 1000,
        p99_ms=percentile(ordered, 99) * 1000,
    )


def percentile(ordered: list[float], percent: int) -> float:
    """The smallest value that `percent` of the ordered values do not exceed."""
    assert ordered
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
