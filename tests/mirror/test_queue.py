"""The queue of a session, as its owner fills it, sees it and works on it."""

import pytest

from muster.accounts.operations.sessions import sign_out_everywhere
from muster.errors import Invalid, NotFound, Refused
from muster.mirror.operations import queue, sends
from muster.mirror.send_rules import QUEUED_MAX, TEXT_BYTES_MAX, CancelRouted, Send, SendState
from muster.outcomes import Hint, HintKind
from muster.principals import Owner
from tests.support.builders import disable, read_audit
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.send_desk import SendDesk, open_send_desk


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> SendDesk:
    """A desk."""
    return await open_send_desk(db, owner)


async def cancel(desk: SendDesk, send_id: int, owner: Owner | None = None) -> Send:
    """The owner, or another, takes a text out of the queue."""
    command = queue.CancelSend(send_id=send_id)
    return await desk.db.run(owner or desk.owner, queue.cancel_send, command)


def hinted(desk: SendDesk, kind: HintKind) -> list[int]:
    """The ids of the hints of this kind, oldest first."""
    return [hint.id for hint in desk.db.published if hint.kind is kind]


async def test_a_text_is_queued(desk: SendDesk) -> None:
    """It waits as its owner's, is on record without its words, and its session looks again."""
    send = await desk.put("go on")
    assert (send.state, send.queued_by, send.queued_via) == (SendState.QUEUED, "owner", "cli")
    (row,) = await read_audit(desk.db, desk.owner, "send.")
    assert (row.action, row.subject) == ("send.queued", f"mirrored:{desk.mirrored_id}")
    assert row.data == {"send": send.id}
    hint = Hint(kind=HintKind.SEND_QUEUED, owner_id=desk.owner.owner_id, id=desk.mirrored_id)
    assert hint in desk.db.published


