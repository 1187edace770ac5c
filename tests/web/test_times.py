"""Times on the wire: what RFC 3339 allows is read, everything else is refused."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import Invalid
from web.times import read_time, write_time

MOMENT = datetime(2000, 1, 2, 3, 4, 5, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
TAKEN = {
    "2000-01-02T03:04:05Z": MOMENT,
    "2000-01-02t03:04:05z": MOMENT,
    "2000-01-02 03:04:05Z": MOMENT,
    "2000-01-02T03:04:05-00:00": MOMENT,
    "2000-01-02T08:34:05+05:30": MOMENT,
    "2000-01-01T19:04:05-08:00": MOMENT,
    "2000-01-03T03:03:05+23:59": MOMENT,
    "2000-01-02T03:04:05.5Z": MOMENT.replace(microsecond=500_000),
    "2000-01-02T03:04:05.000001Z": MOMENT.replace(microsecond=1),
    "2000-01-02T03:04:05.9999999Z": MOMENT.replace(microsecond=999_999),
    "2000-02-29T00:00:00Z": datetime(2000, 2, 29, tzinfo=UTC),
    "1990-12-31T23:59:60Z": datetime(1991, 1, 1, tzinfo=UTC),
    "1990-12-31T15:59:60-08:00": datetime(1991, 1, 1, tzinfo=UTC),
    "2016-12-31T23:59:60.25Z": datetime(2017, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC),
    "0001-01-01T00:00:00Z": datetime(1, 1, 1, tzinfo=UTC),
    "9999-12-31T23:59:59.9999999Z": LAST,
}
REFUSED = [
    "",
    "yesterday",
    "2000-01-02",
    "2000-01-02T03:04:05",
    "2000-01-02T03:04Z",
    "2000-01-02T03:04:05+0530",
    "2000-01-02T03:04:05+05",
    "2000-01-02T03:04:05+24:00",
    "2000-01-02T03:04:05+00:60",
    "2000-01-02T03:04:05+01:00:00",
    "2000-01-02T03:04:05.Z",
    "2000-01-02T03:04:05,5Z",
    "2000-01-02T24:00:00Z",
    "2000-01-02T03:60:05Z",
    "2000-01-02T03:04:60Z",
    "1990-12-31T23:59:60+01:00",
    "1990-12-31T23:59:61Z",
    "1999-02-29T00:00:00Z",
    "2000-00-01T00:00:00Z",
    "2000-W01-1T00:00:00Z",
    "20000102T030405Z",
    "2000-01-02_03:04:05Z",
    " 2000-01-02T03:04:05Z",
    "2000-01-02T03:04:05Z\n",
    "２000-01-02T03:04:05Z",  # noqa: RUF001 - a digit, but none of RFC 3339
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59-00:01",
    "9999-12-31T23:59:60Z",
]


@pytest.mark.rule(28)
@pytest.mark.parametrize("text", TAKEN)
def test_a_time_of_rfc_3339_is_read(text: str) -> None:
    """Every shape of the standard is read as the moment that it names, leap seconds too."""
    assert read_time(text, field="received_at") == TAKEN[text]


@pytest.mark.rule(28, 36)
@pytest.mark.parametrize("text", REFUSED)
def test_anything_else_is_refused_by_the_fields_name(text: str) -> None:
    """What the standard does not allow, or lies outside of the years 1 to 9999, is refused."""
    with pytest.raises(Invalid) as refusal:
        read_time(text, field="received_at")
    assert refusal.value.field == "received_at"


@given(
    st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)),  # noqa: DTZ001 - the zone is drawn beside
    st.integers(-1439, 1439),
)
def test_what_is_written_is_read_again(wall: datetime, east: int) -> None:
    """A time of any offset, written and read, is the same moment, in UTC."""
    moment = wall.replace(tzinfo=timezone(timedelta(minutes=east)))
    written = write_time(moment)
    assert written.endswith("Z")
    assert read_time(written, field="at") == moment
    assert read_time(moment.isoformat(), field="at") == moment
