"""The arithmetic of the benchmarks: percentiles, spreads, turns, targets and accounts."""

from pathlib import Path

import pytest

from bench.arithmetic import Bound, Spread, Target, counted, interleave, percentile
from bench.machine import time_fsyncs
from bench.rounds import Round, Spent, Variant, sum_up


@pytest.mark.parametrize(("percent", "value"), [(1, 1.0), (50, 50.0), (99, 99.0), (99.5, 100.0)])
def test_percentiles_are_values_that_were_measured(percent: float, value: float) -> None:
    """The nth percentile of a hundred values is the nth of them."""
    assert percentile([float(number) for number in range(1, 101)], percent) == value


def test_one_value_is_every_percentile() -> None:
    """A single measurement is its own median and its own worst case."""
    assert percentile([3.0], 50) == percentile([3.0], 99) == percentile([3.0], 0) == 3.0


def test_a_spread_tells_middle_and_ends() -> None:
    """The median is not moved by one round that went wrong, and the ends show that one did."""
    assert Spread.of([10.0, 900.0, 12.0]) == Spread(median=12.0, low=10.0, high=900.0)
    assert str(Spread.of([1000.0, 2000.0])) == "1,500 (1,000 to 2,000)"


@pytest.mark.parametrize(
    ("number", "told"),
    [(0, "0 clients"), (1, "1 client"), (2, "2 clients"), (1000, "1,000 clients")],
)
def test_one_is_no_plural(number: int, told: str) -> None:
    """A row is of 1 client, or of several clients."""
    assert counted(number, "client") == told


def test_variants_take_turns() -> None:
    """Each variant is measured once a round, in the same order: A B A B."""
    assert list(interleave("AB", 3)) == [
        (0, "A"), (0, "B"), (1, "A"), (1, "B"), (2, "A"), (2, "B"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bound", "value", "met"),
    [
        ("at most", 3.0, True),
        ("at most", 3.1, False),
        ("at least", 3.0, True),
        ("at least", 2.9, False),
        ("exactly", 3.0, True),
        ("exactly", 3.05, True),
        ("exactly", 3.2, False),
        ("exactly", 2.8, False),
    ],
)
def test_targets_are_judged(bound: Bound, value: float, met: bool) -> None:
    """A target is met on its own side of the limit, and says so in its line."""
    target = Target(what="wake", value=value, limit=3, unit="ms", bound=bound)
    assert target.met is met
    assert target.as_line().endswith(": met" if met else ": NOT met")


def spent(seconds: float, *, server: float = 0, client: float = 0) -> Spent:
    """What a round took."""
    return Spent(server_us=server, postgres_us=40, client_us=client, seconds=seconds)


def served(pid: int | None) -> Variant:
    """A variant that is served by this process."""
    return Variant(name="x", clients=2, run=lambda _watch, _round: _never(), pid=pid)


async def _never() -> list[float]:
    raise AssertionError("nobody runs this")


def test_rounds_are_summed_up() -> None:
    """Rates are told by round, percentiles over all rounds, CPU by operation."""
    rounds = [
        Round(times=[0.1, 0.3], spent=spent(0.5, server=600, client=100), fsyncs_per_second=9),
        Round(times=[0.2, 0.4], spent=spent(1.0, server=200, client=300), fsyncs_per_second=5),
    ]
    figures = sum_up(served(7), rounds)
    assert figures.operations == 4
    assert figures.per_second == Spread(median=3.0, low=2.0, high=4.0)
    assert (figures.p50_ms, figures.p99_ms) == (200.0, 400.0)
    assert (figures.server_us, figures.postgres_us, figures.client_us) == (200.0, 20.0, 100.0)
    assert figures.fsyncs_per_second.median == 7


def test_a_busy_client_is_told() -> None:
    """A client that takes nearly a whole CPU may be what was measured, and is named."""
    busy = Round(times=[0.1], spent=spent(1.0, client=900_000), fsyncs_per_second=1)
    calm = Round(times=[0.1], spent=spent(1.0, client=100_000), fsyncs_per_second=1)
    assert sum_up(served(7), [busy]).client_bound
    assert not sum_up(served(7), [calm]).client_bound


def test_a_process_that_serves_itself_has_no_client() -> None:
    """The CPU of a baseline that runs in this process is the server's column, once."""
    one = Round(times=[0.1], spent=spent(1.0, server=500, client=500), fsyncs_per_second=1)
    figures = sum_up(served(None), [one])
    assert figures.server_us == 500
    assert figures.client_us is None
    assert not figures.client_bound


def test_the_probe_writes_and_leaves_nothing(tmp_path: Path) -> None:
    """The probe times each write in the folder that it is given and takes its file away again."""
    times = time_fsyncs(tmp_path, 0.02)
    assert min(times) > 0
    assert sum(times) >= 0.02
    assert list(tmp_path.iterdir()) == []