@pytest.mark.parametrize("text", ["", " \n\t ", "é" * (TEXT_BYTES_MAX // 2) + "x"])
async def test_a_text_says_something_and_has_an_end(desk: SendDesk, text: str) -> None:
    """An empty, a blank and an overlong text are refused; one of 16 KiB is not."""
    await desk.put("x" * TEXT_BYTES_MAX)
    with pytest.raises(Invalid) as caught:
        await desk.put(text)
    assert caught.value.field == "text"


async def test_nobody_queues_for_another_owner(desk: SendDesk) -> None:
    """Another owner's session, and none at all, are both no such session."""
    stranger = await add_owner(desk.db)
    for owner, mirrored_id in ((stranger, desk.mirrored_id), (desk.owner, 2**53)):
        command = queue.QueueText(mirrored_id=mirrored_id, text="go on", signed_in_at=None)
        with pytest.raises(NotFound):
            await desk.db.run(owner, queue.queue_text, command)
    send = await desk.put()
    with pytest.raises(NotFound):
        await cancel(desk, send.id, stranger)


async def test_a_queue_has_an_end(desk: SendDesk) -> None:
    """The 51st text that waits is refused; what is in hand does not count."""
    for _ in range(QUEUED_MAX):
        await desk.put()
    with pytest.raises(Refused) as caught:
        await desk.put()
    assert caught.value.code == "queue_full"
    assert await desk.offer() is not None
    await desk.put()


@pytest.mark.rule(315)
async def test_a_queued_text_is_seen_and_cancelled(desk: SendDesk) -> None:
    """A routed text stands in the queue with its message, and can be cancelled there."""
    first, routed = await desk.put("first"), await desk.route("second")
    listed = await desk.listed()
    assert [one.id for one in listed] == [first.id, routed.id]
    assert [one.text for one in listed] == ["first", "second"]
    assert listed[0].message_id is None
    assert listed[1].message_id is not None
    assert all(one.may_cancel for one in listed)
    await cancel(desk, routed.id)
    assert [one.id for one in await desk.listed()] == [first.id]
    (ended,) = await desk.listed(ended=True)
    assert (ended.state, ended.why) == (SendState.CANCELLED, "cancelled by its owner")
    assert await desk.actions(routed.id) == ["cancelled"]


@pytest.mark.rule(316)
async def test_a_cancelled_text_ends_its_route(desk: SendDesk) -> None:
    """Whoever keeps routes hears of a cancelled routed text at once, and of no other."""
    await cancel(desk, (await desk.put()).id)
    assert hinted(desk, HintKind.ROUTE_ENDED) == []
    routed = await desk.route()
    await cancel(desk, routed.id)
    assert hinted(desk, HintKind.ROUTE_ENDED) == [routed.route_id]


async def test_a_cancel_twice_is_one(desk: SendDesk) -> None:
    """Cancelled once more, nothing changes; nothing is recorded again."""
    send = await desk.put()
    once = await cancel(desk, send.id)
    assert await cancel(desk, send.id) == once
    assert await desk.actions(send.id) == ["queued", "cancelled"]


async def test_what_a_host_has_cannot_be_cancelled(desk: SendDesk) -> None:
    """Offered, unconfirmed and pasted texts are refused with their state."""
    offered = await desk.offered()
    for outcome, state in (("unconfirmed", "offered"), ("pasted", "unconfirmed"), (None, "pasted")):
        with pytest.raises(Refused) as caught:
            await cancel(desk, offered.id)
        assert caught.value.code == "send_state"
        assert caught.value.facts == {"send_id": offered.id, "state": state}
        if outcome is not None:
            await desk.settle(offered, outcome)  # type: ignore[arg-type]


@pytest.mark.parametrize("send_id", [0, -1, 2**53, 2**70])
async def test_no_such_text(desk: SendDesk, send_id: int) -> None:
    """An id that is none is not found, whatever number it is."""
    with pytest.raises(NotFound):
        await cancel(desk, send_id)


async def test_the_queue_shows_what_is_in_hand(desk: SendDesk) -> None:
    """What a host has stands first with the host's name, and what is proven leaves the queue."""
    offered = await desk.offered("first")
    await desk.put("second")
    first, second = await desk.listed()
    assert (first.state, first.host, first.offers) == (SendState.OFFERED, "box", 1)
    assert (second.state, second.host) == (SendState.QUEUED, None)
    await desk.settle(offered, "pasted")
    assert [one.text for one in await desk.listed()] == ["second"]
    assert [one.text for one in await desk.listed(ended=True)] == ["first"]


async def test_what_would_be_refused_says_so(desk: SendDesk) -> None:
    """A stale sign-in, a route that is over and a sign-out show before the paste."""
    await desk.put("stale", signed_in_at=await desk.ago(hours=12, seconds=1))
    await desk.put("fresh", signed_in_at=await desk.ago(hours=11))
    routed = await desk.route("routed")
    assert routed.route_id is not None
    stale, fresh, waiting = await desk.listed()
    assert (stale.state, fresh.state) == (SendState.REFUSED, SendState.QUEUED)
    assert waiting.state is SendState.QUEUED
    assert "too old" in (stale.why or "")
    await desk.end_route(routed.route_id)
    assert (await desk.listed())[2].why == "its route does not wait for an answer any more"
    await desk.db.run(desk.owner, sign_out_everywhere, None)
    assert {one.why for one in await desk.listed()} == {
        "its owner signed out everywhere after it was queued"
    }
    await disable(desk.db, desk.owner)
    assert {one.why for one in await desk.listed()} == {"the account is disabled"}


async def test_a_route_takes_its_text_back(desk: SendDesk) -> None:
    """Only while it waits; the text of another route stays."""
    one, other = await desk.route("one"), await desk.route("other")

    async def take_back(send: Send) -> bool:
        assert send.route_id is not None
        command = CancelRouted(route_id=send.route_id, why="its route was answered")
        return await desk.db.run(desk.muster, sends.cancel_routed, command)

    assert await take_back(one)
    assert not await take_back(one)
    assert (await desk.get(one.id)).why == "its route was answered"
    offered = await desk.offer()
    assert offered is not None
    assert offered.id == other.id
    assert not await take_back(other)
    assert await desk.actions(one.id) == []
