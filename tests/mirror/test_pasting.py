"""A text leaves the queue for its host: what is looked at in that moment, and what comes of it."""

import pytest

from muster.accounts.operations.sessions import sign_out_everywhere
from muster.errors import Invalid
from muster.mirror.operations import pasting, sends
from muster.mirror.operations.hosts import retire_host
from muster.mirror.rules import RetireHost
from muster.mirror.send_rules import Enqueue, RefuseStanding, SendState
from muster.outcomes import HintKind
from muster.principals import Owner
from tests.support.builders import disable, read_audit
from tests.support.cluster import SpiedDatabase
from tests.support.mirror_host import new_host
from tests.support.send_desk import STEPUP_SECONDS, SendDesk, open_send_desk


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> SendDesk:
    """A desk."""
    return await open_send_desk(db, owner)


def routes_ended(desk: SendDesk) -> list[int]:
    """The routes whose keepers were told to look."""
    return [hint.id for hint in desk.db.published if hint.kind is HintKind.ROUTE_ENDED]


@pytest.mark.rule(313)
async def test_texts_go_one_at_a_time(desk: SendDesk) -> None:
    """The oldest goes first, and the next only when what became of it is known."""
    one, two = await desk.put("one"), await desk.put("two")
    first = await desk.offer()
    assert first is not None
    assert (first.id, first.text, first.state) == (one.id, "one", SendState.OFFERED)
    assert (first.host_id, first.epoch, first.offers) == (desk.host_id, desk.epoch, 1)
    assert await desk.offer() is None
    await desk.settle(first, "unconfirmed")
    assert await desk.offer() is None
    await desk.resolve(first, arrived=True)
    second = await desk.offer()
    assert second is not None
    assert second.id == two.id
    await desk.settle(second, "pasted")
    assert await desk.offer() is None
    assert await desk.actions(two.id) == ["queued", "pasted"]


async def test_only_the_newest_socket_takes_a_text(desk: SendDesk) -> None:
    """An older socket, another owner's host and a retired one get nothing."""
    await desk.put()
    assert await desk.offer(epoch=desk.epoch - 1) is None
    assert await desk.offer(host_id=desk.host_id + 1) is None
    await desk.db.run(desk.owner, retire_host, RetireHost(name="box"))
    assert await desk.offer() is None
    assert [one.state for one in await desk.listed()] == [SendState.QUEUED]


async def test_the_sign_in_must_be_fresh_at_the_paste(desk: SendDesk) -> None:
    """A text is refused once its sign-in is older than the window; the next one goes instead."""
    at = await desk.ago(hours=12, seconds=-60)
    fresh_once, other = await desk.put("one", signed_in_at=at), await desk.put("two")
    desk.db.clock_offset += await desk.ago(hours=-1) - await desk.ago()
    offered = await desk.offer()
    assert offered is not None
    assert offered.id == other.id
    refused = await desk.get(fresh_once.id)
    assert refused.state is SendState.REFUSED
    assert "confirm that it is you" in (refused.why or "")
    assert await desk.actions(refused.id) == ["queued", "refused"]
    assert routes_ended(desk) == []


@pytest.mark.rule(337)
async def test_a_routed_text_needs_no_sign_in(desk: SendDesk) -> None:
    """However long it waits, it goes: what stands in for the sign-in is that its route waits."""
    routed = await desk.route()
    desk.db.clock_offset += await desk.ago(days=-7) - await desk.ago()
    offered = await desk.offer()
    assert offered is not None
    assert offered.id == routed.id


@pytest.mark.rule(337)
async def test_a_routed_text_goes_only_while_its_route_waits(desk: SendDesk) -> None:
    """It is refused at the paste when its route ended, even if nobody cancelled it."""
    routed, next_one = await desk.route("over"), await desk.route("next")
    assert routed.route_id is not None
    await desk.end_route(routed.route_id)
    offered = await desk.offer()
    assert offered is not None
    assert offered.id == next_one.id
    refused = await desk.get(routed.id)
    assert refused.why == "its route does not wait for an answer any more"
    (row,) = await read_audit(desk.db, desk.owner, "send.refused")
    assert row.data == {"send": routed.id, "route": routed.route_id, "why": refused.why}
    assert routes_ended(desk) == [routed.route_id]


@pytest.mark.rule(316, 338)
async def test_a_sign_out_everywhere_refuses_what_is_older(desk: SendDesk) -> None:
    """What was queued or routed before it is refused; what comes after it goes."""
    queued = await desk.put("queued", signed_in_at=await desk.ago(minutes=5))
    routed = await desk.route("routed")
    await desk.db.run(desk.owner, sign_out_everywhere, None)
    later = await desk.route("later")
    offered = await desk.offer()
    assert offered is not None
    assert offered.id == later.id
    for send in (queued, routed):
        assert (await desk.get(send.id)).state is SendState.REFUSED
    assert routes_ended(desk) == [routed.route_id]


