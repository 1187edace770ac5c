"""What goes wrong on the way to a device, or with the server that sends."""

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial

import attrs
import pytest

from muster.principals import Muster, Node, Owner
from muster.push import operations as push
from muster.push.dial import open_dialler
from muster.push.operations import Passed, Plan, SettlePush, Taken, TakeNext
from muster.push.rules.deliveries import LEASE, Answered, State, Unanswered
from muster.push.rules.devices import AddWebhook
from muster.push.sinks import Outgoing, make_request
from tests.support.barrier import collide
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.push_desk import PushDesk, push_desk
from tests.support.push_service import Answer, Step, push_service
from tests.support.server import Server, running_server


@pytest.fixture
async def server(db: SpiedDatabase, cluster: Cluster) -> AsyncIterator[Server]:
    """A server that pushes."""
    async with running_server(db, cluster.app_url) as running:
        yield running


@pytest.fixture
async def desk(server: Server, owner: Owner) -> AsyncIterator[PushDesk]:
    """A desk at that server."""
    async with push_desk(server.node.db, owner) as opened:
        yield opened


@pytest.fixture
async def alone(db: SpiedDatabase, owner: Owner) -> AsyncIterator[PushDesk]:
    """A desk that no server knows of: the test itself does each step."""
    async with push_desk(db, owner) as opened:
        yield opened


async def take(desk: PushDesk, device_id: int) -> Taken:
    """Plan and take the next push, as a server does."""
    muster = Muster(owner_id=desk.owner.owner_id)
    await desk.db.run(muster, push.plan, Plan())
    taken = await desk.db.run(muster, push.take_next, TakeNext(device_id=device_id))
    assert isinstance(taken, Taken)
    return taken


@pytest.mark.parametrize("status", [404, 410])
async def test_a_browser_that_is_gone_is_removed(desk: PushDesk, status: int) -> None:
    """404 and 410 of a push service remove the device, and its pushes end."""
    await desk.subscribe()
    desk.service.script.append(Answer(status=status))
    await desk.draft()
    await desk.reaches("dropped")
    assert await desk.devices() == []


async def test_a_wrong_address_of_a_webhook_stays(desk: PushDesk) -> None:
    """404 of a webhook or ntfy says that the address is wrong: the device stays, with the error."""
    await desk.subscribe_webhook()
    desk.service.script.append(Answer(status=404))
    await desk.draft()
    await desk.reaches("failed")
    (device,) = await desk.devices()
    assert device.last_error == "it answered 404"


async def test_retry_after_is_kept(desk: PushDesk, db: SpiedDatabase) -> None:
    """A device that asks for a minute's rest gets it, whatever else is to be told meanwhile."""
    await desk.subscribe_ntfy()
    desk.service.script.append(Answer(status=429, headers={"Retry-After": "60"}))
    first = await desk.draft()
    await desk.service.received(1)
    second = await desk.draft()
    await desk.reaches("waiting", "waiting")
    muster = Muster(owner_id=desk.owner.owner_id)
    planned = await desk.db.run(muster, push.plan, Plan())
    (due,) = planned.due
    assert 50 < (due.due_at - planned.now).total_seconds() <= 60
    assert len(desk.service.requests) == 1
    db.clock_offset += timedelta(seconds=75)
    await desk.db.run(muster, push.plan, Plan())
    await desk.ask()  # and its hint
    requests = await desk.service.received(4)
    tags = {request.json()["sequence_id"] for request in requests[1:]}
    assert {f"draft-{first.id}", f"draft-{second.id}"} <= tags


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (Answer(status=503), "it answered 503"),
        (Step.RESET, "the connection broke before it answered"),
    ],
)
async def test_what_may_soon_work_is_tried_again(
    desk: PushDesk, monkeypatch: pytest.MonkeyPatch, step: Answer | Step, error: str
) -> None:
    """A 5xx and a lost answer are repeated under the same tag, so that one note is shown."""
    monkeypatch.setattr("muster.push.rules.deliveries.RETRY_FIRST_SECONDS", 0.05)
    await desk.subscribe()
    desk.service.script.append(step)
    await desk.draft()
    first, second = await desk.notes(2)
    assert first == second
    await desk.reaches("sent")
    (device,) = await desk.devices()
    assert device.last_error == error
    assert not device.failing


