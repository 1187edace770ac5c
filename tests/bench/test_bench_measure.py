"""The arithmetic of the benchmarks; the scenarios themselves run by `python -m bench`."""

import pytest

from bench.measure import figures, percentile


@pytest.mark.parametrize(("percent", "value"), [(1, 1.0), (50, 50.0), (95, 95.0), (99, 99.0)])
def test_percentiles_are_values_that_were_measured(percent: int, value: float) -> None:
    """The nth percentile of a hundred values is the nth of them."""
    assert percentile([float(number) for number in range(1, 101)], percent) == value


def test_one_request_is_every_percentile() -> None:
    """A single measurement is its own median and its own worst case."""
    assert percentile([3.0], 50) == percentile([3.0], 99) == 3.0


def test_figures_are_in_milliseconds_and_per_second() -> None:
    """Seconds that went in come out as milliseconds, and the rate counts all clients."""
    row = figures("x", [0.2, 0.1], clients=2, seconds=0.5)
    assert (row.p50_ms, row.p99_ms, row.per_second) == (100.0, 200.0, 4.0)
