"""The actor of a session at a real socket: when it pastes, and what comes of it."""

from collections.abc import AsyncIterator

import pytest
import trio

from actors import Event
from muster.accounts.operations.sessions import sign_out_everywhere
from muster.attention import operations as attention
from muster.chief.operations.asks import AnswerAsk, answer_ask
from muster.mirror import session_actor
from muster.mirror.operations import queue
from muster.mirror.operations.hosts import retire_host
from muster.mirror.rules import RetireHost
from muster.mirror.send_rules import ARRIVED, NOT_ARRIVED, SendState
from muster.outcomes import Hint, HintKind
from muster.principals import Owner
from tests.support.builders import disable, read_audit
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mirror_host import ScriptedHost, find_mirrored, new_host, new_session
from tests.support.send_desk import STEPUP_SECONDS
from tests.support.server import Server, running_server
from tests.support.waiting import until


@pytest.fixture
async def server(cluster: Cluster, db: SpiedDatabase) -> AsyncIterator[Server]:
    """A server that pastes once a session was idle for a second."""
    async with running_server(db, cluster.app_url, MUSTER_SEND_QUEUE_IDLE="1s") as running:
        yield running


class Desk:
    """A server, an owner, and a session that a host of theirs shows."""

    def __init__(self, server: Server, db: SpiedDatabase, owner: Owner) -> None:
        self.server = server
        self.db = db
        self.owner = owner
        self.session = new_session()

    async def host(self, name: str = "box") -> ScriptedHost:
        """A new host, whose socket is not open yet."""
        _, token = await new_host(self.db, self.owner, name)
        return ScriptedHost(self.server.url, token)

    async def put(self, text: str = "go on") -> int:
        """The owner queues a text at the server; its id."""
        command = queue.QueueText(
            mirrored_id=await find_mirrored(self.db, self.owner, self.session),
            text=text,
            signed_in_at=None,
        )
        return (await self.server.node.db.run(self.owner, queue.queue_text, command)).id

    async def state(self, send_id: int) -> SendState:
        """Where a text stands."""
        mirrored_id = await find_mirrored(self.db, self.owner, self.session)
        for ended in (False, True):
            command = queue.ListQueue(
                mirrored_id=mirrored_id, stepup_window_seconds=STEPUP_SECONDS, ended=ended
            )
            for one in await self.db.run(self.owner, queue.list_queue, command):
                if one.id == send_id:
                    return one.state
        raise AssertionError(f"there is no text {send_id}")

    async def reaches(self, send_id: int, state: SendState) -> None:
        """Wait until a text stands there."""

        async def there() -> bool:
            return await self.state(send_id) is state

        await until(there)

    async def ask(self) -> attention.AskView:
        """What muster asks."""
        (ask,) = await self.db.run(self.owner, attention.list_asks, attention.ListAsks())
        return ask

    async def actors(self) -> set[str]:
        """The actors of sessions that work on a queue."""
        node = self.server.node
        place = node.owners.tree.supervisor(f"root/owners/owner:{self.owner.owner_id}")
        return {name for name in place.children() if name.startswith("session:")}


@pytest.fixture
async def desk(server: Server, db: SpiedDatabase, owner: Owner) -> Desk:
    """A desk."""
    return Desk(server, db, owner)


async def silent(host: ScriptedHost) -> None:
    """The host is sent no paste for longer than a session has to be idle."""
    with pytest.raises(trio.TooSlowError):
        await host.hear("paste", seconds=1.25)


async def proves(host: ScriptedHost, paste: dict[str, object]) -> None:
    """The host says that the paste arrived, and is told that this is written down."""
    seq = await host.say("paste.done", send_id=paste["send_id"], outcome="pasted", detail="")
    await host.until_acknowledged(seq)


@pytest.mark.rule(313)
async def test_a_session_is_idle_for_a_while_first(desk: Desk) -> None:
    """A text goes when the session was idle for MUSTER_SEND_QUEUE_IDLE, and not before."""
    async with await desk.host() as host:
        await host.hello()
        began = trio.current_time()
        await host.show(desk.session, idle_seconds=0.0)
        await desk.put()
        paste = await host.hear("paste")
        assert trio.current_time() - began >= 1.0
        await proves(host, paste)
        assert await desk.state(paste["send_id"]) is SendState.PASTED


@pytest.mark.rule(313)
@pytest.mark.parametrize("state", ["working", "waiting", "unknown"])
async def test_nothing_is_pasted_into_a_session_that_is_not_idle(desk: Desk, state: str) -> None:
    """It was idle and is busy again, waits for an answer, or does not tell: the text waits."""
    async with await desk.host() as host:
        await host.hello()
        await host.show(desk.session, idle_seconds=0.0)
        send = await desk.put()
        await host.show(desk.session, state=state)
        await silent(host)
        assert await desk.state(send) is SendState.QUEUED
        await host.show(desk.session)
        await proves(host, await host.hear("paste"))


