"""One push to one device, and the machine of its life.

    state     Claim           Over                 Settle: taken  gone     never   later
    waiting   leased, seen    dropped, clearing    sent           dropped  failed  waiting, failed
    sent      =               clearing, dropped    =              =        =       =
    clearing  leased          =                    cleared        dropped  failed  clearing, failed
    the rest  =               =                    =              =        =       =

`Over` says that the item waits no more, or that nobody wants to be told. What was never tried is
dropped; what may have arrived is cleared from the device, by a push of the same tag that closes the
notification.

A push is sent again when nobody knows whether it arrived: the server was killed between sending and
writing, or the answer was lost. It carries the same tag, topic, sequence and delivery id, so that
it takes the place of the first one instead of standing beside it. The other way round, at most
once, a kill would cost the owner a decision that they never heard of; a reply is sent at most once,
the news of it at least once.

What can race: two servers that look at once (the unique key lets one row be written, the row's lock
and its lease let one of them send), a decision during the send (the row becomes `clearing` and its
lease stays, so nobody clears before the push was sent), a lease that lapsed under a server that was
asleep (its result carries the lease's end, and that of an older lease changes nothing).

Rejected: retrying without an end (a device that is away for a day has its notification from the
push service, which keeps it); a queue in memory (it would be the only copy of a fact).
"""

import enum
from datetime import datetime, timedelta
from typing import Final, assert_never

import attrs

from muster.outcomes import Changed, Unchanged
from muster.push.rules.devices import Sink
from muster.push.rules.words import Kind

LEASE: Final = timedelta(seconds=60)
ATTEMPTS_MAX: Final = 8
RETRY_FIRST_SECONDS: Final = 5.0
RETRY_SECONDS_MAX: Final = 3600.0
RETRY_AFTER_SECONDS_MAX: Final = 6 * 3600
# News of a task is news for so long; drafts and asks wait no longer than they live.
NEWS: Final = timedelta(days=7)
KEPT: Final = timedelta(days=30)
ERROR_CHARACTERS_MAX: Final = 200
NO_WORD: Final = "muster was stopped in the middle of each attempt"
NO_SILENCE: Final = "its push service takes no push that shows nothing"


class State(enum.Enum):
    """What is stored."""

    WAITING = "waiting"
    SENT = "sent"
    SEEN = "seen"  # a visible tab showed the item, so nothing was sent
    DROPPED = "dropped"
    FAILED = "failed"
    CLEARING = "clearing"
    CLEARED = "cleared"


ENDED: Final = frozenset({State.SEEN, State.DROPPED, State.FAILED, State.CLEARED})


@attrs.frozen(kw_only=True)
class Delivery:
    """A row for each push."""

    id: int
    owner_id: int
    device_id: int
    kind: Kind = attrs.field(converter=Kind)
    item_id: int | None
    state: State = attrs.field(converter=State)
    created_at: datetime
    due_at: datetime
    attempts: int  # of showing it or, once it is over, of clearing it
    leased_until: datetime | None
    sent_at: datetime | None
    ended_at: datetime | None
    error: str | None


@attrs.frozen(kw_only=True)
class Answered:
    """What the sink said; `retry_after_seconds` where it named a time."""

    status: int
    retry_after_seconds: int | None = None


@attrs.frozen(kw_only=True)
class Unanswered:
    """Why nobody knows whether the push arrived."""

    reason: str


Answer = Answered | Unanswered


class Verdict(enum.Enum):
    """What an answer means."""

    TAKEN = "taken"
    GONE = "gone"  # the device is no more
    NEVER = "never"
    LATER = "later"


@attrs.frozen(kw_only=True)
class Claim:
    """Take it to send it now; `shown` says that a visible tab shows its item."""

    shown: bool


@attrs.frozen(kw_only=True)
class Over:
    """Its item waits no more. `silent` says whether its device takes a push that shows nothing."""

    silent: bool


@attrs.frozen(kw_only=True)
class Settle:
    """What came of sending it. `was` is the state that it was claimed in.

    `chance` between 0 and 1 spreads the retries of devices that fail together.
    """

    was: State
    sink: Sink
    answer: Answer
    chance: float


Command = Claim | Over | Settle
Outcome = Changed[Delivery] | Unchanged[Delivery]


def decide(delivery: Delivery, command: Command, now: datetime) -> Outcome:
    """Apply `command` as of `now`; what does not fit the state is Unchanged."""
    match command:
        case Claim():
            return _claim(delivery, command, now)
        case Over():
            return _over(delivery, command, now)
        case Settle():
            return _settle(delivery, command, now)
        case _:
            assert_never(command)


