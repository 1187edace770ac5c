"""Reply drafts and the machine of their lives (plugins: "What happens to a draft", "At most once").

What is stored is a `State`; what counts is a `Standing`, which tells an approved draft that waits
for a plugin from one that a claim holds, and sees what is due by the clock though no sweep wrote it
yet: a claim whose two minutes are over is `lapsed`, what was not sent within seven days is
`overdue`. A lapsed draft is treated as unconfirmed and an overdue one as expired, everywhere.

    standing     Approve   Reject    Claim  Report         Lapse        Expire   Supersede
    pending      approved  rejected  -      -              =            =        superseded [1]
    waiting      -         rejected  held   -              =            =        superseded
    held         -         -         -      sent/failed    =            =        -
    lapsed       -         -         -      sent/failed    unconfirmed  =        -
    unconfirmed  -         -         -      sent/failed    =            =        -
    overdue      -         -         -      -              =            expired  -
    sent/failed  -         -         -      = [2]          =            =        -
    rejected     -         -         -      -              =            =        -
    superseded   -         -         -      -              =            =        -
    expired      -         -         -      -              =            =        -

`-` is Refused, `=` is Unchanged. [1] By Replace too, the chief's newer draft; a waiting one is not
replaced, for none is filed beside it. [2] The same result once more; the other one is refused.

Between the drafts of one message: at most one is pending and at most one is in flight (waiting or
held). A draft is filed or approved only while none is in flight. A reply that was sent supersedes
all that are pending or waiting; one that a claim holds is left to its own result.

What can race: two claims for one draft (FOR UPDATE SKIP LOCKED gives it to one), a claim against a
withdrawal, an expiry or a sent sibling (the row lock decides, and the guard stands in the claim's
WHERE), a late result against a newer draft's filing or approval (the message's row lock, which all
but a claim take first). The clock of a transaction that waited for a lock can be older than the row
that it then reads: decisions use the later of the two.

Rejected: a stored state for "held" (the lease's end is in the row, and a stored copy could disagree
with it); offering a lapsed draft again, however long ago its plugin was last seen (nobody can know
that it was not sent); counting the seven days from the approval.
"""

import enum
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, assert_never

import attrs

from muster.errors import Refused
from muster.outcomes import Changed, Fact, Hint, HintKind, Unchanged

PENDING_PER_AGENT_MAX: Final = 20
LIFE: Final = timedelta(days=7)
LEASE: Final = timedelta(minutes=2)


class State(enum.Enum):
    """What is stored and shown."""

    PENDING = "pending"
    APPROVED = "approved"
    SENT = "sent"
    FAILED = "failed"
    UNCONFIRMED = "unconfirmed"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"


class Standing(enum.Enum):
    """What a draft is as of some time; the value is the state to show for it."""

    PENDING = State.PENDING, "pending"
    WAITING = State.APPROVED, "waiting"
    HELD = State.APPROVED, "held"
    LAPSED = State.UNCONFIRMED, "lapsed"
    OVERDUE = State.EXPIRED, "overdue"
    SENT = State.SENT, "sent"
    FAILED = State.FAILED, "failed"
    UNCONFIRMED = State.UNCONFIRMED, "unconfirmed"
    REJECTED = State.REJECTED, "rejected"
    SUPERSEDED = State.SUPERSEDED, "superseded"
    EXPIRED = State.EXPIRED, "expired"

    @property
    def shown(self) -> State:
        """The state that a person or a plugin is told."""
        return self.value[0]


@attrs.frozen(kw_only=True)
class Draft:
    """A reply that the chief wrote. Its text never changes."""

    id: int
    owner_id: int
    message_id: int
    plugin_id: int
    agent_id: int
    body: str
    body_sha256: bytes
    state: State = attrs.field(converter=State)
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None
    decided_via: str | None
    approved_at: datetime | None  # stays on a draft that was superseded or expired after it
    claimed_at: datetime | None
    lease_expires_at: datetime | None
    reported_at: datetime | None
    external_ref: str | None
    detail: str | None
    ended_at: datetime | None  # when it left pending and approved, by the clock and not by a sweep
    superseded_by: int | None
    route_id: int | None = None  # of the session's answer that it is


@attrs.frozen(kw_only=True)
class File:
    """Write a reply to a message. Leaves `plugin.draft.filed`."""

    message_id: int
    body: str
    deny_words: frozenset[str]


@attrs.frozen(kw_only=True)
class Approve:
    """The owner lets it go. `sha256` is the hex digest of the text that was read, when given.

    Leaves `plugin.draft.approved`; with `auto` when muster lets it go by a rule of the owner's, and
    with `auto_via`, which rule.
    """

    draft_id: int
    sha256: str | None = None
    auto: bool = False
    auto_via: str | None = None


