"""What a message may hold when a plugin posts it, and how many a plugin may post.

(plugins: "POST /plugin/v1/messages".) Nothing is ever cut: a field that breaks its rule is refused.
"""

import math
from datetime import UTC, datetime, timedelta
from typing import Final

from muster.errors import Invalid, TooMany
from muster.messages.rules import HOUR, NEW_PER_HOUR_MAX, UNDELIVERED_MAX, Post
from muster.names import count_bytes

BODY_BYTES_MAX: Final = 16 * 1024
IDENTIFIER_BYTES_MAX: Final = 200
TITLE_CHARACTERS_MAX: Final = 200
UNDELIVERED_RETRY_SECONDS: Final = 60

# Unicode's White_Space and Cc, spelled out so that no interpreter's tables decide.
WHITE_SPACE: Final = frozenset(
    map(chr, (*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)))
) | frozenset("\u2028\u2029\u202f\u205f\u3000")
CONTROLS: Final = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0))))


def check(post: Post) -> None:
    """Check every field of a posted message (plugins: "POST /plugin/v1/messages").

    Bytes are those of UTF-8, characters are code points; a space is any White_Space and a control
    any Cc. Raises Invalid with the first field that breaks its rule; nothing is ever cut.
    """
    check_identifier("external_id", post.external_id)
    if not 1 <= count_bytes(post.body, field="body") <= BODY_BYTES_MAX:
        raise Invalid(f"body must have 1 to {BODY_BYTES_MAX} bytes.", field="body")
    for field, title in (("sender", post.sender), ("subject", post.subject)):
        if title is not None:
            count_bytes(title, field=field)
            if len(title) > TITLE_CHARACTERS_MAX:
                raise Invalid(
                    f"{field} must have at most {TITLE_CHARACTERS_MAX} characters.", field=field
                )
    if post.received_at is not None:
        _check_time("received_at", post.received_at)
    if post.thread is not None:
        check_identifier("thread", post.thread)


def check_identifier(field: str, text: str) -> None:
    """Raise Invalid unless `text` has 1 to 200 bytes without spaces and control characters."""
    if not 1 <= count_bytes(text, field=field) <= IDENTIFIER_BYTES_MAX:
        raise Invalid(f"{field} must have 1 to {IDENTIFIER_BYTES_MAX} bytes.", field=field)
    if not (WHITE_SPACE | CONTROLS).isdisjoint(text):
        raise Invalid(f"{field} must not contain spaces or control characters.", field=field)


def _check_time(field: str, at: datetime) -> None:
    if at.tzinfo is None or at.utcoffset() is None:
        raise Invalid(f"{field} must name its offset from UTC (RFC 3339).", field=field)
    try:
        at.astimezone(UTC)
    except OverflowError:
        raise Invalid(f"{field} lies outside of the years 1 to 9999.", field=field) from None


def check_allowance(undelivered: int, sixtieth_newest_at: datetime | None, now: datetime) -> None:
    """Check that a plugin may store one more message (plugins: "POST /plugin/v1/messages").

    `sixtieth_newest_at` is when the plugin's 60th newest message was stored: while that is less
    than an hour ago, the sliding hour holds 60. Raises TooMany with the seconds after which a post
    finds the hour open again, rounded up; 60 for a full queue, which depends on the chief.
    """
    waits: dict[str, int] = {}
    if sixtieth_newest_at is not None and sixtieth_newest_at > now - HOUR:
        left = sixtieth_newest_at + HOUR - now
        waits["messages_per_hour"] = math.ceil(left / timedelta(seconds=1))
    if undelivered >= UNDELIVERED_MAX:
        waits["messages_undelivered"] = UNDELIVERED_RETRY_SECONDS
    if not waits:
        return
    code = max(waits, key=lambda limit: waits[limit])
    raise TooMany(_LIMITS[code], retry_after_seconds=waits[code], code=code)


_LIMITS: Final = {
    "messages_per_hour": f"This plugin sent {NEW_PER_HOUR_MAX} new messages in the last hour.",
    "messages_undelivered": f"{UNDELIVERED_MAX} messages of this plugin still wait for the chief.",
}