def judge(sink: Sink, answer: Answer) -> Verdict:
    """What an answer means for a push (RFC 8030; ntfy and webhooks speak HTTP likewise).

    A redirect is no answer to a push, and is not followed. 404 and 410 end a browser's
    subscription; of an address that the owner typed they say that it is wrong.
    """
    match answer:
        case Unanswered():
            return Verdict.LATER
        case Answered(status=status) if 200 <= status < 300:
            return Verdict.TAKEN
        case Answered(status=404 | 410) if sink is Sink.BROWSER:
            return Verdict.GONE
        case Answered(status=408 | 425 | 429):
            return Verdict.LATER
        case Answered(status=status) if status >= 500:
            return Verdict.LATER
        case _:
            return Verdict.NEVER


def spell(answer: Answer) -> str | None:
    """What is kept of an answer that is none of success: never a word that the other side wrote."""
    match answer:
        case Unanswered(reason=reason):
            return reason[:ERROR_CHARACTERS_MAX]
        case Answered(status=status) if 200 <= status < 300:
            return None
        case Answered(status=status) if 300 <= status < 400:
            return f"it answered {status}, a redirect, which muster does not follow"
        case Answered(status=status):
            return f"it answered {status}"


def retry_seconds(attempts: int, answer: Answer, chance: float) -> float:
    """How long to wait after so many attempts: longer each time, and no shorter than was asked."""
    backoff = min(RETRY_FIRST_SECONDS * 4.0 ** max(0, attempts - 1), RETRY_SECONDS_MAX)
    return max(backoff * (0.5 + chance), float(asked_seconds(answer)))


def asked_seconds(answer: Answer) -> int:
    """How long the sink asked to be left alone, within reason."""
    asked = answer.retry_after_seconds if isinstance(answer, Answered) else None
    return max(0, min(asked or 0, RETRY_AFTER_SECONDS_MAX))


def _claim(delivery: Delivery, command: Claim, now: datetime) -> Outcome:
    if delivery.state not in (State.WAITING, State.CLEARING):
        return Unchanged(row=delivery)
    # What was tried already may stand on the device, so that it is over only with its item.
    if delivery.state is State.WAITING and command.shown and delivery.attempts == 0:
        return Changed(row=_ended(delivery, State.SEEN, now))
    if delivery.attempts >= ATTEMPTS_MAX:
        # Each of these ended without a word of how: the server was killed with it.
        return Changed(row=_ended(delivery, State.FAILED, now, error=NO_WORD))
    leased = attrs.evolve(delivery, attempts=delivery.attempts + 1, leased_until=now + LEASE)
    return Changed(row=leased)


def _over(delivery: Delivery, command: Over, now: datetime) -> Outcome:
    if delivery.state not in (State.WAITING, State.SENT):
        return Unchanged(row=delivery)
    if delivery.state is State.WAITING and delivery.attempts == 0:
        return Changed(row=_ended(delivery, State.DROPPED, now))
    if not command.silent:
        return Changed(row=_ended(delivery, State.DROPPED, now, error=NO_SILENCE))
    return Changed(row=attrs.evolve(delivery, state=State.CLEARING, due_at=now, attempts=0))


def _settle(delivery: Delivery, command: Settle, now: datetime) -> Outcome:
    verdict = judge(command.sink, command.answer)
    free = attrs.evolve(delivery, leased_until=None, error=spell(command.answer))
    if delivery.state is State.CLEARING and command.was is State.WAITING:
        # Decided while it was on its way: whatever came of it, it is to be cleared.
        sent_at = now if verdict is Verdict.TAKEN else delivery.sent_at
        free = attrs.evolve(free, sent_at=sent_at)
        return Changed(row=_ended(free, State.DROPPED, now) if verdict is Verdict.GONE else free)
    if delivery.state is not command.was:
        return Unchanged(row=delivery)
    match verdict:
        case Verdict.TAKEN if delivery.state is State.CLEARING:
            return Changed(row=_ended(free, State.CLEARED, now))
        case Verdict.TAKEN if delivery.kind is Kind.TEST:
            return Changed(row=_ended(attrs.evolve(free, sent_at=now), State.CLEARED, now))
        case Verdict.TAKEN:
            return Changed(row=attrs.evolve(free, state=State.SENT, sent_at=now))
        case Verdict.GONE:
            return Changed(row=_ended(free, State.DROPPED, now, error=free.error))
        case Verdict.NEVER:
            return Changed(row=_ended(free, State.FAILED, now, error=free.error))
        case Verdict.LATER:
            if delivery.attempts >= ATTEMPTS_MAX or delivery.kind is Kind.TEST:
                return Changed(row=_ended(free, State.FAILED, now, error=free.error))
            wait = retry_seconds(delivery.attempts, command.answer, command.chance)
            return Changed(row=attrs.evolve(free, due_at=now + timedelta(seconds=wait)))
        case _:
            assert_never(verdict)


def _ended(delivery: Delivery, state: State, now: datetime, error: str | None = None) -> Delivery:
    return attrs.evolve(delivery, state=state, ended_at=now, leased_until=None, error=error)
