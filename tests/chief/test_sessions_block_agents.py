"""Agents that may be on a message already, several sessions, and where the block stands."""

from datetime import datetime

import attrs
import pytest

from muster.chief.deliveries import fenced
from muster.chief.operations import Handover
from muster.chief.sessions_block import HEADING, Candidate, find_candidates
from muster.mirror.matching import Title
from muster.mirror.operations.focus import note_focus, note_task_focus
from muster.mirror.rules import NoteFocus, NoteTaskFocus
from muster.pg.query import Query
from muster.principals import Agent, Owner
from muster.routes.authors import Author, Did
from tests.support.agent_mail import mail_desk
from tests.support.builders import make_agent, make_message, new_agent, read_now
from tests.support.cluster import Cluster, SpiedDatabase, add_owner
from tests.support.fleet_desk import focus
from tests.support.mirror_host import new_session
from tests.support.route_desk import NODE, RouteDesk, open_route_desk
from tests.support.send_desk import show, window_of
from tests.support.server import ScriptedAgent

CONNECT = Query("""
    update agents set epoch = epoch + 1, node = %(node)s, connected_at = %(now)s
    where owner_id = %(owner_id)s and id = %(agent_id)s
""")
FOCUS = Query("""
    select title, source from focus_titles where owner_id = %(owner_id)s and agent_id is not null
""")
LOOK = Query("select 1")
NOW = datetime.fromisoformat("2026-01-02T10:00:00+00:00")
BODY = "The pump of node-7k leaks."


@attrs.frozen(kw_only=True)
class Focus:
    """A focus title as it is stored."""

    title: str
    source: str


@pytest.fixture
async def desk(db: SpiedDatabase, owner: Owner) -> RouteDesk:
    """A desk with one live session and a chief."""
    return await open_route_desk(db, owner)


async def works_on(desk: RouteDesk, agent: Agent, title: str, *, connected: bool = True) -> None:
    """An agent began a turn on a task."""
    if connected:
        async with desk.db.transaction(desk.owner) as tx:
            await tx.execute(CONNECT, agent_id=agent.agent_id, node=NODE)
    command = NoteTaskFocus(agent_id=agent.agent_id, title=title)
    await desk.db.run(desk.muster, note_task_focus, command)


async def candidates(desk: RouteDesk, body: str = BODY) -> tuple[Candidate, ...]:
    """Who may be on a new message."""
    message = await make_message(desk.db, desk.plugin, body=body)
    async with desk.db.transaction(desk.muster) as tx:
        await tx.scalar(LOOK)  # the time is known then
        return await find_candidates(tx, message)


@pytest.mark.rule(281)
async def test_a_running_agent_may_be_on_it_and_the_chief_never_is(desk: RouteDesk) -> None:
    """By its task's title; one that is not connected is not running."""
    helper, away = [await make_agent(desk.db, desk.owner, name) for name in ("helper", "away")]
    await works_on(desk, helper, "Mend the pump of node-7k")
    await works_on(desk, away, "Mend the pump of node-7k", connected=False)
    await works_on(desk, desk.chief, "Mend the pump of node-7k")
    (one,) = await candidates(desk)
    assert (one.subject, one.name, one.host) == ("agent:helper", "helper", "")
    assert [title.title for title in one.titles] == ["Mend the pump of node-7k"]


@pytest.mark.rule(281)
async def test_what_an_agent_is_about_is_its_tasks_title(desk: RouteDesk) -> None:
    """On one line, at most 120 characters; white space alone is nothing."""
    helper = await make_agent(desk.db, desk.owner)
    await works_on(desk, helper, f"Mend\n the {'pump ' * 40}")
    await works_on(desk, helper, " \n ")
    async with desk.db.transaction(desk.owner) as tx:
        stored = await tx.find(FOCUS, Focus)
    assert stored is not None
    assert stored.source == "task"
    assert stored.title == f"Mend the {'pump ' * 40}"[:120].strip()


@pytest.mark.rule(286)
async def test_three_sessions_at_most_those_that_share_most_first(desk: RouteDesk) -> None:
    """Of five that match; each by its own titles."""
    sessions = [new_session() for _ in range(5)]
    windows = [window_of(session, number) for number, session in enumerate(sessions, 1)]
    await show(desk.db, desk.owner, desk.queue.host_id, *windows)
    now = await read_now(desk.db)
    for number, session in enumerate(sessions):
        command = NoteFocus(
            host_id=desk.queue.host_id,
            epoch=desk.queue.epoch,
            claude_session=session,
            title="the pump leaks: node-7k" if number == 3 else "the pump of node-7k",
            source="summary",
            cwd=None,
            at=now,
        )
        assert await desk.db.run(desk.muster, note_focus, command)
    found = await candidates(desk)
    assert len(found) == 3
    assert found[0].subject == f"mirror:{sessions[3]}"


@pytest.mark.rule(281)
async def test_somebody_elses_sessions_are_not_told(desk: RouteDesk, db: SpiedDatabase) -> None:
    """The look-up sees the owner's rows alone."""
    other = await add_owner(db)
    theirs = await open_route_desk(db, other)
    await works_on(theirs, await make_agent(db, other), "Mend the pump of node-7k")
    assert len(await candidates(theirs)) == 1
    assert await candidates(desk) == ()


@pytest.mark.rule(288, 363)
async def test_the_turn_ends_with_the_author_where_there_is_one(desk: RouteDesk) -> None:
    """The block of sessions follows the message, the author's comes last, each with its nonce."""
    message = await make_message(desk.db, desk.plugin, body=BODY)
    title = Title(whose=("session", 1), title="the pump of node-7k", at=NOW)
    text = fenced(
        Handover(
            message=message,
            epoch=1,
            turn_id=1,
            conversation_id=1,
            words_wait=False,
            plugin_label="Mail",
            scope="mail",
            author=Author(
                claude_session=new_session(),
                mirrored_id=None,
                host_id=None,
                host=None,
                kind=Did.CREATED,
                repo="example/garden",
                pr=12,
                head_ref=None,
                seen_at=NOW,
                title=None,
            ),
            sessions=(Candidate(subject="mirror:1", name="x", host="box", titles=(title,)),),
        )
    )
    end = text.index(">>>")
    assert end < text.index(HEADING) < text.index("Session that authored this pull request")
    nonces = [line.split()[-1] for line in text.splitlines() if line.startswith("<<<")]
    assert len(nonces) == len(set(nonces)) == 3


@pytest.mark.rule(281, 286)
@pytest.mark.parametrize("on", ["1", "0"])
async def test_the_setting_decides_at_a_running_server(
    cluster: Cluster, db: SpiedDatabase, owner: Owner, on: str
) -> None:
    """Each delivery is looked up, unless MUSTER_SESSION_FOCUS is 0."""
    session = new_session()
    _, token = await new_agent(db, owner)
    settings = {"MUSTER_SESSION_FOCUS": on}
    async with mail_desk(db, owner, cluster, **settings) as mail, mail.host(session) as host:
        await focus(host, session, "Mend the pump of node-7k", at=await read_now(db))
        async with ScriptedAgent(mail.server.url, token) as chief:
            await chief.next_frame("welcome")
            await mail.receive(body=BODY)
            text = (await chief.next_frame("turn"))["text"]
    assert (f"{HEADING}\n" in text) is (on == "1")
    assert (f"| session: mirror:{session}" in text) is (on == "1")
