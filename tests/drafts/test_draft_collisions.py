"""Verbs of drafts that truly collide: each has its transaction open before any begins."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import pytest

from muster.drafts import operations as drafts
from muster.drafts.operations import Claimed, Filed, State
from muster.errors import MusterError, Refused
from muster.messages.rules import Message
from muster.principals import Owner
from tests.support.barrier import collide
from tests.support.cluster import SpiedDatabase
from tests.support.reply_desk import ReplyDesk, open_desk

LEASE = timedelta(minutes=2)
ROUNDS = 8


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> ReplyDesk:
    """A desk."""
    return await open_desk(db, owner)


def claims(desk: ReplyDesk, count: int = 1) -> list[tuple[object, object]]:
    """Claims of one plugin."""
    return [(desk.plugin, partial(drafts.claim_next, command=drafts.ClaimNext()))] * count


def reports(desk: ReplyDesk, draft_id: int, *oks: bool) -> list[tuple[object, object]]:
    """Results for one draft."""
    commands = [drafts.Report(draft_id=draft_id, ok=ok) for ok in oks]
    return [(desk.plugin, partial(drafts.report, command=command)) for command in commands]


def approvals(desk: ReplyDesk, draft_id: int, count: int = 1) -> list[tuple[object, object]]:
    """Approvals of one draft."""
    command = drafts.Approve(draft_id=draft_id)
    return [(desk.owner, partial(drafts.approve, command=command))] * count


def rejections(desk: ReplyDesk, draft_id: int, count: int = 1) -> list[tuple[object, object]]:
    """Rejections of one draft."""
    command = drafts.Reject(draft_id=draft_id)
    return [(desk.owner, partial(drafts.reject, command=command))] * count


def filings(desk: ReplyDesk, message: Message, count: int = 1) -> list[tuple[object, object]]:
    """New replies to one message."""
    command = drafts.File(message_id=message.id, body="Another.", deny_words=frozenset())
    return [(desk.chief, partial(drafts.file, command=command))] * count


async def meet(desk: ReplyDesk, *groups: Sequence[tuple[object, object]]) -> list[object]:
    """Let them collide; no outcome may be anything but a result or a plain refusal."""
    operations = [operation for group in groups for operation in group]
    outcomes = await collide(desk.db, *operations)  # type: ignore[arg-type]
    for outcome in outcomes:
        assert not isinstance(outcome, MusterError) or isinstance(outcome, Refused), outcome
    return list(outcomes)


def claimed(outcomes: list[object]) -> list[Claimed]:
    """The claims that got something."""
    return [outcome for outcome in outcomes if isinstance(outcome, Claimed)]


@pytest.mark.rule(84)
async def test_ten_claims_for_one_draft(desk: ReplyDesk) -> None:
    """Of ten claims at once exactly one gets the draft."""
    for _ in range(ROUNDS):
        draft = await desk.draft(approved=True)
        outcomes = await meet(desk, claims(desk, 10))
        assert [each.draft_id for each in claimed(outcomes)] == [draft.id]
        assert (await desk.actions(draft.id)).count("claimed") == 1


@pytest.mark.rule(84)
async def test_ten_claims_for_three_drafts(desk: ReplyDesk) -> None:
    """Ten claims at once share three drafts without a double, and none is left."""
    made = {(await desk.draft(approved=True)).id for _ in range(3)}
    outcomes = await meet(desk, claims(desk, 10))
    found = [each.draft_id for each in claimed(outcomes)]
    assert sorted(found) == sorted(made)


async def test_claim_against_withdrawal(desk: ReplyDesk) -> None:
    """A draft is either claimed or withdrawn, never both, however they meet."""
    for _ in range(ROUNDS):
        draft = await desk.draft(approved=True)
        outcomes = await meet(desk, claims(desk, 4), rejections(desk, draft.id, 4))
        actions = await desk.actions(draft.id)
        assert actions in (["filed", "approved", "claimed"], ["filed", "approved", "rejected"])
        assert len(claimed(outcomes)) == actions.count("claimed")


async def test_claim_against_late_result(desk: ReplyDesk) -> None:
    """When a late reply turns out sent, the waiting one is either held already or superseded."""
    for _ in range(ROUNDS):
        message = await desk.message()
        lost = await desk.draft(message, claimed=True)
        desk.db.clock_offset += LEASE
        waiting = await desk.draft(message, approved=True)
        outcomes = await meet(desk, claims(desk, 4), reports(desk, lost.id, True, True))
        shown = await desk.view(waiting.id)
        assert (await desk.view(lost.id)).state is State.SENT
        if claimed(outcomes):
            assert (shown.state, shown.superseded_by) == (State.APPROVED, None)
        elif shown.state is State.APPROVED:
            pytest.fail("neither held nor superseded")
        else:
            assert (shown.state, shown.superseded_by) == (State.SUPERSEDED, lost.id)
        desk.db.clock_offset += LEASE


async def test_approval_against_rejection(desk: ReplyDesk) -> None:
    """Of five approvals and five rejections of one draft each kind takes effect once at most."""
    for _ in range(ROUNDS):
        draft = await desk.draft()
        await meet(desk, approvals(desk, draft.id, 5), rejections(desk, draft.id, 5))
        assert await desk.actions(draft.id) in (
            ["filed", "rejected"],
            ["filed", "approved", "rejected"],
        )


@pytest.mark.rule(79, 82)
async def test_contrary_results(desk: ReplyDesk) -> None:
    """Contrary results at once: one stands, its repeats agree, the others are refused."""
    for _ in range(ROUNDS):
        draft = await desk.draft(claimed=True)
        outcomes = await meet(desk, reports(desk, draft.id, *[True, False] * 4))
        refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
        assert len(refused) == 4
        shown = await desk.view(draft.id)
        assert {refusal.facts["status"] for refusal in refused} == {shown.state.value}
        assert (await desk.actions(draft.id))[3:] == [shown.state.value]


@pytest.mark.rule(255)
async def test_filings_for_one_message(desk: ReplyDesk) -> None:
    """Ten drafts for one message at once leave one pending, and nine superseded in turn."""
    message = await desk.message()
    outcomes = await meet(desk, filings(desk, message, 10))
    filed = [outcome for outcome in outcomes if isinstance(outcome, Filed)]
    assert sorted(each.superseded for each in filed) == [0] + [1] * 9
    states = [(await desk.view(each.draft.id)).state for each in filed]
    assert states.count(State.PENDING) == 1
    assert states.count(State.SUPERSEDED) == 9


@pytest.mark.rule(94, 95, 256)
async def test_filing_against_approval(desk: ReplyDesk) -> None:
    """A filing that meets an approval either replaces the draft or is refused; never both live."""
    for _ in range(ROUNDS):
        message = await desk.message()
        draft = await desk.draft(message)
        await meet(desk, filings(desk, message, 3), approvals(desk, draft.id, 3), claims(desk, 2))
        listed = await desk.db.run(desk.owner, drafts.list_drafts, drafts.ListDrafts(limit=500))
        live = [
            row
            for row in listed
            if row.message_id == message.id and row.state in (State.PENDING, State.APPROVED)
        ]
        assert len(live) == 1
        assert live[0].state is (State.APPROVED if live[0].id == draft.id else State.PENDING)
        if live[0].state is State.PENDING:
            await desk.reject(live[0].id)
        desk.db.clock_offset += LEASE


@pytest.mark.rule(91)
async def test_filing_against_late_result(desk: ReplyDesk) -> None:
    """A draft filed before a late reply turns out sent is superseded, one filed after it is not."""
    orders = set()
    for round_number in range(2 * ROUNDS):
        message = await desk.message()
        lost = await desk.draft(message, claimed=True)
        desk.db.clock_offset += LEASE
        groups = [filings(desk, message), reports(desk, lost.id, True)]
        if round_number % 2:
            groups.reverse()
        (filed,) = [each for each in await meet(desk, *groups) if isinstance(each, Filed)]
        (filing, *_) = await desk.audit(filed.draft.id)
        filed_first = filing.id < (await desk.audit(lost.id))[-1].id
        state = (await desk.view(filed.draft.id)).state
        assert state is (State.SUPERSEDED if filed_first else State.PENDING)
        orders.add(filed_first)
    assert True in orders  # the order that needs the lock was met


@pytest.mark.rule(257)
async def test_the_twentieth_place(desk: ReplyDesk) -> None:
    """Ten filings for ten messages with one place left file one draft."""
    for _ in range(19):
        await desk.draft()
    messages = [await desk.message() for _ in range(10)]
    outcomes = await meet(desk, *(filings(desk, message) for message in messages))
    assert sum(isinstance(outcome, Filed) for outcome in outcomes) == 1
    codes = {outcome.code for outcome in outcomes if isinstance(outcome, Refused)}
    assert codes == {"too_many_pending"}


async def test_everything_at_once(desk: ReplyDesk) -> None:
    """Results, filings, decisions, claims and sweeps at once end in plain answers alone."""
    for _ in range(ROUNDS):
        message = await desk.message()
        lost = await desk.draft(message, claimed=True)
        desk.db.clock_offset += LEASE
        pending = await desk.draft(message)
        sweep = partial(drafts.lapse, command=drafts.Lapse(draft_id=lost.id))
        await meet(
            desk,
            reports(desk, lost.id, True, True),
            filings(desk, message, 2),
            approvals(desk, pending.id, 2),
            rejections(desk, pending.id),
            claims(desk, 2),
            [(desk.muster, sweep)] * 2,
        )
        assert (await desk.view(lost.id)).state is State.SENT
        assert (await desk.actions(lost.id))[3:] == ["unconfirmed", "sent"]
        desk.db.clock_offset += timedelta(days=8)
