"""A review gate's mail goes to the session that authored the pull request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
import trio

from muster.messages.operations import lock_message
from muster.messages.rules import State as MessageState
from muster.mirror.send_rules import QUEUED_MAX
from muster.principals import Owner
from tests.support.agent_mail import GATE, ROUTING, MailDesk, mail_desk, review
from tests.support.barrier import somebody_waits
from tests.support.builders import make_chief, make_plugin
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mirror_host import ScriptedHost, new_session
from tests.support.waiting import until

SUPERSEDED = "superseded by a newer review round"


@pytest.fixture
async def desk(cluster: Cluster, db: SpiedDatabase, owner: Owner) -> AsyncIterator[MailDesk]:
    """The owner's desk, with a chief."""
    async with mail_desk(db, owner, cluster, MUSTER_SEND_QUEUE_IDLE="1s") as opened:
        await make_chief(db, owner)
        yield opened


@pytest.mark.rule(309, 359, 360, 361)
async def test_a_review_goes_to_its_author_for_four_hours(desk: MailDesk) -> None:
    """Whatever the case of the repository's name; the route says how it was chosen."""
    session, other = new_session(), new_session()
    async with desk.host(session, other) as host:
        await desk.author(other)
        await desk.author(session)
        body = review(repo="EXAMPLE/garden")
        message_id = await desk.receive(ROUTING, body=body)
        assert (await host.hear("paste"))["claude_session"] == session
    (route,) = await desk.routes()
    assert route.routed_via == f"pr EXAMPLE/garden#12 authored by {session}"
    assert route.deadline_at - route.created_at == timedelta(hours=4)
    assert (await desk.message(message_id)).state is MessageState.DELIVERED


@pytest.mark.rule(354, 358, 359, 364)
@pytest.mark.parametrize(
    "fields",
    [
        {"sender": "example/other"},
        {"sender": "Example/gate"},
        {"sender_verified": False},
        {"no_reply": True},
        {"body": "No block at all."},
        {"body": review() + "\nBye."},
        {"body": review(pr=13)},
    ],
    ids=["other", "case", "unverified", "no reply", "no block", "not the end", "no author"],
)
async def test_what_is_no_review_of_a_known_author_is_ordinary(
    desk: MailDesk, fields: dict[str, object]
) -> None:
    """Only a listed gate's verified mail, read by its last block."""
    session = new_session()
    async with desk.host(session):
        await desk.author(session)
        message_id = await desk.receive(**({"body": review()} | fields))  # type: ignore[arg-type]
    assert await desk.is_ordinary(message_id)
    assert await desk.routes() == []


@pytest.mark.rule(358)
async def test_another_plugins_review_is_ordinary(desk: MailDesk) -> None:
    """Only the plugin named agent-mail brings reviews."""
    session = new_session()
    other = await make_plugin(desk.db, desk.owner, "mail")
    async with desk.host(session):
        await desk.author(session)
        assert await desk.is_ordinary(await desk.receive(plugin=other, body=review()))


@pytest.mark.rule(362)
async def test_a_newer_round_supersedes_those_that_are_still_queued(desk: MailDesk) -> None:
    """The older route fails without a hand-back, and its paste is cancelled; a pasted one stays."""
    session = new_session()
    async with desk.host(session) as host:
        await desk.author(session)
        await desk.author(session, pr=13)
        await desk.receive(ROUTING, body=review(), external_id="m1")
        paste = await host.hear("paste")
        await host.show(session, state="working")
        seq = await host.say("paste.done", send_id=paste["send_id"], outcome="pasted", detail="")
        await host.until_acknowledged(seq)
        await desk.receive(ROUTING, body=review(pr=13), external_id="other")
        await desk.receive(ROUTING, body=review(), external_id="m2")
        await desk.receive(ROUTING, body=review(repo="Example/Garden"), external_id="m3")
    pasted, other, older, newest = await desk.routes()
    assert [route.state for route in (pasted, other, newest)] == ["routed"] * 3
    assert (older.state, older.why, older.handback) == ("failed", SUPERSEDED, "none")
    assert await desk.sends() == ["pasted", "queued", "cancelled", "queued"]