async def test_nothing_is_pasted_beside_the_active_pane(desk: Desk) -> None:
    """A text waits while another pane of the window is active, and goes when its own is."""
    async with await desk.host() as host:
        await host.hello()
        await host.show(desk.session, active=False)
        await desk.put()
        await silent(host)
        await host.show(desk.session, active=True)
        await proves(host, await host.hear("paste"))


@pytest.mark.rule(338)
async def test_a_host_that_only_shows_is_sent_nothing(desk: Desk) -> None:
    """Without --interactive nothing is pasted; the same host with it is sent the text."""
    host = await desk.host()
    async with host:
        await host.hello(interactive=False)
        await host.show(desk.session)
        await desk.put()
        await silent(host)
    async with host:
        await host.hello()
        await host.show(desk.session)
        await proves(host, await host.hear("paste"))


async def test_a_text_waits_for_a_window(desk: Desk) -> None:
    """One that is queued while nothing shows the session goes when a host does again."""
    host = await desk.host()
    async with host:
        await host.hello()
        await host.show(desk.session)
        await host.show()
        await desk.put()
        await silent(host)
        await host.show(desk.session)
        await proves(host, await host.hear("paste"))


async def test_texts_go_one_after_the_other(desk: Desk) -> None:
    """In their order, the next only once the one before is proven; sessions are their own."""
    other = Desk(desk.server, desk.db, desk.owner)
    async with await desk.host() as host:
        await host.hello()
        await host.show(desk.session, other.session)
        for text in ("one", "two"):
            await desk.put(text)
        await other.put("three")
        first, beside = await host.hear("paste"), await host.hear("paste")
        assert {first["text"], beside["text"]} == {"one", "three"}
        await silent(host)
        by_text = {paste["text"]: paste for paste in (first, beside)}
        await proves(host, by_text["three"])
        await proves(host, by_text["one"])
        last = await host.hear("paste")
        assert last["text"] == "two"
        await proves(host, last)


@pytest.mark.parametrize("word", [ARRIVED, NOT_ARRIVED])
async def test_a_host_that_dies_with_a_text_leaves_a_question(desk: Desk, word: str) -> None:
    """The text is unconfirmed and holds the queue; the answer frees it, and the next one goes."""
    host = await desk.host()
    async with host:
        await host.hello()
        await host.show(desk.session)
        send = await desk.put("one")
        await desk.put("two")
        await host.hear("paste")
    await desk.reaches(send, SendState.UNCONFIRMED)
    async with host:
        await host.hello()
        await host.show(desk.session)
        await silent(host)
        answer = AnswerAsk(ask_id=(await desk.ask()).id, text=word)
        await desk.server.node.db.run(desk.owner, answer_ask, answer)
        paste = await host.hear("paste")
        assert paste["text"] == "two"
        await proves(host, paste)
    assert await desk.state(send) is (SendState.PASTED if word == ARRIVED else SendState.LOST)


async def test_a_paste_without_a_proof_is_asked_about(desk: Desk) -> None:
    """The host found no proof: it holds the queue, until the host finds one after all."""
    async with await desk.host() as host:
        await host.hello()
        await host.show(desk.session)
        send = await desk.put("one")
        await desk.put("two")
        paste = await host.hear("paste")
        told = {"send_id": paste["send_id"], "detail": "no proof in 20 s"}
        await host.until_acknowledged(await host.say("paste.done", outcome="unconfirmed", **told))
        assert await desk.state(send) is SendState.UNCONFIRMED
        assert (await desk.ask()).answers == (ARRIVED, NOT_ARRIVED)
        await silent(host)
        await proves(host, paste)
        assert await desk.state(send) is SendState.PASTED
        assert (await host.hear("paste"))["text"] == "two"


@pytest.mark.parametrize("comes", [True, False])
async def test_a_host_that_stays_and_is_silent(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, comes: bool
) -> None:
    """Its text is unconfirmed after a while; the queue goes on, on the same connection."""
    monkeypatch.setattr(session_actor, "ANSWER_SECONDS", 0.3)
    async with await desk.host() as host:
        await host.hello()
        await host.show(desk.session)
        send = await desk.put("one")
        await desk.put("two")
        paste = await host.hear("paste")
        await desk.reaches(send, SendState.UNCONFIRMED)
        if comes:
            await proves(host, paste)
        else:
            answer = AnswerAsk(ask_id=(await desk.ask()).id, text=NOT_ARRIVED)
            await desk.server.node.db.run(desk.owner, answer_ask, answer)
        assert (await host.hear("paste"))["text"] == "two"
        assert await desk.state(send) is (SendState.PASTED if comes else SendState.LOST)


