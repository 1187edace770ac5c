"""The steps of a resume, one at a time: nobody but the test takes them."""

from collections.abc import AsyncIterator
from datetime import timedelta

import attrs
import pytest

from muster.chief.operations.receiving import Receive, receive
from muster.chief.self_routing.resumed import Advance, AskHost, advance
from muster.messages.rules import Post
from muster.principals import Owner
from tests.support.agent_mail import GATE, RESUMING, MailDesk, ResumeRow, mail_desk
from tests.support.builders import make_chief
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mirror_host import new_session


@attrs.frozen(kw_only=True)
class Steps:
    """A desk with a wanted resume of which its server was told nothing."""

    desk: MailDesk
    session: str
    message_id: int

    async def step(self, *, node: str | None = None, is_off: bool = False) -> AskHost | None:
        """Take the step that is due, as the server would or as another node."""
        row = await self.row()
        node = node or self.desk.server.node.node_id
        command = Advance(resume_id=row.id, node=node, is_off=is_off)
        return await self.desk.db.run(self.desk.muster, advance, command)

    async def row(self) -> ResumeRow:
        """The resume as it stands."""
        (row,) = await self.desk.resumes()
        return row


@pytest.fixture
async def steps(cluster: Cluster, db: SpiedDatabase, owner: Owner) -> AsyncIterator[Steps]:
    """A host that offers resumes is connected, and the session has no window."""
    await make_chief(db, owner)
    session = new_session()
    async with mail_desk(db, owner, cluster) as desk, desk.host(session) as host:
        await desk.bind(session)
        await host.show()
        post = Post(external_id="m1", body="Red.", sender=GATE, sender_verified=True, thread="t-1")
        # Past the server, whose own look comes half a minute later.
        command = Receive(post=post, settings=RESUMING)
        posted = await db.run(desk.plugin, receive, command)
        yield Steps(desk=desk, session=session, message_id=posted.id)


@pytest.mark.rule(384, 388)
async def test_the_node_that_holds_the_socket_asks_once(steps: Steps) -> None:
    """Another node asks nobody, and the same host is not asked again."""
    assert await steps.step(node="another") is None
    assert (await steps.row()).state == "wanted"
    asked = await steps.step()
    assert asked is not None
    assert asked.claude_session == steps.session
    assert await steps.step() is None
    assert (await steps.row()).state == "asking"


@pytest.mark.rule(382, 391)
async def test_the_kill_switch_ends_what_was_not_asked_yet(steps: Steps) -> None:
    """A server that is started with it gives the message to the chief."""
    assert await steps.step(is_off=True) is None
    row = await steps.row()
    assert (row.state, row.why) == ("refused", "Resumes are switched off.")
    assert await steps.desk.is_ordinary(steps.message_id)


@pytest.mark.rule(385, 391)
async def test_a_host_that_does_not_answer_may_have_started_a_window(steps: Steps) -> None:
    """After a minute its window is waited for, and counts; after 90 s more the chief has it."""
    await steps.step()
    await steps.desk.shift(timedelta(seconds=59))
    await steps.step()
    assert (await steps.row()).state == "asking"
    await steps.desk.shift(timedelta(seconds=2))
    await steps.step()
    row = await steps.row()
    assert row.state == "waiting"
    assert row.started_at is not None
    await steps.desk.shift(timedelta(seconds=91))
    await steps.step()
    row = await steps.row()
    assert (row.state, row.why) == ("timed_out", "no window shows it")
    assert await steps.desk.is_ordinary(steps.message_id)


@pytest.mark.rule(390, 391)
async def test_ten_minutes_are_the_end_of_it(steps: Steps) -> None:
    """Whatever it waits for, it is over when the hold is."""
    await steps.desk.shift(timedelta(minutes=10))
    await steps.step()
    row = await steps.row()
    assert (row.state, row.why) == ("timed_out", "It was not resumed within 10 minutes.")
    assert await steps.desk.is_ordinary(steps.message_id)


@pytest.mark.rule(383, 389)
async def test_a_window_that_came_by_itself_is_routed_to_without_asking(steps: Steps) -> None:
    """The owner opened the session again before a host was asked: it gets its message."""
    async with steps.desk.host(steps.session, name="laptop"):
        await steps.step()
        row = await steps.row()
        assert (row.state, row.host_id, row.started_at) == ("waiting", None, None)
        await steps.step()
        assert (await steps.row()).state == "routed"
    (route,) = await steps.desk.routes()
    assert route.message_id == steps.message_id
