"""Quiet hours: the part of an owner's day in which nothing is pushed.

They are two times on the owner's own clock, and may go across midnight. Whether it is quiet is read
from that clock as it stands, so in the night when clocks go back an end within the repeated hour
comes twice, and in the night when they go forward an end within the hour that is left out comes
with the jump.
"""

from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import attrs

from muster.errors import Invalid

DAY_MINUTES: Final = 24 * 60
# No night of a time zone is longer than this: a day, and the hours by which its clock may jump.
SEARCH_MINUTES_MAX: Final = 2 * DAY_MINUTES
_UTC: Final = ZoneInfo("UTC")


@attrs.frozen(kw_only=True)
class QuietHours:
    """From one minute of the day up to another, which is the first that is not quiet."""

    from_minute: int
    until_minute: int


def zone_of(name: str) -> ZoneInfo:
    """The time zone of that name; UTC for one that this machine does not know."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return _UTC


def is_quiet(hours: QuietHours | None, zone: ZoneInfo, now: datetime) -> bool:
    """Whether it is quiet at `now`."""
    if hours is None:
        return False
    local = now.astimezone(zone)
    minute = local.hour * 60 + local.minute
    if hours.from_minute < hours.until_minute:
        return hours.from_minute <= minute < hours.until_minute
    return minute >= hours.from_minute or minute < hours.until_minute


def quiet_until(hours: QuietHours | None, zone: ZoneInfo, now: datetime) -> datetime | None:
    """When the quiet hours that hold at `now` end; None when it is not quiet.

    It walks minute by minute, so it needs no case for a clock that jumps.
    """
    if not is_quiet(hours, zone, now):
        return None
    minute = now.replace(second=0, microsecond=0)
    for _ in range(SEARCH_MINUTES_MAX):
        minute += timedelta(minutes=1)
        if not is_quiet(hours, zone, minute):
            return minute
    return minute


def read_hours(start: str, end: str) -> QuietHours | None:
    """Read two times of day (`22:30`); both empty, or equal, mean that there are none.

    Raises Invalid for what is no time of day.
    """
    if not start and not end:
        return None
    from_minute, until_minute = _minute(start, "from"), _minute(end, "until")
    if from_minute == until_minute:
        return None
    return QuietHours(from_minute=from_minute, until_minute=until_minute)


def spell_minute(minute: int) -> str:
    """A minute of the day as it stands on a clock."""
    return f"{minute // 60:02}:{minute % 60:02}"


def _minute(text: str, field: str) -> int:
    hour, colon, minute = text.partition(":")
    digits = hour + minute
    if colon and len(hour) == len(minute) == 2 and digits.isascii() and digits.isdigit():
        total = int(hour) * 60 + int(minute)
        if total < DAY_MINUTES and int(minute) < 60:
            return total
    raise Invalid("Quiet hours are two times of day, such as 22:30 and 07:00.", field=field)
