"""The pure table of drafts: each command in each standing, exact times, what is recorded."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from muster.drafts.rules import (
    Approve,
    Claim,
    Command,
    Draft,
    Expire,
    Lapse,
    Reject,
    Replace,
    Report,
    Standing,
    State,
    Supersede,
    decide,
    find_in_flight,
    overtaken,
    standing,
    write_due,
)
from muster.errors import Refused
from muster.ids import digest
from muster.outcomes import Changed, HintKind, Unchanged

NOW = datetime(2030, 1, 9, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)
HOUR = timedelta(hours=1)
WEEK = timedelta(days=7)
LEASE = timedelta(minutes=2)
TEXT = "Thanks, noon works."

PENDING = Draft(
    id=17,
    owner_id=2,
    message_id=42,
    plugin_id=3,
    agent_id=4,
    body=TEXT,
    body_sha256=digest(TEXT),
    state=State.PENDING,
    created_at=NOW - 3 * HOUR,
    expires_at=NOW - 3 * HOUR + WEEK,
    decided_at=None,
    decided_via=None,
    approved_at=None,
    claimed_at=None,
    lease_expires_at=None,
    reported_at=None,
    external_ref=None,
    detail=None,
    ended_at=None,
    superseded_by=None,
)
WAITING = attrs.evolve(
    PENDING,
    state=State.APPROVED,
    decided_at=NOW - 2 * HOUR,
    decided_via="cli",
    approved_at=NOW - 2 * HOUR,
)
HELD = attrs.evolve(WAITING, claimed_at=NOW - LEASE + TICK, lease_expires_at=NOW + TICK)
LAPSED = attrs.evolve(HELD, claimed_at=NOW - LEASE, lease_expires_at=NOW)
SENT = attrs.evolve(HELD, state=State.SENT, reported_at=NOW - TICK, ended_at=NOW - TICK)
OLD: dict[str, Any] = {"created_at": NOW - WEEK, "expires_at": NOW}
DRAFTS: dict[Standing, list[Draft]] = {
    Standing.PENDING: [PENDING],
    Standing.WAITING: [WAITING],
    Standing.HELD: [HELD, attrs.evolve(HELD, **OLD)],
    Standing.LAPSED: [LAPSED, attrs.evolve(LAPSED, **OLD)],
    Standing.OVERDUE: [attrs.evolve(PENDING, **OLD), attrs.evolve(WAITING, **OLD)],
    Standing.SENT: [SENT],
    Standing.FAILED: [attrs.evolve(SENT, state=State.FAILED)],
    Standing.UNCONFIRMED: [attrs.evolve(LAPSED, state=State.UNCONFIRMED, ended_at=NOW)],
    Standing.REJECTED: [
        attrs.evolve(PENDING, state=State.REJECTED, ended_at=NOW),
        attrs.evolve(WAITING, state=State.REJECTED, ended_at=NOW),
    ],
    Standing.SUPERSEDED: [attrs.evolve(WAITING, state=State.SUPERSEDED, ended_at=NOW)],
    Standing.EXPIRED: [attrs.evolve(PENDING, **OLD, state=State.EXPIRED, ended_at=NOW)],
}
OK, NOT_OK = Report(draft_id=17, ok=True), Report(draft_id=17, ok=False)
COMMANDS: dict[str, Command] = {
    "approve": Approve(draft_id=17),
    "reject": Reject(draft_id=17),
    "claim": Claim(),
    "ok": OK,
    "not ok": NOT_OK,
    "lapse": Lapse(draft_id=17),
    "expire": Expire(draft_id=17),
    "replace": Replace(),
    "supersede": Supersede(sent_id=18),
}
# What is not named here is refused, but for a sweep's commands: those change nothing.
TABLE: dict[Standing, dict[str, State | str]] = {
    Standing.PENDING: {
        "approve": State.APPROVED,
        "reject": State.REJECTED,
        "replace": State.SUPERSEDED,
        "supersede": State.SUPERSEDED,
    },
    Standing.WAITING: {
        "reject": State.REJECTED,
        "claim": State.APPROVED,
        "supersede": State.SUPERSEDED,
    },
    Standing.HELD: {"ok": State.SENT, "not ok": State.FAILED},
    Standing.LAPSED: {"ok": State.SENT, "not ok": State.FAILED, "lapse": State.UNCONFIRMED},
    Standing.OVERDUE: {"expire": State.EXPIRED},
    Standing.SENT: {"ok": "unchanged"},
    Standing.FAILED: {"not ok": "unchanged"},
    Standing.UNCONFIRMED: {"ok": State.SENT, "not ok": State.FAILED},
    Standing.REJECTED: {},
    Standing.SUPERSEDED: {},
    Standing.EXPIRED: {},
}
ROWS = [
    pytest.param(draft, name, id=f"{draft.state.value}-{at.value[1]}-{name}")
    for at, drafts in DRAFTS.items()
    for draft in drafts
    for name in COMMANDS
]


def apply(draft: Draft, command: Command, now: datetime = NOW) -> Changed[Draft]:
    """Decide, and want it accepted."""
    outcome = decide(draft, command, now, via="cli")
    assert isinstance(outcome, Changed), outcome
    return outcome


@pytest.mark.rule(86, 87, 90, 92, 271, 272, 273, 274, 275, 276, 277)
@pytest.mark.parametrize(("draft", "name"), ROWS)
def test_table(draft: Draft, name: str) -> None:
    """Each command in each standing ends as the table says."""
    outcome = decide(draft, COMMANDS[name], NOW, via="cli")
    otherwise = "unchanged" if name in ("lapse", "expire") else "refused"
    match TABLE[standing(draft, NOW)].get(name, otherwise):
        case "refused":
            assert isinstance(outcome, Refused)
            shown = standing(draft, NOW).shown.value
            assert outcome.facts == {"draft_id": 17, "status": shown}
        case "unchanged":
            assert outcome == Unchanged(row=draft)
        case state:
            assert isinstance(outcome, Changed)
            assert outcome.row.state is state
            assert outcome.row.body == TEXT


@pytest.mark.parametrize("at", list(Standing))
def test_standings(at: Standing) -> None:
    """Each standing is seen from the row and the clock."""
    assert [standing(draft, NOW) for draft in DRAFTS[at]] == [at] * len(DRAFTS[at])


@pytest.mark.rule(85, 277)
def test_times_are_exact() -> None:
    """A lease is over at 2 minutes and a life at 7 days, not an instant before or after."""
    claimed = apply(WAITING, Claim()).row
    assert claimed.claimed_at == NOW
    assert claimed.lease_expires_at == NOW + timedelta(seconds=120)
    assert standing(claimed, NOW + LEASE - TICK) is Standing.HELD
    assert standing(claimed, NOW + LEASE) is Standing.LAPSED
    for draft in (PENDING, WAITING):
        assert standing(draft, draft.created_at + WEEK - TICK) is not Standing.OVERDUE
        assert standing(draft, draft.created_at + WEEK) is Standing.OVERDUE
    assert apply(LAPSED, Lapse(draft_id=17), NOW + HOUR).row.ended_at == NOW
    (overdue, _) = DRAFTS[Standing.OVERDUE]
    assert apply(overdue, Expire(draft_id=17), NOW + HOUR).row.ended_at == NOW


@pytest.mark.rule(278, 280)
@pytest.mark.parametrize(
    ("draft", "name", "action", "data"),
    [
        (PENDING, "approve", "approved", {"decided_via": "cli", "sha256": digest(TEXT).hex()}),
        (PENDING, "reject", "rejected", {"decided_via": "cli", "withdrawn": False}),
        (WAITING, "reject", "rejected", {"decided_via": "cli", "withdrawn": True}),
        (WAITING, "claim", "claimed", {"lease_expires_at": (NOW + LEASE).isoformat()}),
        (HELD, "ok", "sent", {"external_ref": None, "late": False}),
        (HELD, "not ok", "failed", {"external_ref": None, "late": False}),
        (LAPSED, "ok", "sent", {"external_ref": None, "late": True}),
        (LAPSED, "lapse", "unconfirmed", {}),
        (attrs.evolve(PENDING, **OLD), "expire", "expired", {"was": "pending"}),
        (attrs.evolve(WAITING, **OLD), "expire", "expired", {"was": "approved"}),
        (WAITING, "supersede", "superseded", {"sent": 18}),
    ],
)
def test_facts(draft: Draft, name: str, action: str, data: dict[str, Any]) -> None:
    """Each accepted command leaves its own audit fact."""
    (fact,) = apply(draft, COMMANDS[name]).facts
    assert (fact.action, fact.subject) == (f"plugin.draft.{action}", "draft:17")
    assert fact.data == {"message": 42} | data


@pytest.mark.rule(279)
def test_replacing_leaves_no_fact() -> None:
    """A draft that a newer one replaces has no audit row of its own."""
    assert apply(PENDING, Replace()).facts == ()


def test_approval_wakes_a_claim() -> None:
    """An approval tells the plugin's waiting claims, and nothing else does."""
    for draft, name in ((PENDING, "approve"), (PENDING, "reject"), (WAITING, "claim")):
        hints = apply(draft, COMMANDS[name]).hints
        assert [(hint.kind, hint.id) for hint in hints] == (
            [(HintKind.DRAFT_CLAIMABLE, 3)] if name == "approve" else []
        )


