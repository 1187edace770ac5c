"""The arithmetic of trying again."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.clients.backoff import (
    DELAY_SECONDS_MAX,
    RETRY_AFTER_SECONDS_MAX,
    delay_seconds,
    retry_after_seconds,
)
from muster.clients.plugin.wire import DETAIL_BYTES_MAX, Result, cut_bytes, fit_result

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
CHANCES = st.floats(min_value=0, max_value=1, exclude_max=True)


@given(attempt=st.integers(min_value=0, max_value=10**6), chance=CHANCES)
def test_delays_grow_and_stay_bounded(attempt: int, chance: float) -> None:
    """A delay lies between a quarter of a second and a minute, and never shrinks by an attempt."""
    delay = delay_seconds(attempt, retry_after_seconds=None, chance=chance)
    later = delay_seconds(attempt + 1, retry_after_seconds=None, chance=chance)
    assert 0.25 <= delay <= later <= DELAY_SECONDS_MAX


@given(attempt=st.integers(min_value=0, max_value=10**6), chance=CHANCES)
def test_delays_are_as_long_as_they_are_told_to_be(attempt: int, chance: float) -> None:
    """Whoever must ask slowly begins with a longer delay and ends with a longer one."""
    delay = delay_seconds(
        attempt, retry_after_seconds=None, chance=chance, first_seconds=60, most_seconds=900
    )
    assert min(30 * 2.0 ** min(attempt, 9), 450) <= delay <= min(60 * 2.0 ** min(attempt, 9), 900)


@given(asked=st.floats(min_value=0, max_value=RETRY_AFTER_SECONDS_MAX), chance=CHANCES)
def test_retry_after_is_never_cut_short(asked: float, chance: float) -> None:
    """Who is asked to wait waits at least that long, and at most 2% longer."""
    delay = delay_seconds(9, retry_after_seconds=asked, chance=chance)
    assert asked <= delay <= max(asked, 0.5) * 1.02


@given(text=st.text())
def test_any_retry_after_is_read_or_ignored(text: str) -> None:
    """Whatever a header says, it is a number of seconds up to a day, or nothing."""
    asked = retry_after_seconds(text, now=NOW)
    assert asked is None or 0 <= asked <= RETRY_AFTER_SECONDS_MAX


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("17", 17),
        (" 3600 ", 3600),
        ("9" * 400, RETRY_AFTER_SECONDS_MAX),
        ("-5", None),
        ("soon", None),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), 0),
    ],
)
def test_both_forms_of_retry_after_are_read(header: str | None, seconds: float | None) -> None:
    """Seconds and dates are obeyed."""
    assert retry_after_seconds(header, now=NOW) == seconds


@given(text=st.text(), limit=st.integers(min_value=0, max_value=40))
def test_a_cut_keeps_whole_characters(text: str, limit: int) -> None:
    """A cut text is a beginning of the text, in at most so many bytes, and as long as it can be."""
    short = cut_bytes(text, limit)
    assert text.startswith(short)
    assert len(short.encode()) <= limit
    assert short == text or len(text[: len(short) + 1].encode()) > limit


@given(ok=st.booleans(), reference=st.text(max_size=400), detail=st.text(max_size=6000))
def test_a_fitted_result_is_within_the_contract(ok: bool, reference: str, detail: str) -> None:
    """Whatever an upstream says, the report of it is one that muster takes."""
    fitted = fit_result(Result(ok=ok, external_ref=reference, detail=detail))
    assert fitted.ok is ok
    assert len(fitted.external_ref) <= 200
    assert len(fitted.detail.encode()) <= DETAIL_BYTES_MAX
    assert "\0" not in fitted.external_ref + fitted.detail
