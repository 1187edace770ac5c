"""What becomes of sessions and their queues by the clock."""

from datetime import timedelta

import pytest

from muster.accounts.operations.sessions import sign_out_everywhere
from muster.attention import operations as attention
from muster.errors import Refused
from muster.mirror.operations import due
from muster.mirror.operations.focus import note_focus
from muster.mirror.operations.hosts import release_host, retire_host
from muster.mirror.rules import NoteFocus, ReleaseHost, RetireHost
from muster.mirror.send_rules import OFFERED_FOR, SendState
from muster.node import mirror_sweeps
from muster.pg.query import Query
from muster.principals import Node, Owner, System
from tests.support.builders import disable, make_agent
from tests.support.cluster import SpiedDatabase
from tests.support.send_desk import STEPUP_SECONDS, SendDesk, open_send_desk

ROUNDS_MAX = 50
BEAT = Query("""
    insert into nodes (id, started_at, seen_at) values ('tests', %(now)s, %(now)s)
    on conflict (id) do update set seen_at = excluded.seen_at
""")
KEPT = Query("""
    select (select count(*) from windows where owner_id = %(owner_id)s) || ' '
           || (select count(*) from panes where owner_id = %(owner_id)s) || ' '
           || (select count(*) from focus_titles where owner_id = %(owner_id)s)
""")


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> SendDesk:
    """A desk."""
    return await open_send_desk(db, owner)


async def settle(desk: SendDesk) -> str | None:
    """A few rounds of the sweep of queues: one takes so many at most, and other tests left some."""
    note = None
    for _ in range(5):
        note = await mirror_sweeps.settle_sends(desk.db, stepup_window_seconds=STEPUP_SECONDS)
    return note


async def forget(desk: SendDesk, expected: str) -> None:
    """Rounds of the other sweep: one takes so many rows at most, and other tests left some."""
    for _ in range(ROUNDS_MAX):
        await mirror_sweeps.forget_mirrored(desk.db)
        if await kept(desk) == expected:
            return
    assert await kept(desk) == expected


async def kept(desk: SendDesk) -> str:
    """How many windows, panes and titles the owner has."""
    async with desk.db.transaction(desk.owner) as tx:
        return str(await tx.scalar(KEPT))


async def later(desk: SendDesk, **time: float) -> None:
    """The clock goes on; the node of the tests lives."""
    desk.db.clock_offset += timedelta(**time)
    async with desk.db.transaction(Node()) as tx:
        await tx.execute(BEAT)


@pytest.mark.rule(316)
@pytest.mark.parametrize("end", ["signed out", "disabled", "stale"])
async def test_what_may_not_go_is_refused(desk: SendDesk, end: str) -> None:
    """A sign-out everywhere and a disable refuse a queue though its session never falls idle."""
    queued = await desk.put(signed_in_at=await desk.ago())
    routed = await desk.route()
    await settle(desk)
    assert [one.state for one in await desk.listed()] == [SendState.QUEUED] * 2
    if end == "signed out":
        await desk.db.run(desk.owner, sign_out_everywhere, None)
    elif end == "disabled":
        await disable(desk.db, desk.owner)
    else:
        await later(desk, hours=13)
    await settle(desk)
    refused = [(await desk.get(one.id)).state is SendState.REFUSED for one in (queued, routed)]
    assert refused == [True, end != "stale"]
    await settle(desk)
    assert await desk.actions(queued.id) == ["queued", "refused"]


async def test_a_forgotten_offer_is_settled(desk: SendDesk) -> None:
    """A server that was killed with a text in hand leaves it to the sweep of another."""
    send = await desk.offered()
    await settle(desk)
    assert (await desk.get(send.id)).state is SendState.OFFERED
    await later(desk, seconds=OFFERED_FOR.total_seconds())
    await settle(desk)
    await settle(desk)
    assert (await desk.get(send.id)).state is SendState.UNCONFIRMED
    assert await desk.actions(send.id) == ["queued", "unconfirmed"]
    assert len(await desk.asks()) == 1


async def test_what_could_not_be_asked_is_asked_later(desk: SendDesk) -> None:
    """While the owner has too many asks the log says so, and then the question comes."""
    agent = await make_agent(desk.db, desk.owner)
    ask = attention.AskOwner(asked_by=attention.AskedBy.AGENT, question="What?")
    for _ in range(50):
        first = await desk.db.run(agent, attention.ask, ask)
    with pytest.raises(Refused):
        await desk.db.run(agent, attention.ask, ask)
    send = await desk.doubted()
    note = await settle(desk)
    assert note is not None
    assert "wait for a place among the asks" in note
    assert first is not None
    await desk.db.run(desk.owner, attention.dismiss, attention.Dismiss(ask_id=first.id))
    await settle(desk)
    assert (await desk.get(send.id)).ask_id is not None


async def test_titles_are_kept_for_thirty_days(desk: SendDesk) -> None:
    """And then forgotten, with the day on which they were told counting."""
    note = NoteFocus(
        host_id=desk.host_id,
        epoch=desk.epoch,
        claude_session=desk.session,
        title="the garden",
        source="summary",
        cwd=None,
        at=await desk.ago(days=40),
    )
    await desk.db.run(desk.muster, note_focus, note)
    await later(desk, days=29)
    await forget(desk, "1 1 1")
    await later(desk, days=2)
    await forget(desk, "1 1 0")


async def test_windows_of_a_gone_host_are_kept_for_a_day(desk: SendDesk) -> None:
    """And those of one that is connected for however long it is; a retired one's end at once."""
    await later(desk, days=3)
    await forget(desk, "1 1 0")
    release = ReleaseHost(host_id=desk.host_id, epoch=desk.epoch)
    assert await desk.db.run(desk.muster, release_host, release)
    await later(desk, hours=23)
    await forget(desk, "1 1 0")
    await later(desk, hours=2)
    await forget(desk, "0 0 0")


async def test_windows_of_a_retired_host_go(desk: SendDesk) -> None:
    """Whether or not its socket is still open."""
    await later(desk, seconds=0)
    await desk.db.run(desk.owner, retire_host, RetireHost(name="box"))
    await forget(desk, "0 0 0")


async def test_the_sweeps_see_owners_and_ids(desk: SendDesk) -> None:
    """What is due is told as an owner, and at most as the id of a text."""
    send = await desk.doubted()
    async with desk.db.transaction(System()) as tx:
        unasked = await due.find_unasked(tx, 10_000)
        assert send.id not in {one.send_id for one in unasked}
        find = due.FindRefused(stepup_window_seconds=STEPUP_SECONDS, limit=10_000)
        refused = await due.find_refused(tx, find)
    assert desk.owner.owner_id not in {one.owner_id for one in refused}