@attrs.frozen(kw_only=True)
class Reject:
    """The owner says no, or takes an approval back. Leaves `plugin.draft.rejected`."""

    draft_id: int
    sha256: str | None = None


@attrs.frozen(kw_only=True)
class Claim:
    """A plugin takes it to send. Leaves `plugin.draft.claimed`."""


@attrs.frozen(kw_only=True)
class Report:
    """The plugin says what came of it. Leaves `plugin.draft.sent` or `plugin.draft.failed`."""

    draft_id: int
    ok: bool
    external_ref: str | None = None
    detail: str | None = None


@attrs.frozen(kw_only=True)
class Lapse:
    """Its claim's two minutes are over. Leaves `plugin.draft.unconfirmed`."""

    draft_id: int


@attrs.frozen(kw_only=True)
class Expire:
    """Its seven days are over. Leaves `plugin.draft.expired`."""

    draft_id: int


@attrs.frozen(kw_only=True)
class Replace:
    """The chief wrote a newer one. Leaves no row: the newer one's filing counts it."""


@attrs.frozen(kw_only=True)
class Supersede:
    """Another reply to its message was sent. Leaves `plugin.draft.superseded`."""

    sent_id: int


Command = Approve | Reject | Claim | Report | Lapse | Expire | Replace | Supersede
Outcome = Changed[Draft] | Unchanged[Draft] | Refused

# A Report's row is that of a true `ok`; a false one ends in FAILED.
MOVES: Final[Mapping[tuple[Standing, type[Command]], State]] = {
    (Standing.PENDING, Approve): State.APPROVED,
    (Standing.PENDING, Reject): State.REJECTED,
    (Standing.PENDING, Replace): State.SUPERSEDED,
    (Standing.PENDING, Supersede): State.SUPERSEDED,
    (Standing.WAITING, Reject): State.REJECTED,
    (Standing.WAITING, Claim): State.APPROVED,
    (Standing.WAITING, Supersede): State.SUPERSEDED,
    (Standing.HELD, Report): State.SENT,
    (Standing.LAPSED, Report): State.SENT,
    (Standing.UNCONFIRMED, Report): State.SENT,
    (Standing.LAPSED, Lapse): State.UNCONFIRMED,
    (Standing.OVERDUE, Expire): State.EXPIRED,
}
IN_FLIGHT: Final = frozenset({Standing.WAITING, Standing.HELD})


def standing(draft: Draft, now: datetime) -> Standing:
    """Tell what `draft` is as of `now`; a lease and a life end at their last instant's end."""
    if draft.state is State.APPROVED and draft.lease_expires_at is not None:
        return Standing.LAPSED if draft.lease_expires_at <= now else Standing.HELD
    if draft.state is State.APPROVED or draft.state is State.PENDING:
        if draft.expires_at <= now:
            return Standing.OVERDUE
        return Standing.WAITING if draft.state is State.APPROVED else Standing.PENDING
    return Standing[draft.state.name]


def latest(draft: Draft, now: datetime) -> datetime:
    """The later of `now` and what the row has seen."""
    seen = (draft.decided_at, draft.approved_at, draft.claimed_at, draft.reported_at)
    return max(now, draft.created_at, *(at for at in seen if at is not None))


def decide(draft: Draft, command: Command, now: datetime, *, via: str) -> Outcome:
    """Apply `command` to `draft` as of `now` (plugins: "What happens to a draft").

    `via` is the door that a decision is made at. Refused, not raised, when the standing forbids the
    command or the digest quotes another text. You don't get Refused for a late Report: a lapsed
    or unconfirmed draft takes the result of its own claim; nor for a Lapse or Expire that is not
    due: a sweep may come late or twice, and that is Unchanged.
    """
    now = latest(draft, now)
    current = standing(draft, now)
    if isinstance(command, Approve | Reject) and not _quotes(command.sha256, draft):
        return Refused(
            f"Draft {draft.id} has another text than the one that was read.", code="other_text"
        )
    target = MOVES.get((current, type(command)))
    if isinstance(command, Report) and not command.ok and target is State.SENT:
        target = State.FAILED
    if target is None:
        return _stay(draft, command, current)
    return _move(draft, command, now, via=via, current=current, target=target)


