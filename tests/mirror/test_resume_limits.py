"""How often sessions are resumed, and how many windows a host starts."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from muster.pg.query import Query
from muster.principals import Owner
from tests.support.agent_mail import MailDesk, mail_desk
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mirror_host import new_session

STARTS = Query("""
    with made as (
        insert into messages (owner_id, plugin_id, external_id, body, no_reply, sender_verified,
                              human_conversation, created_at, state, attempts)
        values (%(owner_id)s, %(plugin_id)s, gen_random_uuid()::text, 'x', false, true, false,
                %(now)s, 'queued', 0)
        returning id
    )
    insert into mail_resumes (owner_id, message_id, claude_session, cause, routed_via, state,
                              created_at)
    select %(owner_id)s, id, %(session)s, 'thread', 'thread', 'wanted', %(now)s from made
""")
STARTED = Query("""
    update mail_resumes set state = 'refused', why = 'over', ended_at = %(now)s, asked_at = %(now)s,
           host_id = %(host_id)s, epoch = 1, started_at = %(now)s
    where owner_id = %(owner_id)s and claude_session = %(session)s and state = 'wanted'
""")


@pytest.fixture
async def desk(cluster: Cluster, db: SpiedDatabase, owner: Owner) -> AsyncIterator[MailDesk]:
    """The owner's desk."""
    async with mail_desk(db, owner, cluster) as opened:
        yield opened


async def were_started(desk: MailDesk, session: str, host_id: int, count: int) -> None:
    """Windows of the session were started on a host just now."""
    for _ in range(count):
        async with desk.db.transaction(desk.owner) as tx:
            await tx.execute(STARTS, plugin_id=desk.plugin.plugin_id, session=session)
            await tx.execute(STARTED, host_id=host_id, session=session)


@pytest.mark.rule(385)
async def test_a_session_is_resumed_twice_an_hour_and_a_host_starts_six(desk: MailDesk) -> None:
    """At the caps the message is the chief's; an hour later there is room again."""
    session = await desk.ended()
    async with desk.host(name="one"):
        host_id = desk.server.node.links.of_owner(desk.owner.owner_id)[0].host.host_id
        await were_started(desk, session, host_id, 2)
        assert await desk.is_ordinary(await desk.receive(thread="t-1"))
        other = await desk.ended("t-2")
        await were_started(desk, new_session(), host_id, 4)
        before = len(await desk.resumes())
        assert await desk.is_ordinary(await desk.receive(thread="t-2", external_id="m2"))
        assert len(await desk.resumes()) == before
        await desk.shift(timedelta(minutes=59))
        for number, thread in enumerate(("t-1", "t-2"), 3):
            message_id = await desk.receive(thread=thread, external_id=f"m{number}")
            assert await desk.is_ordinary(message_id)
        await desk.shift(timedelta(minutes=1, seconds=1))
        await desk.receive(thread="t-2", external_id="m5")
        assert (await desk.resumes())[-1].claude_session == other


@pytest.mark.rule(385)
async def test_a_host_that_is_asked_may_start_a_window(desk: MailDesk) -> None:
    """It counts as one of its six while it does not answer."""
    await desk.ended("t-1")
    await desk.ended("t-2")
    async with desk.host(name="one") as host:
        host_id = desk.server.node.links.of_owner(desk.owner.owner_id)[0].host.host_id
        await were_started(desk, new_session(), host_id, 5)
        await desk.receive(thread="t-1")
        await host.hear("resume")
        assert await desk.is_ordinary(await desk.receive(thread="t-2", external_id="m2"))
