"""A reply on a thread that a session started goes to that session, with no turn of the chief's."""

from collections.abc import AsyncIterator
from datetime import timedelta

import attrs
import pytest
import trio

from muster.messages.operations import ListMessages, Post, list_messages
from muster.messages.rules import Message
from muster.messages.rules import State as MessageState
from muster.mirror.operations import sends
from muster.mirror.send_rules import Enqueue
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.principals import Owner
from tests.support.agent_mail import RESUMING, ROUTING, MailDesk, mail_desk, review
from tests.support.builders import make_chief, make_plugin, new_agent, read_audit
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mirror_host import find_mirrored, new_session
from tests.support.server import ScriptedAgent

NOTES = Query("""
    select t.words from turns t join conversations c on c.id = t.conversation_id
    where t.owner_id = %(owner_id)s and t.state = 'noted' and c.plugin_id = %(plugin_id)s
    order by t.id
""")
ASKS = Query("select count(*) from asks where owner_id = %(owner_id)s")


@attrs.frozen(kw_only=True)
class Note:
    """A note in a conversation."""

    words: str


@pytest.fixture
async def desk(cluster: Cluster, db: SpiedDatabase, owner: Owner) -> AsyncIterator[MailDesk]:
    """The owner's desk."""
    async with mail_desk(db, owner, cluster, MUSTER_SEND_QUEUE_IDLE="1s") as opened:
        yield opened


@pytest.mark.rule(349, 350, 351)
async def test_a_reply_on_a_bound_thread_is_pasted_into_its_session(desk: MailDesk) -> None:
    """One transaction: handed to the chief without a turn, routed, noted, queued; then pasted."""
    chief = await make_chief(desk.db, desk.owner)
    session = new_session()
    async with desk.host(session) as host:
        await desk.bind(session)
        message_id = await desk.receive(thread="t-1", body="The roses are red.")
        message = await desk.message(message_id)
        assert (message.state, message.agent_id) == (MessageState.DELIVERED, chief.agent_id)
        paste = await host.hear("paste")
        assert paste["claude_session"] == session
        assert "| The roses are red." in paste["text"]
        assert "muster" in paste["text"].splitlines()[0]
    (route,) = await desk.routes()
    assert (route.message_id, route.routed_by, route.state) == (message_id, "muster", "routed")
    assert route.routed_via == f"thread t-1 started by {session}"
    assert route.deadline_at - route.created_at == timedelta(minutes=30)
    (delivered,) = await read_audit(desk.db, desk.owner, "plugin.delivered")
    assert delivered.data["routed"] is True
    (routed,) = await read_audit(desk.db, desk.owner, "session_route.routed")
    assert (routed.actor, routed.data["routed_via"]) == ("muster", route.routed_via)
    async with desk.db.transaction(desk.owner) as tx:
        (note,) = await tx.all(NOTES, Note, plugin_id=desk.plugin.plugin_id)
    assert "| The roses are red." in note.words
    assert str(route.id) in note.words


@pytest.mark.rule(353)
async def test_a_routed_message_is_no_ask_and_a_repeat_routes_nothing(desk: MailDesk) -> None:
    """The same external id again is answered from what is stored."""
    await make_chief(desk.db, desk.owner)
    session = new_session()
    async with desk.host(session, new_session()) as host:
        await desk.bind(session)
        first = await desk.receive(thread="t-1")
        paste = await host.hear("paste")
        seq = await host.say("paste.done", send_id=paste["send_id"], outcome="pasted", detail="")
        await host.until_acknowledged(seq)
        assert await desk.receive(thread="t-1", body="Another text.") == first
    assert len(await desk.routes()) == 1
    await desk.shift(timedelta(minutes=16))
    await desk.sweep_unrouted()
    async with desk.db.transaction(desk.owner) as tx:
        assert await tx.scalar(ASKS) == 0


@pytest.mark.rule(349, 352)
@pytest.mark.parametrize(
    "fields", [{"thread": "t-2"}, {"thread": None}, {"no_reply": True}], ids=str
)
async def test_what_is_not_the_sessions_is_ordinary(
    desk: MailDesk, fields: dict[str, object]
) -> None:
    """Another thread, none, and mail that nobody can answer."""
    await make_chief(desk.db, desk.owner)
    session = new_session()
    async with desk.host(session):
        await desk.bind(session)
        message_id = await desk.receive(**({"thread": "t-1"} | fields))  # type: ignore[arg-type]
    assert await desk.is_ordinary(message_id)
    assert await desk.routes() == []


@pytest.mark.rule(352)
async def test_a_window_whose_queue_is_full_fails_the_route_and_hands_it_back(
    desk: MailDesk,
) -> None:
    """The chief has the message, and is owed the hand-back."""
    await make_chief(desk.db, desk.owner)
    session = new_session()
    async with desk.host(session) as host:
        await desk.bind(session)
        await host.show(session, state="working")
        mirrored = await find_mirrored(desk.db, desk.owner, session)
        for number in range(50):
            enqueue = Enqueue(mirrored_id=mirrored, text=f"text {number}")
            await desk.db.run(desk.owner, sends.enqueue, enqueue)
        message_id = await desk.receive(thread="t-1")
        assert (await desk.message(message_id)).state is MessageState.DELIVERED
        (route,) = await desk.routes()
    assert (route.state, route.why) == ("failed", "50 texts wait for this session already.")
    assert route.handback in {"owed", "delivered"}