async def test_a_redirect_is_not_followed(desk: PushDesk) -> None:
    """A redirect is an error of the device, and nothing is sent where it points."""
    await desk.subscribe_webhook()
    async with push_service() as elsewhere:
        desk.service.script.append(Answer(status=307, headers={"Location": f"{elsewhere.url}/"}))
        await desk.draft()
        await desk.reaches("failed")
        assert elsewhere.requests == []
    (row,) = await desk.rows()
    assert row.error == "it answered 307, a redirect, which muster does not follow"


async def test_a_slow_device_holds_up_no_other(desk: PushDesk) -> None:
    """While one device does not answer, the owner's other devices are told."""
    await desk.subscribe()
    desk.service.script.append(Step.HANG)
    await desk.draft()
    await desk.service.received(1)
    async with push_service() as other:
        command = AddWebhook(name="Other", url=f"{other.url}/")
        await desk.db.run(desk.owner, push.add_webhook, command)
        await desk.draft()
        await other.received(1)
    assert len(desk.service.requests) == 1


async def test_an_answer_costs_little_time_and_memory() -> None:
    """A long answer is not read, and one that never comes is given up."""
    async with push_service() as service, open_dialler(answer_seconds=0.3) as dialler:
        ask = Outgoing(method="POST", url=f"{service.url}/hook", headers={}, body=b"{}")
        for size in (100, 10_000_000):
            service.script.append(Answer(status=200, body=b"x" * size))
            assert await dialler.send(ask) == Answered(status=200)
        service.script.append(Step.HANG)
        assert isinstance(await dialler.send(ask), Unanswered)
        nobody = attrs.evolve(ask, url="http://127.0.0.1:1/")
        assert await dialler.send(nobody) == Unanswered(reason="nobody could be reached there")


async def test_two_servers_push_once(
    server: Server, desk: PushDesk, db: SpiedDatabase, cluster: Cluster
) -> None:
    """Of two servers that hear of the same drafts at once, each push is sent by one."""
    async with running_server(db, cluster.app_url) as second:
        for node in (server.node, second.node):
            await node.heartbeat.beat()
        await desk.subscribe()
        drafts = [await desk.draft() for _ in range(5)]
        for node in (server.node, second.node):
            node.fanout.resync()
        await desk.reaches(*["sent"] * 5)
        notes = await desk.notes(5)
        assert {note["tag"] for note in notes} == {f"draft-{draft.id}" for draft in drafts}


async def test_one_of_many_takes_it(alone: PushDesk) -> None:
    """Ten that plan and take at the same moment write one row, and one of them may send."""
    device_id = await alone.subscribe()
    await alone.draft()
    muster = Muster(owner_id=alone.owner.owner_id)
    plans = [(muster, partial(push.plan, command=Plan()))] * 6
    await collide(alone.db, *plans)
    assert await alone.states() == ["waiting"]
    takes = [(muster, partial(push.take_next, command=TakeNext(device_id=device_id)))] * 6
    taken = [one for one in await collide(alone.db, *takes) if isinstance(one, Taken)]
    assert len(taken) == 1
    assert (await alone.rows())[0].attempts == 1