@pytest.mark.parametrize("kind", [Approve, Reject])
def test_a_decision_quotes_the_text(kind: type[Approve | Reject]) -> None:
    """A decision with the digest of another text is refused, whatever the state."""
    right = digest(TEXT).hex()
    for quoted in (right, right.upper(), None):
        apply(PENDING, kind(draft_id=17, sha256=quoted))
    for quoted in (digest("Another text.").hex(), "", right[:-1], "é"):
        for draft in (PENDING, WAITING, SENT):
            outcome = decide(draft, kind(draft_id=17, sha256=quoted), NOW, via="cli")
            assert isinstance(outcome, Refused)
            assert outcome.code == "other_text"


@pytest.mark.rule(79)
def test_a_repeated_result_changes_nothing() -> None:
    """The same result again is unchanged even when it says more."""
    first = apply(HELD, Report(draft_id=17, ok=True, external_ref="a", detail="b")).row
    assert (first.external_ref, first.detail, first.reported_at) == ("a", "b", NOW)
    again = Report(draft_id=17, ok=True, external_ref="c", detail="d")
    assert decide(first, again, NOW + HOUR, via="plugin") == Unchanged(row=first)


def test_time_never_runs_back() -> None:
    """A decision by an older clock takes the row's own time."""
    early = NOW - timedelta(days=1)
    claimed = apply(WAITING, Claim(), early).row
    assert claimed.claimed_at == WAITING.approved_at
    assert claimed.lease_expires_at == NOW - 2 * HOUR + LEASE