@pytest.mark.rule(349, 352)
async def test_a_session_that_is_lost_meanwhile_leaves_an_ordinary_message(
    desk: MailDesk,
) -> None:
    """Whatever its host lists at that moment, a post goes well and is routed whole, or not."""
    await make_chief(desk.db, desk.owner)
    session = new_session()
    async with desk.host(session) as host:
        await desk.bind(session)

        async def flicker() -> None:
            while True:
                await host.show()
                await host.show(session, state="working")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(flicker)
            for number in range(40):
                post = Post(external_id=f"m{number}", body="Red.", thread="t-1")
                await desk.server.node.receive(desk.plugin, post)
            nursery.cancel_scope.cancel()
    stored = await desk.db.run(desk.owner, list_messages, ListMessages(limit=100))
    assert len(stored) == 40
    routed = {route.message_id for route in await desk.routes()}
    for message in stored:
        is_delivered = message.state is MessageState.DELIVERED
        assert is_delivered == (message.id in routed)


@pytest.mark.rule(349, 352)
async def test_without_a_chief_or_an_online_window_it_is_ordinary(desk: MailDesk) -> None:
    """A session whose window is gone, or whose pane is not the active one, is no target."""
    session = new_session()
    async with desk.host(session) as host:
        await desk.bind(session)
        without = await desk.receive(ROUTING, thread="t-1")
        assert await desk.is_ordinary(without)
        await make_chief(desk.db, desk.owner)
        await host.show(new_session())
        gone = await desk.receive(ROUTING, thread="t-1", external_id="m2")
        assert await desk.is_ordinary(gone)
        await host.show(session, state="unknown")
        silent = await desk.receive(RESUMING, thread="t-1", external_id="m3")
        assert await desk.is_ordinary(silent)
    assert await desk.routes() == []


@pytest.mark.rule(349)
async def test_another_plugin_and_another_owner_are_never_routed(desk: MailDesk) -> None:
    """Only the plugin named agent-mail is, whatever thread a message carries."""
    await make_chief(desk.db, desk.owner)
    session = new_session()
    other = await make_plugin(desk.db, desk.owner, "discord")
    async with desk.host(session):
        await desk.bind(session)
        assert await desk.is_ordinary(await desk.receive(plugin=other, thread="t-1"))
    assert await desk.routes() == []


@pytest.mark.rule(348, 349)
async def test_while_routing_is_off_nothing_is_routed(desk: MailDesk) -> None:
    """The setting of the server that receives decides."""
    await make_chief(desk.db, desk.owner)
    session = new_session()
    off = attrs.evolve(RESUMING, routing=False)
    async with desk.host(session):
        await desk.bind(session)
        assert await desk.is_ordinary(await desk.receive(off, thread="t-1"))
        off = attrs.evolve(off, answer_request=answers_nothing)
        assert await desk.is_ordinary(
            await desk.receive(off, thread="t-1", external_id="m2", body=review())
        )


async def answers_nothing(_tx: Transaction, _message: Message) -> bool:
    """Fleet reports are on, and this is no request for one."""
    return False


@pytest.mark.rule(350)
async def test_a_connected_chief_gets_no_turn(desk: MailDesk) -> None:
    """The message stands in its conversation; the next message is its next turn."""
    _, token = await new_agent(desk.db, desk.owner)
    session = new_session()
    async with desk.host(session), ScriptedAgent(desk.server.url, token) as chief:
        await chief.next_frame("welcome")
        await desk.bind(session)
        await desk.receive(thread="t-1", body="The roses are red.")
        other = await desk.receive(external_id="m2", body="Something else.")
        turn = await chief.next_frame("turn")
        assert f"[message_id {other}]" in turn["text"]


@pytest.mark.rule(349)
async def test_the_plugins_own_door_routes_with_the_servers_settings(
    desk: MailDesk, db: SpiedDatabase, owner: Owner
) -> None:
    """A post over HTTP is answered 202 queued, as any, and is the session's."""
    await make_chief(db, owner)
    session = new_session()
    async with desk.host(session):
        await desk.bind(session)
        token = await desk.new_token()
        async with desk.server.client(token) as client:
            body = {"external_id": "m1", "body": "Red.", "sender": "a/bc", "thread": "t-1"}
            answer = await client.post("/plugin/v1/messages", json=body)
            assert (answer.status_code, answer.json()["status"]) == (202, "queued")
            again = await client.post("/plugin/v1/messages", json=body)
            assert (again.status_code, again.json()["status"]) == (200, "delivered")
    assert len(await desk.routes()) == 1


@pytest.mark.rule(385, 389, 391)
async def test_a_resumed_window_takes_the_message(desk: MailDesk) -> None:
    """Once the window is listed, idle or not, the thread's ordinary route is made into it."""
    await make_chief(desk.db, desk.owner)
    session = new_session()
    async with desk.host(session) as host:
        await desk.bind(session)
        await host.show()
        first = await desk.receive(thread="t-1")
        second = await desk.receive(thread="t-1", external_id="m2")
        frame = await host.hear("resume")
        await host.say(
            "resume.done", resume_id=frame["resume_id"], outcome="started", detail="", window="@1"
        )
        await desk.until_resume("waiting")
        assert await desk.routes() == []
        await host.show(session, state="unknown")
        await host.show(session, state="working")
        await desk.until_resume("routed", 0)
        await desk.until_resume("routed", 1)
    routes = await desk.routes()
    assert sorted(route.message_id for route in routes) == [first, second]
    assert {route.routed_via for route in routes} == {f"thread t-1 started by {session}"}
    assert (await desk.message(first)).state is MessageState.DELIVERED
    assert "mail_resume.routed" in await desk.told("mail_resume.")
