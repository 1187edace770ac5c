"""Times on the wire, read and written as RFC 3339 has them.

msgspec's own reading is not that: it takes `+0530`, refuses a leap second, and rounds a fraction,
so that the last instant of the year 9999 overflows.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from muster.errors import Invalid

# Section 5.6; its note lets a space stand for the T, and both letters may be small.
_SHAPE: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):([0-5]\d|60)(?:\.(\d+))?"
    r"(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))",
    re.ASCII,
)
_MINUTE: Final = timedelta(minutes=1)


def read_time(text: str, *, field: str) -> datetime:
    """Read a time; raises Invalid for `field` unless it is RFC 3339 and in the years 1 to 9999.

    What is finer than a microsecond is dropped. A leap second, which stands at the end of a month
    of UTC alone, is the first second after it, as on every clock that does not know it.
    """
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        raise _not_a_time(field)
    *begin, second, fraction, sign, hours, minutes = shape.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    zone = timezone(-offset if sign == "-" else offset)
    micros = int(f"{fraction or ''}000000"[:6])
    year, month, day, hour, minute = map(int, begin)
    try:
        begun = datetime(year, month, day, hour, minute, tzinfo=zone)
        moment = begun + timedelta(seconds=int(second), microseconds=micros)
        utc = begun.astimezone(UTC)
        if second == "60" and not _ends_a_month(utc):
            raise _not_a_time(field)
    except (ValueError, OverflowError):
        raise _not_a_time(field) from None
    return moment


def write_time(moment: datetime) -> str:
    """Write a time as the wire has it: UTC, to the microsecond, with a Z."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _ends_a_month(minute: datetime) -> bool:
    """Whether it is a month's last minute; raises OverflowError at the end of all months."""
    after = minute + _MINUTE
    return (after.day, after.hour, after.minute) == (1, 0, 0)


def _not_a_time(field: str) -> Invalid:
    return Invalid(f"{field} must be a time of RFC 3339 in the years 1 to 9999.", field=field)