def _move(
    draft: Draft,
    command: Command,
    now: datetime,
    *,
    via: str,
    current: Standing,
    target: State,
) -> Changed[Draft]:
    changed: Draft = attrs.evolve(draft, state=target)
    hints: tuple[Hint, ...] = ()
    match command:
        case Approve():
            row = attrs.evolve(changed, decided_at=now, decided_via=via, approved_at=now)
            fact = _fact(
                draft, "approved", decided_via=via, sha256=draft.body_sha256.hex(), **_auto(command)
            )
            kind = HintKind.DRAFT_CLAIMABLE
            hints = (Hint(kind=kind, owner_id=draft.owner_id, id=draft.plugin_id),)
        case Reject():
            row = attrs.evolve(changed, decided_at=now, decided_via=via, ended_at=now)
            withdrawn = current is Standing.WAITING
            fact = _fact(draft, "rejected", decided_via=via, withdrawn=withdrawn)
        case Claim():
            until = now + LEASE
            row = attrs.evolve(changed, claimed_at=now, lease_expires_at=until)
            fact = _fact(draft, "claimed", lease_expires_at=until.isoformat())
        case Report(external_ref=external_ref, detail=detail):
            row = attrs.evolve(
                changed, reported_at=now, ended_at=now, external_ref=external_ref, detail=detail
            )
            late = current is not Standing.HELD
            fact = _fact(draft, target.value, external_ref=external_ref, late=late)
        case Lapse():
            row = attrs.evolve(changed, ended_at=draft.lease_expires_at)
            fact = _fact(draft, "unconfirmed")
        case Expire():
            row = attrs.evolve(changed, ended_at=draft.expires_at)
            fact = _fact(draft, "expired", was=draft.state.value)
        case Replace():
            return Changed(row=attrs.evolve(changed, ended_at=now))
        case Supersede(sent_id=sent_id):
            row = attrs.evolve(changed, ended_at=now, superseded_by=sent_id)
            fact = _fact(draft, "superseded", sent=sent_id)
        case _:
            assert_never(command)
    return Changed(row=row, facts=(fact,), hints=hints)


def _stay(draft: Draft, command: Command, current: Standing) -> Outcome:
    """The command moves nothing: it was carried out before, is not due, or is refused."""
    shown = current.shown
    if isinstance(command, Lapse | Expire):
        return Unchanged(row=draft)
    if isinstance(command, Report) and shown is (State.SENT if command.ok else State.FAILED):
        return Unchanged(row=draft)
    sentences = {
        Standing.HELD: "was collected by its plugin already",
        Standing.WAITING: "is approved and was not collected yet",
    }
    # Else it reads like the answer to a decision that was taken.
    told = sentences.get(current, f"is {shown.value} already")
    return Refused(
        f"Draft {draft.id} {told}; nothing was changed.",
        code="draft_state",
        facts={"draft_id": draft.id, "status": shown.value},
    )


def _auto(command: Approve) -> dict[str, object]:
    data: dict[str, object] = {"auto": True} if command.auto else {}
    return data if command.auto_via is None else {**data, "via": command.auto_via}


def _quotes(sha256: str | None, draft: Draft) -> bool:
    return sha256 is None or sha256.lower() == draft.body_sha256.hex()


def _fact(draft: Draft, action: str, **data: object) -> Fact:
    return Fact(
        action=f"plugin.draft.{action}",
        subject=f"draft:{draft.id}",
        data={"message": draft.message_id, **data},
    )


def filed(draft: Draft, *, superseded: int) -> Fact:
    """The audit fact of a filing: how many drafts it superseded (none or one)."""
    route = {} if draft.route_id is None else {"route": draft.route_id}
    sha256 = draft.body_sha256.hex()
    return _fact(draft, "filed", superseded=superseded, sha256=sha256, **route)


def write_due(draft: Draft, now: datetime) -> Changed[Draft] | None:
    """What a sweep would write for `draft` as of `now`: its lapse, its expiry or nothing.

    Whoever finds a due draft on the way writes this first, so that the log does not depend on when
    the sweep came by.
    """
    for command in (Lapse(draft_id=draft.id), Expire(draft_id=draft.id)):
        outcome = decide(draft, command, now, via="muster")
        if isinstance(outcome, Changed):
            return outcome
    return None


def find_in_flight(replies: Iterable[Draft], now: datetime) -> Draft | None:
    """The reply to a message that waits for its plugin or is within its lease, if there is one."""
    return next((reply for reply in replies if standing(reply, now) in IN_FLIGHT), None)


def refuse_second(flying: Draft) -> Refused:
    """Why no other reply to the same message may be filed or approved (plugins: "At most once")."""
    return Refused(
        f"Draft {flying.id}, another reply to message {flying.message_id}, is on its way.",
        code="reply_in_flight",
        facts={"draft_id": flying.id, "message_id": flying.message_id},
    )


def overtaken(replies: Iterable[Draft], sent: Draft, now: datetime) -> list[Changed[Draft]]:
    """What a sent reply does to the others of its message (plugins: "At most once").

    Those that are pending or wait for a plugin are superseded; one that a claim holds is left to
    its own result.
    """
    command = Supersede(sent_id=sent.id)
    outcomes = [
        decide(reply, command, now, via="muster") for reply in replies if reply.id != sent.id
    ]
    return [outcome for outcome in outcomes if isinstance(outcome, Changed)]