async def test_a_kill_between_sending_and_writing_repeats_under_the_same_tag(
    alone: PushDesk, db: SpiedDatabase
) -> None:
    """What was sent and not written is sent again once its lease is over, as the same note.

    The device shows it once: the repeat has the tag and the topic of the first.
    """
    device_id = await alone.subscribe()
    await alone.draft()
    key = await alone.db.run(Node(), push.push_key, None)
    async with open_dialler() as dialler:
        killed = await take(alone, device_id)
        await dialler.send(make_request(killed, key, "http://localhost"))
        muster = Muster(owner_id=alone.owner.owner_id)
        command = TakeNext(device_id=device_id)
        assert await alone.db.run(muster, push.take_next, command) is None
        db.clock_offset += LEASE
        again = await take(alone, device_id)
        await dialler.send(make_request(attrs.evolve(again, now=killed.now), key, "http://x"))
    first, second = await alone.notes(2)
    assert first == second
    topics = [request.headers["topic"] for request in alone.service.requests]
    assert topics[0] == topics[1]
    late = SettlePush(taken=killed, answer=Answered(status=201), chance=0.5)
    assert await alone.db.run(muster, push.settle, late) is None
    done = SettlePush(taken=again, answer=Answered(status=201), chance=0.5)
    settled = await alone.db.run(muster, push.settle, done)
    assert settled is not None
    assert settled.state is State.SENT


async def test_what_was_decided_while_it_was_sent_is_cleared(alone: PushDesk) -> None:
    """A decision during the send is followed by a clear, and not before the push has gone."""
    device_id = await alone.subscribe()
    draft = await alone.draft()
    taken = await take(alone, device_id)
    await alone.reject(draft.id)
    muster = Muster(owner_id=alone.owner.owner_id)
    await alone.db.run(muster, push.plan, Plan())
    assert await alone.states() == ["clearing"]
    command = TakeNext(device_id=device_id)
    assert await alone.db.run(muster, push.take_next, command) is None
    done = SettlePush(taken=taken, answer=Answered(status=201), chance=0.5)
    await alone.db.run(muster, push.settle, done)
    clear = await alone.db.run(muster, push.take_next, command)
    assert isinstance(clear, Taken)
    assert clear.clears


async def test_a_device_that_asked_for_rest_is_taken_nothing_for(alone: PushDesk) -> None:
    """Until the time that a device named, no push to it is taken, whatever it is about."""
    device_id = await alone.subscribe()
    await alone.draft()
    taken = await take(alone, device_id)
    muster = Muster(owner_id=alone.owner.owner_id)
    busy = SettlePush(
        taken=taken, answer=Answered(status=503, retry_after_seconds=60), chance=0.5
    )
    await alone.db.run(muster, push.settle, busy)
    await alone.ask()
    await alone.db.run(muster, push.plan, Plan())
    command = TakeNext(device_id=device_id)
    assert await alone.db.run(muster, push.take_next, command) is None


async def test_what_nobody_wants_to_be_told_of_any_more_is_dropped(alone: PushDesk) -> None:
    """A kind that is switched off drops what waits of it, also after the plan was made."""
    device_id = await alone.subscribe()
    await alone.draft()
    muster = Muster(owner_id=alone.owner.owner_id)
    await alone.db.run(muster, push.plan, Plan())
    off = push.SetKinds(device_id=device_id, kinds=frozenset({"ask"}))
    await alone.db.run(alone.owner, push.set_kinds, off)
    command = TakeNext(device_id=device_id)
    assert await alone.db.run(muster, push.take_next, command) == Passed()
    assert await alone.states() == ["dropped"]


async def test_a_push_service_that_takes_no_silence_is_not_sent_any(alone: PushDesk) -> None:
    """Apple's push service is sent no push that shows nothing, for it ends the subscription."""
    url = "https://web.push.apple.com/abc"
    browser = attrs.evolve(alone.browser, endpoint=url)
    device_id = await alone.db.run(alone.owner, push.add_browser, browser.subscription)
    draft = await alone.draft()
    taken = await take(alone, device_id)
    muster = Muster(owner_id=alone.owner.owner_id)
    done = SettlePush(taken=taken, answer=Answered(status=201), chance=0.5)
    await alone.db.run(muster, push.settle, done)
    await alone.reject(draft.id)
    await alone.db.run(muster, push.plan, Plan())
    (row,) = await alone.rows()
    assert (row.state, row.was_sent) == ("dropped", True)