@pytest.mark.rule(362)
async def test_a_round_that_waited_for_its_session_never_takes_a_newer_ones_place(
    desk: MailDesk,
) -> None:
    """It is superseded itself, without a hand-back, and the newer one stays in the queue."""
    session = new_session()
    async with desk.host(session) as host:
        await desk.author(session)
        await host.show()
        older_id = await desk.receive(body=review(), external_id="m1")
        frame = await host.hear("resume")
        await host.show(session, state="working")  # its owner opened it again
        newer_id = await desk.receive(body=review(repo="Example/Garden"), external_id="m2")
        await host.say(
            "resume.done", resume_id=frame["resume_id"], outcome="started", detail="", window="@1"
        )
        await desk.until_resume("routed")
    newer, older = await desk.routes()
    assert (newer.message_id, newer.state) == (newer_id, "routed")
    assert older.message_id == older_id
    assert (older.state, older.why, older.handback) == ("failed", SUPERSEDED, "none")
    assert await desk.sends() == ["queued", "cancelled"]


@pytest.mark.rule(362)
async def test_a_round_whose_text_a_host_takes_meanwhile_is_left_alone(desk: MailDesk) -> None:
    """It was queued when the newer round looked, and in hand when that one came to end it."""
    session = new_session()
    async with working(desk, session) as host, trio.open_nursery() as nursery:
        await desk.author(session)
        older_id = await desk.receive(ROUTING, body=review(), external_id="m1")
        async with desk.db.transaction(desk.muster) as tx:
            await lock_message(tx, older_id)
            nursery.start_soon(receive_newer, desk)
            await until(lambda: somebody_waits(desk.db))
            await host.show(session)
            await host.hear("paste")
    assert [route.state for route in await desk.routes()] == ["routed", "routed"]


async def receive_newer(desk: MailDesk) -> None:
    """A newer round comes."""
    await desk.receive(ROUTING, body=review(), external_id="m2")


@pytest.mark.rule(362)
async def test_a_superseded_round_makes_room_in_a_full_queue(desk: MailDesk) -> None:
    """The newer round takes its place, instead of being refused for it."""
    session = new_session()
    async with working(desk, session):
        await desk.author(session)
        await desk.author(session, pr=13)
        await desk.receive(ROUTING, body=review(), external_id="m1")
        for number in range(QUEUED_MAX - 1):
            await desk.receive(ROUTING, thread="t-1", external_id=f"t{number}")
        await desk.receive(ROUTING, body=review(), external_id="m2")
    states = [route.state for route in await desk.routes()]
    assert states == ["failed"] + ["routed"] * QUEUED_MAX


@pytest.mark.rule(362)
async def test_only_rounds_for_the_same_session_are_superseded(desk: MailDesk) -> None:
    """Not those of the session that was the author before, and no replies on one thread."""
    session, other = new_session(), new_session()
    async with working(desk, session, other):
        await desk.author(other)
        await desk.receive(ROUTING, body=review(), external_id="m1")
        await desk.author(session)
        await desk.receive(ROUTING, body=review(), external_id="m2")
        for number in range(2):
            await desk.receive(ROUTING, thread="t-1", external_id=f"t{number}")
    assert [route.state for route in await desk.routes()] == ["routed"] * 4


@pytest.mark.rule(349, 360, 384)
async def test_a_review_on_a_sessions_thread_is_that_sessions(desk: MailDesk) -> None:
    """The author gets it where the thread's session can take none, resumed if need be."""
    session, author = new_session(), new_session()
    async with working(desk, session, author) as host:
        await desk.author(author)
        await desk.receive(thread="t-1", body=review(), external_id="m1")
        await host.show(author, state="working")
        await desk.receive(thread="t-1", body=review(), external_id="m2")
        await host.show(session, state="unknown")
        await desk.receive(thread="t-1", body=review(), external_id="m3")
        assert (await host.hear("resume"))["claude_session"] == author
    assert [route.routed_via for route in await desk.routes()] == [
        f"thread t-1 started by {session}",
        f"pr example/garden#12 authored by {author}",
    ]


@asynccontextmanager
async def working(desk: MailDesk, *sessions: str) -> AsyncIterator[ScriptedHost]:
    """A host whose sessions work, so that every text for them waits; the first has a thread."""
    async with desk.host(*sessions) as host:
        await host.show(*sessions, state="working")
        await desk.bind(sessions[0])
        yield host


@pytest.mark.rule(384, 389)
async def test_a_resumed_author_gets_the_review(desk: MailDesk) -> None:
    """By its recorded host; for four hours, like any review."""
    session = new_session()
    async with desk.host(session) as host:
        await desk.author(session)
        await host.show()
        await desk.receive(body=review())
        frame = await host.hear("resume")
        await host.say(
            "resume.done", resume_id=frame["resume_id"], outcome="started", detail="", window="@1"
        )
        await host.show(session, state="working")
        row = await desk.until_resume("routed")
        assert row.cause == "review"
    (route,) = await desk.routes()
    assert route.deadline_at - route.created_at == timedelta(hours=4)
    assert GATE in (await desk.message(route.message_id)).sender  # type: ignore[operator]
