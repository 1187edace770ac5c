"""Texts of which nobody knows whether they arrived: they hold the queue, and muster asks."""

from datetime import timedelta

import pytest

from muster.attention import operations as attention
from muster.errors import Invalid, NotFound, Refused
from muster.mirror.operations import unconfirmed
from muster.mirror.send_rules import (
    ARRIVED,
    NOT_ARRIVED,
    OFFERED_FOR,
    AskAbout,
    LapseOffer,
    Late,
    ResolveSend,
    SendState,
)
from muster.outcomes import HintKind
from muster.principals import Owner
from tests.support.builders import make_agent, read_audit
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.mirror_host import new_host
from tests.support.send_desk import SendDesk, open_send_desk


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> SendDesk:
    """A desk."""
    return await open_send_desk(db, owner)


async def prove(desk: SendDesk, send_id: int, *, host_id: int | None = None) -> bool:
    """A host tells late that a text was pasted."""
    late = Late(host_id=host_id or desk.host_id, send_id=send_id, proven=True)
    return await desk.db.run(desk.muster, unconfirmed.settle_late, late)


async def fill_asks(desk: SendDesk) -> list[int]:
    """Ask as many questions as an owner may have open."""
    agent = await make_agent(desk.db, desk.owner)
    asked: list[int] = []
    while True:
        command = attention.AskOwner(asked_by=attention.AskedBy.AGENT, question="What?")
        try:
            one = await desk.db.run(agent, attention.ask, command)
        except Refused:
            return asked
        assert one is not None
        asked.append(one.id)


async def test_a_cut_off_host_leaves_a_question(desk: SendDesk) -> None:
    """What it had in hand is unconfirmed and asked about, and the queue stands still."""
    send = await desk.offered("please go on")
    await desk.put("next")
    await desk.cut_off()
    shown, waiting = await desk.listed()
    assert (shown.state, waiting.state) == (SendState.UNCONFIRMED, SendState.QUEUED)
    assert await desk.offer() is None
    (ask,) = await desk.asks()
    assert (ask.asked_by, ask.id) == (attention.AskedBy.MUSTER, shown.ask_id)
    assert ask.answers == (ARRIVED, NOT_ARRIVED)
    assert ask.question.startswith(unconfirmed.OPENING)
    assert "Session: main:1 · box" in ask.question
    assert ask.question.endswith("please go on")
    (row,) = await read_audit(desk.db, desk.owner, "send.unconfirmed")
    assert row.data["send"] == send.id
    assert row.data["recovered"] is True


async def test_nothing_in_hand_raises_no_question(desk: SendDesk) -> None:
    """A host that comes again with nothing in hand changes nothing."""
    await desk.put()
    await desk.cut_off()
    assert [one.state for one in await desk.listed()] == [SendState.QUEUED]
    assert not await desk.asks()


async def test_a_long_text_is_asked_about_in_part(desk: SendDesk) -> None:
    """The question shows its first 600 characters."""
    await desk.doubted("é" * 700)
    (ask,) = await desk.asks()
    assert ask.question.endswith("\n\n" + "é" * 600 + "…")


@pytest.mark.parametrize(
    ("word", "state"), [(ARRIVED, SendState.PASTED), (NOT_ARRIVED, SendState.LOST)]
)
async def test_the_answer_frees_the_queue(desk: SendDesk, word: str, state: SendState) -> None:
    """The owner's word at the ask says what became of it, and the next text goes."""
    send = await desk.doubted()
    await desk.put("next")
    assert send.ask_id is not None
    with pytest.raises(Invalid):
        await desk.answer(send.ask_id, "perhaps")
    await desk.answer(send.ask_id, word)
    assert (await desk.get(send.id)).state is state
    assert await desk.actions(send.id) == ["queued", "unconfirmed", state.value]
    await desk.answer(send.ask_id, word)
    offered = await desk.offer()
    assert offered is not None
    assert offered.text == "next"


@pytest.mark.parametrize(("arrived", "state"), [(True, SendState.PASTED), (False, SendState.LOST)])
async def test_the_page_ends_the_ask(desk: SendDesk, arrived: bool, state: SendState) -> None:
    """Resolved on the session's page, the ask is answered with it; a second word is refused."""
    send = await desk.doubted()
    resolved = await desk.resolve(send, arrived=arrived)
    assert resolved.state is state
    assert not await desk.asks()
    (ask,) = await desk.asks(ended=True)
    assert ask.answer == (ARRIVED if arrived else NOT_ARRIVED)
    assert await desk.resolve(send, arrived=arrived) == resolved
    with pytest.raises(Refused) as caught:
        await desk.resolve(send, arrived=not arrived)
    assert caught.value.code == "send_state"
    assert await desk.actions(send.id) == ["queued", "unconfirmed", state.value]


