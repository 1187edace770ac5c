"""What the sweeps find across owners, and what they write."""

from datetime import timedelta

import pytest

from muster.drafts import operations as drafts
from muster.drafts.operations import State
from muster.errors import NotFound
from muster.plugins.operations import list_plugins
from muster.plugins.rules import ListPlugins
from muster.principals import Muster, Owner, System
from tests.support.builders import disable, make_message, make_plugin, revoke
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.reply_desk import ReplyDesk, open_desk

LEASE = timedelta(minutes=2)
HINTED = timedelta(seconds=1)
MANY = 10_000


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> ReplyDesk:
    """A desk."""
    return await open_desk(db, owner)


async def due(desk: ReplyDesk, *, expiries: bool = False) -> list[int]:
    """The drafts of this owner's that a sweep would find."""
    find = drafts.due_expiries if expiries else drafts.due_lapses
    found = await desk.db.run(System(), find, MANY)
    return [each.draft_id for each in found if each.owner_id == desk.owner.owner_id]


async def claimable(desk: ReplyDesk, *, after: timedelta = HINTED) -> list[int]:
    """The plugins of this owner's for which a reply waits, that long from now."""
    ids = [
        plugin.id
        for plugin in await desk.db.run(desk.owner, list_plugins, ListPlugins(revoked_too=True))
    ]
    command = drafts.FindClaimable(plugin_ids=ids, limit=MANY)
    desk.db.clock_offset += after
    found = await desk.db.run(System(), drafts.find_claimable, command)
    desk.db.clock_offset -= after
    assert {each.owner_id for each in found} <= {desk.owner.owner_id}
    return [each.plugin_id for each in found]


@pytest.mark.rule(85, 274, 278)
async def test_lapses(desk: ReplyDesk) -> None:
    """A claim without a result is due after its 2 minutes, and is written once."""
    draft = await desk.draft(claimed=True)
    await desk.draft(approved=True)
    command = drafts.Lapse(draft_id=draft.id)
    desk.db.clock_offset = LEASE - timedelta(seconds=20)
    assert await due(desk) == []
    assert (await desk.db.run(desk.muster, drafts.lapse, command)).state is State.APPROVED
    desk.db.clock_offset = LEASE
    assert await due(desk) == [draft.id]
    for _ in range(2):
        assert (await desk.db.run(desk.muster, drafts.lapse, command)).state is State.UNCONFIRMED
    assert await due(desk) == []
    assert await desk.actions(draft.id) == ["filed", "approved", "claimed", "unconfirmed"]
    row = (await desk.audit(draft.id))[-1]
    assert (row.actor, row.via) == ("muster", "muster")


@pytest.mark.rule(277, 278)
async def test_expiries(desk: ReplyDesk) -> None:
    """A pending and a waiting draft are due after 7 days and written once; a claimed one is not."""
    pending = await desk.draft()
    waiting = await desk.draft(approved=True)
    await desk.set_clock(pending.expires_at - timedelta(seconds=30))
    assert await due(desk, expiries=True) == []
    await desk.db.run(desk.muster, drafts.expire, drafts.Expire(draft_id=pending.id))
    assert (await desk.view(pending.id)).state is State.PENDING
    await desk.claim()
    held = waiting
    waiting = await desk.draft(approved=True)
    await desk.set_clock(waiting.expires_at)
    assert await due(desk, expiries=True) == [pending.id, waiting.id]
    for draft_id in (pending.id, waiting.id):
        for _ in range(2):
            command = drafts.Expire(draft_id=draft_id)
            assert (await desk.db.run(desk.muster, drafts.expire, command)).state is State.EXPIRED
        assert (await desk.actions(draft_id))[-2:] != ["expired", "expired"]
        assert (await desk.actions(draft_id))[-1] == "expired"
    assert await due(desk, expiries=True) == []
    assert (await desk.view(held.id)).state is State.UNCONFIRMED


async def test_claimable(desk: ReplyDesk) -> None:
    """A plugin is named once while a reply of its waits that could be claimed now."""
    assert await claimable(desk) == []
    await desk.draft()
    assert await claimable(desk) == []
    for _ in range(2):
        await desk.draft(approved=True)
    assert await claimable(desk, after=timedelta()) == []  # its hint does that
    assert await claimable(desk) == [desk.plugin.plugin_id]
    await desk.claim()
    assert await claimable(desk) == [desk.plugin.plugin_id]
    await desk.claim()
    assert await claimable(desk) == []
    late = await desk.draft(approved=True)
    await desk.set_clock(late.expires_at)
    assert await claimable(desk) == []
    await desk.draft(approved=True)
    await revoke(desk.db, desk.owner, desk.plugin)
    assert await claimable(desk) == []
    other = await make_plugin(desk.db, desk.owner)
    message = await make_message(desk.db, other, delivered_to=desk.chief)
    await desk.draft(message, approved=True)
    assert await claimable(desk) == [other.plugin_id]
    await disable(desk.db, desk.owner)
    assert await claimable(desk) == []


async def test_lists_are_bounded(desk: ReplyDesk) -> None:
    """No list of what is due is longer than it was asked to be."""
    other = await open_desk(desk.db, await add_owner(desk.db))
    for each in (desk, other):
        await each.draft(claimed=True)
        await each.draft()
        await each.draft(approved=True)
    desk.db.clock_offset = timedelta(minutes=3)
    lapses = await desk.db.run(System(), drafts.due_lapses, 1)
    ids = [each.plugin.plugin_id for each in (desk, other)]
    command = drafts.FindClaimable(plugin_ids=ids, limit=1)
    waiting = await desk.db.run(System(), drafts.find_claimable, command)
    desk.db.clock_offset = timedelta(days=8)
    expiries = await desk.db.run(System(), drafts.due_expiries, 1)
    assert [len(each) for each in (lapses, waiting, expiries)] == [1, 1, 1]


async def test_somebody_elses_drafts(desk: ReplyDesk) -> None:
    """Another owner finds nothing of one's drafts by any verb."""
    held = await desk.draft(claimed=True)
    pending = await desk.draft()
    stranger = await open_desk(desk.db, await add_owner(desk.db))
    muster = Muster(owner_id=stranger.owner.owner_id)
    desk.db.clock_offset = timedelta(days=8)
    for draft_id in (held.id, pending.id):
        for attempt in (
            stranger.view(draft_id),
            stranger.approve(draft_id),
            stranger.reject(draft_id),
            stranger.report(draft_id, ok=True),
            desk.db.run(muster, drafts.lapse, drafts.Lapse(draft_id=draft_id)),
            desk.db.run(muster, drafts.expire, drafts.Expire(draft_id=draft_id)),
        ):
            with pytest.raises(NotFound):
                await attempt
    assert await stranger.db.run(stranger.owner, drafts.list_drafts, drafts.ListDrafts()) == []
    command = drafts.File(message_id=pending.message_id, body="x", deny_words=frozenset())
    with pytest.raises(NotFound):
        await desk.db.run(stranger.chief, drafts.file, command)
    assert await stranger.claim() is None
    assert await desk.actions(pending.id) == ["filed"]