@pytest.mark.rule(91, 92, 93)
def test_what_a_sent_reply_overtakes() -> None:
    """A sent reply supersedes pending and waiting ones; a held one and what ended stay."""
    replies = [
        attrs.evolve(draft, id=100 + number)
        for number, draft in enumerate(draft for group in DRAFTS.values() for draft in group)
    ]
    changed = overtaken([*replies, SENT], SENT, NOW)
    before = {reply.id: standing(reply, NOW) for reply in replies}
    assert [before[one.row.id] for one in changed] == [Standing.PENDING, Standing.WAITING]
    assert {(one.row.state, one.row.superseded_by) for one in changed} == {(State.SUPERSEDED, 17)}
    assert changed[1].row.approved_at == WAITING.approved_at


@pytest.mark.rule(94)
@pytest.mark.parametrize("at", list(Standing))
def test_in_flight(at: Standing) -> None:
    """A reply is in flight while it waits for its plugin or is within its lease, and only then."""
    for draft in DRAFTS[at]:
        flying = find_in_flight([PENDING, draft], NOW)
        assert (flying is draft) == (at in (Standing.WAITING, Standing.HELD))


@pytest.mark.parametrize("at", list(Standing))
def test_what_is_due(at: Standing) -> None:
    """Only a lapsed and an overdue draft have something for a sweep to write, once."""
    ends = {Standing.LAPSED: State.UNCONFIRMED, Standing.OVERDUE: State.EXPIRED}
    for draft in DRAFTS[at]:
        due = write_due(draft, NOW)
        assert (None if due is None else due.row.state) == ends.get(at)
        if due is not None:
            assert write_due(due.row, NOW) is None
