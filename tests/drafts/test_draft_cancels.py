"""Each verb that writes, cancelled at every step: it is wholly there or wholly not."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import attrs
import pytest
import trio

from actors.testing import cancel_at_every_step
from muster.drafts import operations as drafts
from muster.drafts.operations import DraftView, State
from muster.outcomes import HintKind
from muster.principals import Owner
from tests.support.cluster import SpiedDatabase
from tests.support.reply_desk import ReplyDesk, open_desk

LEASE = timedelta(minutes=2)


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> ReplyDesk:
    """A desk."""
    return await open_desk(db, owner)


@attrs.frozen(kw_only=True)
class Verb:
    """How to prepare a draft, what to do to it, and what is on record when it was done."""

    prepare: Callable[[ReplyDesk], Awaitable[int]]
    act: Callable[[ReplyDesk, int], Awaitable[object]]
    state: State
    actions: tuple[str, ...]


async def _pending(desk: ReplyDesk) -> int:
    return (await desk.draft()).id


async def _waiting(desk: ReplyDesk) -> int:
    return (await desk.draft(approved=True)).id


async def _held(desk: ReplyDesk) -> int:
    return (await desk.draft(claimed=True)).id


async def _lapsed(desk: ReplyDesk) -> int:
    draft = await desk.draft(claimed=True)
    desk.db.clock_offset += LEASE
    return draft.id


async def _overdue(desk: ReplyDesk) -> int:
    draft = await desk.draft()
    desk.db.clock_offset += timedelta(days=7)
    return draft.id


async def _lapse(desk: ReplyDesk, draft_id: int) -> object:
    return await desk.db.run(desk.muster, drafts.lapse, drafts.Lapse(draft_id=draft_id))


async def _expire(desk: ReplyDesk, draft_id: int) -> object:
    return await desk.db.run(desk.muster, drafts.expire, drafts.Expire(draft_id=draft_id))


VERBS = {
    "approve": Verb(
        prepare=_pending,
        act=lambda desk, draft_id: desk.approve(draft_id),
        state=State.APPROVED,
        actions=("approved",),
    ),
    "reject": Verb(
        prepare=_waiting,
        act=lambda desk, draft_id: desk.reject(draft_id),
        state=State.REJECTED,
        actions=("rejected",),
    ),
    "claim": Verb(
        prepare=_waiting,
        act=lambda desk, _: desk.claim(),
        state=State.APPROVED,
        actions=("claimed",),
    ),
    "report": Verb(
        prepare=_held,
        act=lambda desk, draft_id: desk.report(draft_id, ok=True),
        state=State.SENT,
        actions=("sent",),
    ),
    "late report": Verb(
        prepare=_lapsed,
        act=lambda desk, draft_id: desk.report(draft_id, ok=False),
        state=State.FAILED,
        actions=("unconfirmed", "failed"),
    ),
    "lapse": Verb(prepare=_lapsed, act=_lapse, state=State.UNCONFIRMED, actions=("unconfirmed",)),
    "expire": Verb(prepare=_overdue, act=_expire, state=State.EXPIRED, actions=("expired",)),
}


@pytest.mark.parametrize("name", list(VERBS))
async def test_whole_or_not_at_all(desk: ReplyDesk, name: str) -> None:
    """A cancelled verb leaves the row, its audit rows and its hint all together or not at all."""
    verb = VERBS[name]
    draft_id = 0
    before: list[str] = []
    first: DraftView | None = None

    async def prepare() -> None:
        nonlocal draft_id, before, first
        draft_id = await verb.prepare(desk)
        before = await desk.actions(draft_id)
        first = await desk.view(draft_id)
        desk.db.published.clear()

    async def check(completed: bool) -> None:
        with trio.CancelScope(shield=True):
            new = (await desk.actions(draft_id))[len(before) :]
            shown = await desk.view(draft_id)
            hinted = [hint.kind for hint in desk.db.published]
            if new:
                assert tuple(new) == verb.actions
                assert shown.state is verb.state
                assert (shown.claimed_at is not None) == ("claimed" in [*before, *new])
                approved = [HintKind.DRAFT_CLAIMABLE] if name == "approve" else []
                assert hinted == approved
                await prepare()
            else:
                assert not completed
                assert (shown, hinted) == (first, [])

    await prepare()
    assert await cancel_at_every_step(lambda: verb.act(desk, draft_id), check) >= 4


@pytest.mark.rule(84, 97)
async def test_a_claim_that_nobody_heard_of(desk: ReplyDesk) -> None:
    """A claim whose asker left at its last step is still a claim, and lapses to unconfirmed."""
    draft = await desk.draft(approved=True)
    with trio.CancelScope() as scope:
        async with desk.db.transaction(desk.plugin) as tx:
            assert await drafts.claim_next(tx, drafts.ClaimNext()) is not None
            scope.cancel()
    assert (await desk.view(draft.id)).claimed_at is not None
    assert await desk.claim() is None
    desk.db.clock_offset = LEASE
    assert (await desk.view(draft.id)).state is State.UNCONFIRMED


async def test_filing_cancelled_anywhere(desk: ReplyDesk) -> None:
    """A cancelled filing replaces the pending draft wholly or leaves it as it was."""
    message = await desk.message()
    pending = (await desk.draft(message)).id
    command = drafts.File(message_id=message.id, body="Another.", deny_words=frozenset())

    async def attempt() -> None:
        await desk.db.run(desk.chief, drafts.file, command)

    async def check(completed: bool) -> None:
        nonlocal pending
        with trio.CancelScope(shield=True):
            listing = drafts.ListDrafts(limit=1000)
            rows = await desk.db.run(desk.owner, drafts.list_drafts, listing)
            (newest,) = [row for row in rows if row.state is State.PENDING]
            assert newest.id == rows[0].id
            assert newest.id != pending or not completed
            assert await desk.actions(newest.id) == ["filed"]
            if newest.id != pending:
                replaced = await desk.view(pending)
                assert (replaced.state, replaced.superseded_by) == (State.SUPERSEDED, newest.id)
            pending = newest.id

    assert await cancel_at_every_step(attempt, check) >= 4
