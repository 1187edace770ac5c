"""Verbs of one queue that truly meet: their transactions are all open before any begins."""

from collections.abc import Sequence
from functools import partial

import pytest

from muster.chief.operations.asks import AnswerAsk, answer_ask
from muster.errors import MusterError, Refused
from muster.mirror.operations import pasting, queue, sends, unconfirmed
from muster.mirror.operations.hosts import accept_host
from muster.mirror.operations.windows import store_windows
from muster.mirror.rules import StoreWindows
from muster.mirror.send_rules import (
    ARRIVED,
    NOT_ARRIVED,
    QUEUED_MAX,
    CancelRouted,
    LapseOffer,
    Late,
    QueueText,
    Recover,
    RefuseStanding,
    ResolveSend,
    Send,
    SendState,
)
from muster.principals import Owner
from tests.support.barrier import collide
from tests.support.cluster import SpiedDatabase
from tests.support.mirror_host import new_host, new_session
from tests.support.send_desk import (
    STEPUP_SECONDS,
    SendDesk,
    accepting,
    open_send_desk,
    show,
    window_of,
)

ROUNDS = 6
Operation = tuple[object, object]


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> SendDesk:
    """A desk."""
    return await open_send_desk(db, owner)


async def meet(desk: SendDesk, *operations: Operation) -> list[object]:
    """Let them collide; no outcome may be anything but a result or a plain refusal."""
    outcomes = await collide(desk.db, *operations)  # type: ignore[arg-type]
    for outcome in outcomes:
        assert not isinstance(outcome, MusterError) or isinstance(outcome, Refused), outcome
    return list(outcomes)


def taken(outcomes: Sequence[object]) -> list[Send]:
    """The texts that offers handed out."""
    return [one for one in outcomes if isinstance(one, Send)]


def offer(desk: SendDesk, host_id: int, epoch: int) -> Operation:
    """A session's actor takes the next text for a host."""
    command = pasting.Offer(
        mirrored_id=desk.mirrored_id,
        host_id=host_id,
        epoch=epoch,
        stepup_window_seconds=STEPUP_SECONDS,
    )
    return desk.muster, partial(pasting.offer, command=command)


def cancel(desk: SendDesk, send: Send) -> Operation:
    """The owner takes a text out of the queue."""
    return desk.owner, partial(queue.cancel_send, command=queue.CancelSend(send_id=send.id))


def resolve(desk: SendDesk, send: Send, *, arrived: bool) -> Operation:
    """The owner says on the page what became of a text."""
    command = ResolveSend(send_id=send.id, arrived=arrived)
    return desk.owner, partial(unconfirmed.resolve_send, command=command)


def prove(desk: SendDesk, send: Send) -> Operation:
    """The host proves a text late."""
    command = Late(host_id=desk.host_id, send_id=send.id, proven=True)
    return desk.muster, partial(unconfirmed.settle_late, command=command)


def lapse(desk: SendDesk, send: Send) -> Operation:
    """A sweep finds a text too long in a host's hand."""
    return desk.muster, partial(unconfirmed.lapse_offer, command=LapseOffer(send_id=send.id))


@pytest.mark.rule(313)
async def test_two_hosts_take_one_text(desk: SendDesk) -> None:
    """Of five offers to each of two hosts that show one session exactly one hands a text out."""
    other, _ = await new_host(desk.db, desk.owner, "laptop")
    epoch = (await desk.db.run(desk.muster, accept_host, accepting(other))).epoch
    for _ in range(ROUNDS):
        first, second = await desk.put("one"), await desk.put("two")
        offers = [offer(desk, desk.host_id, desk.epoch), offer(desk, other, epoch)] * 5
        (send,) = taken(await meet(desk, *offers))
        assert send.id == first.id
        await desk.settle(send, "pasted")
        (send,) = taken(await meet(desk, *offers))
        assert send.id == second.id
        await desk.settle(send, "pasted")


async def test_an_offer_against_a_cancel(desk: SendDesk) -> None:
    """A text is either handed out or cancelled, never both."""
    for _ in range(ROUNDS):
        send = await desk.put()
        sides = [offer(desk, desk.host_id, desk.epoch), cancel(desk, send)] * 4
        handed = [one for one in taken(await meet(desk, *sides)) if one.state is SendState.OFFERED]
        state = (await desk.get(send.id)).state
        assert state is (SendState.OFFERED if handed else SendState.CANCELLED)
        assert len(handed) <= 1
        if handed:
            await desk.settle(handed[0], "pasted")


async def test_an_offer_against_the_end_of_its_route(desk: SendDesk) -> None:
    """A route that takes its text back learns whether it is on its way already."""
    for _ in range(ROUNDS):
        send = await desk.route()
        assert send.route_id is not None
        take_back = CancelRouted(route_id=send.route_id, why="answered")
        back, *offers = await meet(
            desk,
            (desk.muster, partial(sends.cancel_routed, command=take_back)),
            *[offer(desk, desk.host_id, desk.epoch)] * 3,
        )
        handed = taken(offers)
        assert (back, len(handed)) in ((True, 0), (False, 1))
        if handed:
            await desk.settle(handed[0], "pasted")


