"""The owner's decisions: approve, reject, take back."""

from datetime import timedelta

import pytest

from muster.drafts.operations import State
from muster.errors import NotFound, Refused
from muster.ids import digest
from muster.outcomes import HintKind
from muster.pg.query import Query
from muster.principals import Owner
from tests.support.builders import disable, make_message, make_plugin, revoke
from tests.support.cluster import SpiedDatabase
from tests.support.reply_desk import ReplyDesk, open_desk


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> ReplyDesk:
    """A desk."""
    return await open_desk(db, owner)


@pytest.mark.rule(7, 270, 272, 278)
async def test_approve(desk: ReplyDesk) -> None:
    """An approved draft is the next claim's; the audit row says where it was decided."""
    draft = await desk.draft()
    approved = await desk.approve(draft.id, digest(draft.body).hex())
    assert (approved.state, approved.decided_via) == (State.APPROVED, "cli")
    assert approved.approved_at == approved.decided_at
    hint = desk.db.published[-1]
    assert (hint.kind, hint.id) == (HintKind.DRAFT_CLAIMABLE, desk.plugin.plugin_id)
    row = (await desk.audit(draft.id))[-1]
    assert (row.action, row.actor, row.via) == ("plugin.draft.approved", "owner", "cli")
    assert row.data["decided_via"] == "cli"
    claimed = await desk.claim()
    assert claimed is not None
    assert claimed.draft_id == draft.id


@pytest.mark.rule(270, 275, 278)
async def test_reject(desk: ReplyDesk) -> None:
    """A rejected draft ends; an approval that nobody collected is taken back the same way."""
    pending = await desk.draft()
    assert (await desk.reject(pending.id)).state is State.REJECTED
    waiting = await desk.draft(approved=True)
    taken_back = await desk.reject(waiting.id)
    assert taken_back.state is State.REJECTED
    assert taken_back.approved_at is not None
    rows = [(await desk.audit(draft.id))[-1].data for draft in (pending, waiting)]
    assert [(row["decided_via"], row["withdrawn"]) for row in rows] == [
        ("cli", False),
        ("cli", True),
    ]
    assert await desk.claim() is None
    for draft in (pending, waiting):
        with pytest.raises(Refused):
            await desk.approve(draft.id)
        with pytest.raises(Refused):
            await desk.reject(draft.id)


async def test_another_text(desk: ReplyDesk) -> None:
    """A decision that quotes another text's digest is refused and changes nothing."""
    draft = await desk.draft()
    for decide in (desk.approve, desk.reject):
        with pytest.raises(Refused) as refusal:
            await decide(draft.id, digest("Another text.").hex())
        assert refusal.value.code == "other_text"
    assert (await desk.view(draft.id)).state is State.PENDING
    assert await desk.actions(draft.id) == ["filed"]


@pytest.mark.rule(87)
async def test_what_cannot_be_decided(desk: ReplyDesk) -> None:
    """A claimed, lapsed, sent or superseded draft is neither approved nor rejected any more."""
    held = await desk.draft(claimed=True)
    for _ in ("held", "lapsed"):
        for decide in (desk.approve, desk.reject):
            with pytest.raises(Refused) as refusal:
                await decide(held.id)
            assert refusal.value.code == "draft_state"
        desk.db.clock_offset = timedelta(minutes=2)
    assert (await desk.view(held.id)).state is State.UNCONFIRMED
    sent = await desk.draft(claimed=True)
    await desk.report(sent.id, ok=True)
    message = await desk.message()
    superseded = await desk.draft(message)
    await desk.draft(message)
    for draft in (sent, superseded):
        with pytest.raises(Refused):
            await desk.approve(draft.id)
        with pytest.raises(Refused):
            await desk.reject(draft.id)
    with pytest.raises(NotFound):
        await desk.approve(10**12)


@pytest.mark.rule(277)
async def test_seven_days(desk: ReplyDesk) -> None:
    """A draft can be decided to the end of its 7 days, and no longer."""
    in_time, late, waiting = (
        await desk.draft(),
        await desk.draft(),
        await desk.draft(approved=True),
    )
    await desk.set_clock(in_time.expires_at - timedelta(seconds=30))
    assert (await desk.approve(in_time.id)).state is State.APPROVED
    await desk.set_clock(waiting.expires_at)
    for decide in (desk.approve, desk.reject):
        for draft in (late, waiting):
            with pytest.raises(Refused) as refusal:
                await decide(draft.id)
            assert refusal.value.facts["status"] == "expired"
    assert await desk.claim() is None


# No filing writes this: it is what an approval must refuse all the same.
INSERT_BESIDE = Query("""
    insert into drafts (owner_id, message_id, plugin_id, agent_id, body, body_sha256, state,
                        created_at, expires_at)
    select owner_id, message_id, plugin_id, agent_id, body, body_sha256, 'pending',
           created_at, expires_at
    from drafts where id = %(draft_id)s
    returning id
""")


@pytest.mark.rule(95)
async def test_not_beside_one_in_flight(desk: ReplyDesk) -> None:
    """A draft is not approved while another reply to its message waits or is within its lease."""
    flying = await desk.draft(approved=True)
    async with desk.db.transaction(desk.owner) as tx:
        second = await tx.scalar(INSERT_BESIDE, draft_id=flying.id)
    for _ in ("waiting", "held"):
        with pytest.raises(Refused) as refusal:
            await desk.approve(second)
        assert refusal.value.code == "reply_in_flight"
        assert refusal.value.facts["draft_id"] == flying.id
        await desk.claim()
    desk.db.clock_offset = timedelta(minutes=2)
    assert (await desk.approve(second)).state is State.APPROVED
    assert await desk.actions(flying.id) == ["filed", "approved", "claimed", "unconfirmed"]


async def test_nobody_there_to_send_it(desk: ReplyDesk) -> None:
    """Drafts of a revoked plugin or a disabled account can't be approved, only rejected."""
    db, owner = desk.db, desk.owner
    orphan = await desk.draft()
    other = await make_plugin(db, owner)
    message = await make_message(db, other, delivered_to=desk.chief)
    alive = await desk.draft(message)
    await revoke(db, owner, desk.plugin)
    with pytest.raises(Refused) as refusal:
        await desk.approve(orphan.id)
    assert refusal.value.code == "plugin_revoked"
    assert (await desk.reject(orphan.id)).state is State.REJECTED
    await disable(db, owner)
    with pytest.raises(Refused) as refusal:
        await desk.approve(alive.id)
    assert refusal.value.code == "account_disabled"
