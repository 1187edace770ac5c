"""What tests wait with."""

import pytest

from tests.support.waiting import dawdle, until, until_blocking


async def test_until_returns_what_was_true() -> None:
    """Waiting ends with the first true answer of a plain or an async predicate."""
    answers = iter([0, None, "", "yes"])
    assert await until(lambda: next(answers)) == "yes"
    later = iter([0, 7])

    async def ask() -> int:
        return next(later)

    assert await until(ask) == 7


async def test_until_gives_up_with_the_last_answer() -> None:
    """A wait in vain fails the test after its deadline and says what it saw last."""
    with pytest.raises(AssertionError, match=r"0\.05 s; the last answer was \[\]"):
        await until(list, seconds=0.05)


async def test_until_passes_on_what_the_predicate_raises() -> None:
    """A predicate that fails ends the wait at once."""
    with pytest.raises(ZeroDivisionError):
        await until(lambda: 1 / 0)


def test_until_blocking_waits_without_trio() -> None:
    """The same works in a plain test, and gives up in the same way."""
    answers = iter([0, 5])
    assert until_blocking(lambda: next(answers)) == 5
    with pytest.raises(AssertionError, match="the last answer was 0"):
        until_blocking(int, seconds=0.05)


async def test_dawdling_is_bounded_and_has_a_reason() -> None:
    """A test can't hide a long or an unexplained sleep behind dawdle."""
    with pytest.raises(AssertionError, match="too long"):
        await dawdle(10, because="it is slow")
    with pytest.raises(AssertionError, match="say why"):
        await dawdle(0.01, because=" ")
