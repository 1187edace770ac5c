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
from datetime import datetime, timedelta
from typing import Final

import attrs

TEXT_BYTES_MAX = 16 * 1024  # of what a person queues
PASTE_BYTES_MAX = 96 * 1024  # of what is pasted: a routed message stands behind its fence
QUEUED_MAX = 50  # of one session
WHY_CHARACTERS_MAX = 500
OFFERED_FOR: Final = timedelta(minutes=2)  # a host tells the outcome within PROOF_SECONDS of it
WINDOW_GONE: Final = timedelta(minutes=2)  # a routed text waits so long for its session
ARRIVED: Final = "It arrived"
NOT_ARRIVED: Final = "It did not arrive"


class SendState(enum.Enum):
    """Where a text stands; the table above."""

    QUEUED = "queued"
    OFFERED = "offered"
    PASTED = "pasted"
    UNCONFIRMED = "unconfirmed"
    LOST = "lost"
    CANCELLED = "cancelled"
    REFUSED = "refused"


class Against(enum.Enum):
    """What stands against pasting a text that waits; it is refused at its paste, and shown so."""

    DISABLED = "disabled"
    SIGNED_OUT = "signed_out"
    ROUTE_OVER = "route_over"
    STALE = "stale"

    @property
    def why(self) -> str:
        """The reason, for the text's row and its owner."""
        return _WHY[self]


_WHY = {
    Against.DISABLED: "the account is disabled",
    Against.SIGNED_OUT: "its owner signed out everywhere after it was queued",
    Against.ROUTE_OVER: "its route does not wait for an answer any more",
    Against.STALE: (
        "the sign-in that queued it is too old: confirm that it is you, and queue it again"
    ),
}


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
class QueueText:
    """As the owner: put a text of theirs into a session's queue. Leaves `send.queued`.

    `signed_in_at` is the sign-in of the browser session (Visitor.signed_in_at); None through a door
    that has none, which the caller has to have stepped up by itself. `made_at` is when the page was
    made that the text was typed into: sent twice, it is queued once.
    """

    mirrored_id: int
    text: str
    signed_in_at: datetime | None
    made_at: datetime | None = None


@attrs.frozen(kw_only=True)
class ListQueue:
    """A session's texts: those that wait or are in hand, oldest first, or those that ended."""

    mirrored_id: int
    stepup_window_seconds: int
    ended: bool = False
    limit: int = 100


@attrs.frozen(kw_only=True)
class QueuedSend:
    """A text of the queue as it stands: one that would be refused at its paste says so already."""

    id: int
    mirrored_id: int
    text: str
    queued_by: str
    queued_via: str
    route_id: int | None
    message_id: int | None  # that its route carries
    created_at: datetime
    state: SendState = attrs.field(converter=SendState)
    host: str | None  # that has it, or had it
    offers: int
    offered_at: datetime | None
    ended_at: datetime | None
    why: str | None
    ask_id: int | None

    @property
    def may_cancel(self) -> bool:
        """Whether it may still be taken out of the queue."""
        return self.state is SendState.QUEUED


@attrs.frozen(kw_only=True)
class CancelSend:
    """Take a queued text out of the queue, a routed one too. Leaves `send.cancelled`."""

    send_id: int
    why: str = "cancelled by its owner"


@attrs.frozen(kw_only=True)
class ResolveSend:
    """As the owner: say what became of an unconfirmed text. Leaves `send.pasted` or `send.lost`."""

    send_id: int
    arrived: bool


@attrs.frozen(kw_only=True)
class ResolveByAsk:
    """What the owner answered to muster's ask about an unconfirmed text: one of its buttons."""

    send_id: int
    answer: str


@attrs.frozen(kw_only=True)
class AskAbout:
    """An unconfirmed text may not have been asked about: there were too many asks."""

    send_id: int


@attrs.frozen(kw_only=True)
class LapseOffer:
    """A text is in a host's hand for too long."""

    send_id: int


@attrs.frozen(kw_only=True)
class RefuseStanding:
    """Refuse what waits and would be refused at its paste. Leaves `send.refused` for each."""

    stepup_window_seconds: int


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