async def test_two_hosts_show_one_session(desk: Desk) -> None:
    """One of them is sent the text: the one where it is idle; the other's end changes nothing."""
    async with await desk.host() as busy, await desk.host("laptop") as idle:
        await busy.hello()
        await idle.hello()
        await busy.show(desk.session, state="working")
        await idle.show(desk.session, state="working")
        await desk.put("one")
        await idle.show(desk.session)
        await proves(idle, await idle.hear("paste"))
        await silent(busy)
        await desk.put("two")
        paste = await idle.hear("paste")
        await busy.socket.aclose()
        await proves(idle, paste)


async def test_the_actor_leaves_with_the_last_window(desk: Desk) -> None:
    """Nothing works on an empty queue, or on one whose session no host shows; nor begins anew."""
    host = await desk.host()
    with desk.server.node.log.subscribe(size=1000) as reports:
        await leaves(desk, host)
        told = [one for one in await reports.drain() if "/session:" in str(one.path)]
    assert told
    # What is told to one that is just leaving begins it anew, once; an end that is none, for ever.
    assert len([one for one in told if one.event is Event.RESTARTED]) <= 2, told


async def leaves(desk: Desk, host: ScriptedHost) -> None:
    """The queue is empty, then its session is not shown any more, then its host is gone."""
    async with host:
        await host.hello()
        await host.show(desk.session)
        await desk.put()
        await proves(host, await host.hear("paste"))

        async def nobody() -> bool:
            return not await desk.actors()

        async def somebody() -> bool:
            return len(await desk.actors()) == 1

        await until(nobody)
        await host.show(desk.session, state="working")
        await desk.put()
        await until(somebody)
        await host.show(new_session())
        await until(nobody)
        await host.show(desk.session, state="working")
        await until(somebody)
    await until(nobody)


@pytest.mark.parametrize("host_too", [True, False])
async def test_an_actor_that_is_stopped_in_the_middle(desk: Desk, host_too: bool) -> None:
    """What it had in hand is unconfirmed at once, and still proven by its host's word."""
    host = await desk.host()
    async with host:
        await host.hello()
        await host.show(desk.session)
        send = await desk.put()
        paste = await host.hear("paste")
        (name,) = await desk.actors()
        path = f"root/owners/owner:{desk.owner.owner_id}"
        await desk.server.node.owners.tree.supervisor(path).stop_child(name)
        assert await desk.state(send) is SendState.UNCONFIRMED
        assert (await desk.ask()).asked_by is attention.AskedBy.MUSTER
        if not host_too:
            await proves(host, paste)
    if host_too:
        async with host:
            await host.hello()
            await proves(host, paste)
    assert await desk.state(send) is SendState.PASTED


async def test_hints_that_were_lost(desk: Desk) -> None:
    """A text whose hint nobody heard goes after the next look at everything."""
    async with await desk.host() as host:
        await host.hello()
        await host.show(desk.session)
        mirrored_id = await find_mirrored(desk.db, desk.owner, desk.session)
        command = queue.QueueText(mirrored_id=mirrored_id, text="go on", signed_in_at=None)
        await desk.db.run(desk.owner, queue.queue_text, command)
        hint = Hint(kind=HintKind.SEND_QUEUED, owner_id=desk.owner.owner_id, id=mirrored_id)
        assert hint in desk.db.published
        await silent(host)
        desk.server.node.fanout.resync()
        await proves(host, await host.hear("paste"))


async def test_a_retired_host_keeps_nothing(desk: Desk) -> None:
    """Its socket ends 4401, and what it had in hand is unconfirmed."""
    async with await desk.host() as host:
        await host.hello()
        await host.show(desk.session)
        send = await desk.put()
        await host.hear("paste")
        await desk.server.node.db.run(desk.owner, retire_host, RetireHost(name="box"))
        assert await host.close_code() == 4401
        await desk.reaches(send, SendState.UNCONFIRMED)


@pytest.mark.rule(316)
@pytest.mark.parametrize("end", ["sign-out", "disable"])
async def test_an_owner_who_signs_out_everywhere(desk: Desk, end: str) -> None:
    """What waits is refused at once, though its session is busy."""
    async with await desk.host() as host:
        await host.hello()
        await host.show(desk.session, state="working")
        send = await desk.put()
        if end == "sign-out":
            await desk.server.node.db.run(desk.owner, sign_out_everywhere, None)
        else:
            await disable(desk.server.node.db, desk.owner)

        async def refused() -> bool:
            return bool(await read_audit(desk.db, desk.owner, "send.refused"))

        await until(refused)
        assert await desk.state(send) is SendState.REFUSED
        if end == "disable":
            assert await host.close_code() == 4401


async def test_nothing_begins_while_the_server_stops(desk: Desk) -> None:
    """Once it drains no paste begins; the text waits for the next server."""
    async with await desk.host() as host:
        await host.hello()
        await host.show(desk.session, state="working")
        send = await desk.put()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.server.node.drain)
            assert await host.close_code() == 1001
        assert await desk.state(send) is SendState.QUEUED
