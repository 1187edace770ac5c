"""The send queue of a session: texts that are pasted once it has been idle for a while.

| state       | means                                                                            |
|-------------|----------------------------------------------------------------------------------|
| queued      | waits; the oldest is next, one at a time, never into a busy or waiting session   |
| offered     | handed to the host of (host_id, epoch), which may be pasting it                  |
| pasted      | the session's own hook or transcript showed it                                   |
| unconfirmed | begun, or handed to a socket that is gone, and no proof came: holds the queue    |
| lost        | its owner says that it did not arrive                                            |
| cancelled   | taken out of the queue before a host had it                                      |
| refused     | a check at the moment of the paste did not hold: sign-in, account, route         |

queued -> offered -> pasted | unconfirmed, or back to queued when the host proves that nothing of
it reached the terminal; unconfirmed -> pasted | lost. Nothing that was offered and not proven
unwritten is ever offered again: "unknown" is a state (plugins: "At most once" is the same rule for
replies).

Races: whoever takes a text out of the queue locks its row; one text of a session at a time is
offered or unconfirmed, by a unique index. A late word of an older socket proves, and never puts
back.
"""

import enum
from datetime import datetime

import attrs

TEXT_BYTES_MAX = 16 * 1024  # of what a person queues
PASTE_BYTES_MAX = 96 * 1024  # of what is pasted: a routed message stands behind its fence
QUEUED_MAX = 50  # of one session
WHY_CHARACTERS_MAX = 500


class SendState(enum.Enum):
    """Where a text stands; the table above."""

    QUEUED = "queued"
    OFFERED = "offered"
    PASTED = "pasted"
    UNCONFIRMED = "unconfirmed"
    LOST = "lost"
    CANCELLED = "cancelled"
    REFUSED = "refused"


@attrs.frozen(kw_only=True)
class Send:
    """A row of the queue."""

    id: int
    owner_id: int
    mirrored_id: int
    text: str
    queued_by: str
    queued_via: str
    signed_in_at: datetime | None
    route_id: int | None
    state: SendState = attrs.field(converter=SendState)
    created_at: datetime
    host_id: int | None
    epoch: int | None
    offers: int
    offered_at: datetime | None
    ended_at: datetime | None
    why: str | None
    ask_id: int | None


@attrs.frozen(kw_only=True)
class Enqueue:
    """Put a text into a session's queue; the caller's audit row tells of it.

    `signed_in_at` is the sign-in of the browser session that queued it; a routed text has none.
    """

    mirrored_id: int
    text: str
    signed_in_at: datetime | None = None
    route_id: int | None = None


@attrs.frozen(kw_only=True)
class CancelRouted:
    """Take the queued text of a route out of the queue, if it is there still; no audit row."""

    route_id: int
    why: str


@attrs.frozen(kw_only=True)
class Recover:
    """Sockets of the host before `epoch` are over: what they had in hand is unproven."""

    host_id: int
    epoch: int


@attrs.frozen(kw_only=True)
class Late:
    """A host tells, on a later connection, what became of a paste."""

    host_id: int
    send_id: int
    proven: bool