async def test_a_result_against_a_cut_off(desk: SendDesk) -> None:
    """However they meet, a proven text is pasted, and one that is not is asked about once."""
    for outcome in ("pasted", "unconfirmed") * ROUNDS:
        send = await desk.offered()
        assert send.epoch is not None
        settle = pasting.Settle(
            send_id=send.id, host_id=desk.host_id, epoch=send.epoch, outcome=outcome, detail=""
        )
        recover = Recover(host_id=desk.host_id, epoch=send.epoch + 1)
        await meet(
            desk,
            *[(desk.muster, partial(pasting.settle, command=settle))] * 2,
            *[(desk.muster, partial(unconfirmed.recover, command=recover))] * 2,
            lapse(desk, send),
        )
        now = await desk.get(send.id)
        assert now.state.value == outcome
        assert len(await desk.asks()) == (outcome == "unconfirmed")
        assert (await desk.actions(send.id)).count("unconfirmed") <= 1
        if outcome == "unconfirmed":
            await desk.resolve(send, arrived=True)


async def test_a_text_in_doubt_ends_once(desk: SendDesk) -> None:
    """The page, the ask and a late proof at once: one of them ends it, and nothing deadlocks."""
    for _ in range(ROUNDS):
        send = await desk.doubted()
        assert send.ask_id is not None
        answers = [AnswerAsk(ask_id=send.ask_id, text=word) for word in (ARRIVED, NOT_ARRIVED)]
        await meet(
            desk,
            *[(desk.owner, partial(answer_ask, command=command)) for command in answers],
            resolve(desk, send, arrived=True),
            resolve(desk, send, arrived=False),
            prove(desk, send),
            prove(desk, send),
            offer(desk, desk.host_id, desk.epoch),
        )
        actions = await desk.actions(send.id)
        assert actions in (
            ["queued", "unconfirmed", "pasted"],
            ["queued", "unconfirmed", "lost"],
        )
        assert (await desk.get(send.id)).state.value == actions[-1]
        assert not await desk.asks()


async def test_the_last_place_in_a_queue(desk: SendDesk) -> None:
    """Ten texts for one last place: one waits, and nine are refused."""
    for _ in range(QUEUED_MAX - 1):
        await desk.put()
    command = QueueText(mirrored_id=desk.mirrored_id, text="go on", signed_in_at=None)
    outcomes = await meet(desk, *[(desk.owner, partial(queue.queue_text, command=command))] * 10)
    assert len(taken(outcomes)) == 1
    assert len(await desk.listed()) == QUEUED_MAX


async def test_sockets_of_one_host(desk: SendDesk) -> None:
    """Five at once get five epochs, and what was in hand is asked about once."""
    send = await desk.offered()

    async def again(tx: object, command: object) -> int:
        host = await accept_host(tx, command)  # type: ignore[arg-type]
        recover = Recover(host_id=host.id, epoch=host.epoch)
        await unconfirmed.recover(tx, recover)  # type: ignore[arg-type]
        return host.epoch

    accept = (desk.muster, partial(again, command=accepting(desk.host_id)))
    epochs = await meet(desk, *[accept] * 5)
    assert sorted(epochs) == [2, 3, 4, 5, 6]  # type: ignore[type-var]
    assert await desk.actions(send.id) == ["queued", "unconfirmed"]
    assert len(await desk.asks()) == 1


async def test_lists_of_two_hosts(desk: SendDesk) -> None:
    """Two hosts that show the same sessions, in orders of their own, both end with their lists."""
    other, _ = await new_host(desk.db, desk.owner, "laptop")
    await desk.db.run(desk.muster, accept_host, accepting(other))
    sessions = [new_session() for _ in range(20)]
    for number in range(ROUNDS):
        shown = [window_of(session, place) for place, session in enumerate(sessions, 1)]
        turned = [window_of(session, place) for place, session in enumerate(sessions[::-1], 1)]
        half = sessions[:10] if number % 2 else sessions
        del shown[len(half) :]
        both = [
            StoreWindows(host_id=host_id, epoch=1, windows=windows)
            for host_id, windows in ((desk.host_id, shown), (other, turned))
        ]
        outcomes = await meet(
            desk, *[(desk.muster, partial(store_windows, command=command)) for command in both]
        )
        assert [len(one) for one in outcomes] == [len(half), 20]  # type: ignore[arg-type]
    ids = await show(desk.db, desk.owner, other, *turned)
    assert ids is not None
    assert len(set(ids.values())) == 20


async def test_everything_at_once(desk: SendDesk) -> None:
    """Queueing, offers, cancels, ends, doubts and sweeps at once end in plain answers alone."""
    refuse = RefuseStanding(stepup_window_seconds=STEPUP_SECONDS)
    command = QueueText(mirrored_id=desk.mirrored_id, text="go on", signed_in_at=None)
    for _ in range(ROUNDS):
        held = await desk.doubted()
        waiting, routed = await desk.put(), await desk.route()
        assert routed.route_id is not None
        await desk.end_route(routed.route_id)
        await meet(
            desk,
            prove(desk, held),
            resolve(desk, held, arrived=False),
            cancel(desk, waiting),
            cancel(desk, routed),
            offer(desk, desk.host_id, desk.epoch),
            offer(desk, desk.host_id, desk.epoch),
            lapse(desk, waiting),
            (desk.muster, partial(pasting.refuse_standing, command=refuse)),
            (desk.owner, partial(queue.queue_text, command=command)),
        )
        in_hand = [one for one in await desk.listed() if one.state is SendState.OFFERED]
        assert len(in_hand) <= 1
        for one in in_hand:
            await desk.settle(await desk.get(one.id), "pasted")
        for one in await desk.listed():
            await desk.db.run(desk.owner, queue.cancel_send, queue.CancelSend(send_id=one.id))
