"""How long to wait before asking again: pure arithmetic, the chance is handed in."""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_DELAY_SECONDS = 0.5
DELAY_SECONDS_MAX = 60.0
RETRY_AFTER_SECONDS_MAX = 24 * 3600.0
"""Nobody is believed who asks for more than a day."""

LATE_JITTER = 0.02
"""An obeyed `Retry-After` ends at most this share later, and never earlier."""


def delay_seconds(
    attempt: int,
    *,
    retry_after_seconds: float | None,
    chance: float,
    first_seconds: float = FIRST_DELAY_SECONDS,
    most_seconds: float = DELAY_SECONDS_MAX,
) -> float:
    """Seconds to wait after failed attempt number `attempt` (0 is the first).

    `chance` is in [0, 1). Without a `Retry-After` the delay doubles from `first_seconds` to
    `most_seconds` and is spread over its upper half; with one it is at least that long.
    """
    assert attempt >= 0, "attempts count from 0"
    assert 0 <= chance < 1, "chance is in [0, 1)"
    if retry_after_seconds is not None:
        # Under a second is half a second: zero would be a busy loop.
        asked = max(retry_after_seconds, FIRST_DELAY_SECONDS)
        return asked * (1 + LATE_JITTER * chance)
    # 2.0**attempt leaves the floats long after the limit was reached.
    whole = min(most_seconds, first_seconds * 2.0 ** min(attempt, 16))
    return whole * (0.5 + 0.5 * chance)


def retry_after_seconds(header: str | None, *, now: datetime) -> float | None:
    """The seconds that a `Retry-After` header asks for, None when there is none to obey.

    Both forms of RFC 9110 count: seconds and a date. What is past is 0; more than a day is a day.
    """
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        seconds = float(text) if len(text) <= 12 else RETRY_AFTER_SECONDS_MAX
        return min(seconds, RETRY_AFTER_SECONDS_MAX)
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - now).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), RETRY_AFTER_SECONDS_MAX)