async def test_only_what_is_in_doubt_is_resolved(desk: SendDesk) -> None:
    """A text that waits or is in hand is refused; another owner's is none."""
    send = await desk.put()
    with pytest.raises(Refused):
        await desk.resolve(send, arrived=True)
    await desk.offer()
    with pytest.raises(Refused):
        await desk.resolve(send, arrived=False)
    stranger = await add_owner(desk.db)
    command = ResolveSend(send_id=send.id, arrived=True)
    with pytest.raises(NotFound):
        await desk.db.run(stranger, unconfirmed.resolve_send, command)


async def test_a_late_proof_proves(desk: SendDesk) -> None:
    """The host that had it says on a later connection that it was pasted: the ask is withdrawn."""
    send = await desk.offered()
    await desk.cut_off()
    assert await prove(desk, send.id)
    assert (await desk.get(send.id)).state is SendState.PASTED
    assert not await desk.asks()
    (ask,) = await desk.asks(ended=True)
    assert ask.state is attention.State.CANCELLED
    assert not await prove(desk, send.id)
    assert await desk.actions(send.id) == ["queued", "unconfirmed", "pasted"]


async def test_nobody_else_proves(desk: SendDesk) -> None:
    """Another host's word, a late word that proves nothing, and one after the owner's are void."""
    other, _ = await new_host(desk.db, desk.owner, "laptop")
    send = await desk.doubted()
    assert not await prove(desk, send.id, host_id=other)
    unproven = Late(host_id=desk.host_id, send_id=send.id, proven=False)
    assert not await desk.db.run(desk.muster, unconfirmed.settle_late, unproven)
    assert (await desk.get(send.id)).state is SendState.UNCONFIRMED
    await desk.resolve(send, arrived=False)
    assert not await prove(desk, send.id)
    assert (await desk.get(send.id)).state is SendState.LOST
    waiting = await desk.put()
    assert not await prove(desk, waiting.id)
    assert (await desk.get(waiting.id)).state is SendState.QUEUED


async def test_an_offer_lapses(desk: SendDesk) -> None:
    """A text of which its host says nothing for two minutes is unconfirmed, and not before."""
    send = await desk.offered()
    lapse = LapseOffer(send_id=send.id)
    desk.db.clock_offset += OFFERED_FOR - timedelta(seconds=5)
    await desk.db.run(desk.muster, unconfirmed.lapse_offer, lapse)
    assert (await desk.get(send.id)).state is SendState.OFFERED
    desk.db.clock_offset += timedelta(seconds=5)
    for _ in range(2):
        await desk.db.run(desk.muster, unconfirmed.lapse_offer, lapse)
    assert (await desk.get(send.id)).state is SendState.UNCONFIRMED
    assert await desk.actions(send.id) == ["queued", "unconfirmed"]
    assert len(await desk.asks()) == 1


async def test_there_is_room_for_the_question_later(desk: SendDesk) -> None:
    """While the owner has all the asks there may be, none is raised; one is once there is room."""
    asked = await fill_asks(desk)
    send = await desk.doubted()
    assert send.ask_id is None
    about = AskAbout(send_id=send.id)
    assert not await desk.db.run(desk.muster, unconfirmed.ask_about, about)
    await desk.db.run(desk.owner, attention.dismiss, attention.Dismiss(ask_id=asked[0]))
    for _ in range(2):
        assert await desk.db.run(desk.muster, unconfirmed.ask_about, about)
    (ask,) = [one for one in await desk.asks() if one.asked_by is attention.AskedBy.MUSTER]
    assert (await desk.get(send.id)).ask_id == ask.id


async def test_an_ask_that_is_gone_asks_no_second_time(desk: SendDesk) -> None:
    """Dismissed, the text stays in doubt: the session's page still takes the owner's word."""
    send = await desk.doubted()
    assert send.ask_id is not None
    await desk.db.run(desk.owner, attention.dismiss, attention.Dismiss(ask_id=send.ask_id))
    assert await desk.db.run(desk.muster, unconfirmed.ask_about, AskAbout(send_id=send.id))
    assert not await desk.asks()
    assert await desk.offer() is None
    assert (await desk.resolve(send, arrived=False)).state is SendState.LOST


async def test_a_lost_routed_text_ends_its_route(desk: SendDesk) -> None:
    """What did not arrive cannot be answered; what arrived leaves its route as it is."""
    for arrived in (True, False):
        routed = await desk.route()
        offered = await desk.offer()
        assert offered is not None
        await desk.settle(offered, "unconfirmed")
        await desk.resolve(offered, arrived=arrived)
        ended = [hint.id for hint in desk.db.published if hint.kind is HintKind.ROUTE_ENDED]
        assert ended == ([] if arrived else [routed.route_id])