async def test_a_sign_in_before_the_sign_out_is_no_good(desk: SendDesk) -> None:
    """A text that names an older sign-in is refused, whenever it was queued."""
    before = await desk.ago(minutes=5)
    await desk.db.run(desk.owner, sign_out_everywhere, None)
    stolen = await desk.put("stolen", signed_in_at=before)
    assert await desk.offer() is None
    assert (await desk.get(stolen.id)).state is SendState.REFUSED


@pytest.mark.rule(316, 338)
async def test_a_disabled_account_pastes_nothing(desk: SendDesk) -> None:
    """Every text that waits is refused, routed or not."""
    sends = [await desk.put(), await desk.route()]
    await disable(desk.db, desk.owner)
    assert await desk.offer() is None
    for send in sends:
        assert (await desk.get(send.id)).why == "the account is disabled"
    assert routes_ended(desk) == [sends[1].route_id]


async def test_a_paste_that_never_began_is_queued_again(desk: SendDesk) -> None:
    """It is the next one again, with no trace of the host but the count of its offers."""
    first = await desk.offered("first")
    await desk.put("second")
    await desk.settle(first, "not_begun", "the pane is busy")
    again = await desk.get(first.id)
    assert (again.state, again.host_id, again.why) == (
        SendState.QUEUED,
        None,
        "the pane is busy",
    )
    offered = await desk.offer()
    assert offered is not None
    assert (offered.id, offered.offers) == (first.id, 2)


async def test_a_word_of_an_older_socket_changes_nothing(desk: SendDesk) -> None:
    """Once a newer socket came, only a proof counts of what an older one says."""
    first = await desk.offered()
    await desk.cut_off()
    assert (await desk.get(first.id)).state is SendState.UNCONFIRMED
    await desk.settle(first, "not_begun")
    await desk.settle(first, "unconfirmed")
    assert (await desk.get(first.id)).state is SendState.UNCONFIRMED
    await desk.settle(first, "pasted")
    assert (await desk.get(first.id)).state is SendState.PASTED
    assert await desk.actions(first.id) == ["queued", "unconfirmed", "pasted"]


async def test_a_long_reason_is_cut(desk: SendDesk) -> None:
    """What the host says is kept up to 500 characters."""
    send = await desk.offered()
    await desk.settle(send, "unconfirmed", "é" * 600)
    assert (await desk.get(send.id)).why == "é" * 500


async def test_what_stands_against_a_text_refuses_it_by_the_clock(desk: SendDesk) -> None:
    """A sweep refuses in every session of the owner, and leaves what may still go."""
    stale = await desk.put(signed_in_at=await desk.ago(hours=13))
    fresh, routed = await desk.put(), await desk.route()
    assert routed.route_id is not None
    await desk.end_route(routed.route_id)
    refuse = RefuseStanding(stepup_window_seconds=STEPUP_SECONDS)
    assert await desk.db.run(desk.muster, pasting.refuse_standing, refuse) == 2
    assert await desk.db.run(desk.muster, pasting.refuse_standing, refuse) == 0
    states = [(await desk.get(send.id)).state for send in (stale, fresh, routed)]
    assert states == [SendState.REFUSED, SendState.QUEUED, SendState.REFUSED]
    assert routes_ended(desk) == [routed.route_id]


async def test_who_has_something_waiting(desk: SendDesk) -> None:
    """Of the sessions that appear, those with a text in the queue; not what is in hand."""
    ids = [desk.mirrored_id, desk.mirrored_id + 1]

    async def waiting() -> list[int]:
        async with desk.db.transaction(desk.muster) as tx:
            return await sends.find_waiting(tx, ids)

    assert await waiting() == []
    await desk.put()
    assert await waiting() == [desk.mirrored_id]
    await desk.offer()
    assert await waiting() == []


async def test_a_text_of_muster_may_be_longer(desk: SendDesk) -> None:
    """A routed message stands behind its fence: 96 KiB go into the queue, and not one byte more."""
    await desk.route("x" * 96 * 1024)
    enqueue = Enqueue(mirrored_id=desk.mirrored_id, text="x" * (96 * 1024 + 1))
    with pytest.raises(Invalid):
        await desk.db.run(desk.muster, sends.enqueue, enqueue)


async def test_another_host_shows_the_session(desk: SendDesk) -> None:
    """Whichever of the two takes the text, the other gets nothing while it is in hand."""
    other, _ = await new_host(desk.db, desk.owner, "laptop")
    await desk.put("one")
    await desk.put("two")
    assert await desk.offer(host_id=other, epoch=0) is not None
    assert await desk.offer() is None
