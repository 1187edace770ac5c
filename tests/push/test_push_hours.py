"""Quiet hours on an owner's own clock: across midnight, and in the nights when clocks jump."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import Invalid
from muster.push.rules.hours import (
    QuietHours,
    is_quiet,
    quiet_until,
    read_hours,
    spell_minute,
    zone_of,
)

BERLIN = ZoneInfo("Europe/Berlin")
# Some that jump, at midnight too, by half an hour, and across a whole day; some that do not.
ZONES = (
    *("Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe"),
    *("Pacific/Apia", "Africa/Cairo", "Asia/Kolkata", "UTC"),
)
START = datetime(2011, 12, 1, tzinfo=UTC)
NIGHT = QuietHours(from_minute=22 * 60, until_minute=7 * 60)


def berlin(text: str, fold: int = 0) -> datetime:
    """A time on a clock in Berlin."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).astimezone(UTC)


@st.composite
def some_hours(draw: st.DrawFn) -> QuietHours:
    """Any quiet hours there are."""
    start = draw(st.integers(0, 1439))
    length = draw(st.integers(1, 1439))
    return QuietHours(from_minute=start, until_minute=(start + length) % 1440)


@given(
    hours=some_hours(),
    zone=st.sampled_from(ZONES).map(ZoneInfo),
    seconds=st.integers(0, 17 * 366 * 86400),
)
def test_the_end_is_the_first_minute_that_is_not_quiet(
    hours: QuietHours, zone: ZoneInfo, seconds: int
) -> None:
    """All minutes up to the end are quiet, the end is not, and it is at most a night away."""
    now = START + timedelta(seconds=seconds)
    end = quiet_until(hours, zone, now)
    if end is None:
        assert not is_quiet(hours, zone, now)
        return
    assert not is_quiet(hours, zone, end)
    assert now < end <= now + timedelta(hours=25)
    minutes = [now + timedelta(minutes=n) for n in range(25 * 60)]
    assert all(is_quiet(hours, zone, minute) for minute in minutes if minute < end)


@given(
    hours=some_hours(),
    zone=st.sampled_from(ZONES).map(ZoneInfo),
    day=st.dates(date(2012, 1, 1), date(2027, 12, 31)),
)
def test_no_day_is_quiet_from_end_to_end(
    hours: QuietHours, zone: ZoneInfo, day: date
) -> None:
    """Whatever the clock does, within two days there is a minute in which pushes go out."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    assert any(not is_quiet(hours, zone, start + timedelta(minutes=n)) for n in range(2 * 1440))


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-06-01 21:59", None),
        ("2026-06-01 22:00", "2026-06-02 07:00"),
        ("2026-06-02 06:59", "2026-06-02 07:00"),
        ("2026-06-02 07:00", None),
        # Clocks go forward at 02:00 and back at 03:00: the night ends by the clock all the same.
        ("2026-03-28 23:00", "2026-03-29 07:00"),
        ("2026-10-24 23:00", "2026-10-25 07:00"),
    ],
)
def test_a_night_across_midnight(now: str, end: str | None) -> None:
    """A night ends at its minute on the owner's clock, whether or not the clock jumped in it."""
    expected = None if end is None else berlin(end)
    assert quiet_until(NIGHT, BERLIN, berlin(now)) == expected


def test_an_end_in_the_hour_that_is_left_out_comes_with_the_jump() -> None:
    """Quiet until 02:30 in the night that has none ends at 03:00 on the clock."""
    hours = QuietHours(from_minute=23 * 60, until_minute=2 * 60 + 30)
    jump = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert quiet_until(hours, BERLIN, jump - timedelta(minutes=1)) == jump


def test_an_end_in_the_hour_that_comes_twice_comes_twice() -> None:
    """Quiet until 02:30 in the night that has it twice ends twice."""
    hours = QuietHours(from_minute=23 * 60, until_minute=2 * 60 + 30)
    first = berlin("2026-10-25 02:30")
    assert quiet_until(hours, BERLIN, berlin("2026-10-25 01:00")) == first
    again = berlin("2026-10-25 02:10", fold=1)
    assert quiet_until(hours, BERLIN, again) == first + timedelta(hours=1)


@pytest.mark.parametrize("text", ["7:00", "24:00", "12:60", "noon", "12", "²²:00", "12:00:00"])
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    """A time of day has two digits, a colon and two digits."""
    with pytest.raises(Invalid, match="times of day"):
        read_hours(text, "07:00")


def test_times_are_read_as_they_are_shown() -> None:
    """What was read is shown the same; none, and a night of no length, are no quiet hours."""
    hours = read_hours("22:05", "07:00")
    assert hours is not None
    assert [spell_minute(hours.from_minute), spell_minute(hours.until_minute)] == ["22:05", "07:00"]
    assert read_hours("", "") is None
    assert read_hours("07:00", "07:00") is None


def test_an_unknown_time_zone_is_utc() -> None:
    """A machine without that zone's data keeps quiet hours by UTC, and goes on."""
    assert zone_of("Europe/Berlin") == BERLIN
    for name in ("Mars/Olympus", "../etc/passwd", ""):
        assert zone_of(name) == ZoneInfo("UTC")
