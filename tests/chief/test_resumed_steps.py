"""The steps of a resume, one at a time: nobody but the test takes them."""

import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import attrs
import pytest

from muster.chief.operations.receiving import Receive, receive
from muster.chief.self_routing.resumed import Advance, AskHost, advance
from muster.messages.rules import Post
from muster.mirror.operations.resuming import NoteAnswer, note_answer
from muster.mirror.resuming import Denied, Started
from muster.principals import Owner
from tests.support.agent_mail import GATE, RESUMING, MailDesk, ResumeRow, mail_desk
from tests.support.builders import disable, make_chief, revoke
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mirror_host import new_session
from tests.support.server import running_server


@attrs.frozen(kw_only=True)
class Steps:
    """A desk with a wanted resume of which its server was told nothing."""

    desk: MailDesk
    session: str

    async def step(self, number: int = 0, **fields: Any) -> AskHost | None:
        """Take the step that is due, as the server would or as another node."""
        row = await self.row(number)
        command = Advance(resume_id=row.id, node=self.desk.server.node.node_id)
        command = attrs.evolve(command, **fields)
        return await self.desk.db.run(self.desk.muster, advance, command)

    async def row(self, number: int = 0) -> ResumeRow:
        """A resume as it stands; the first one is there from the start."""
        return (await self.desk.resumes())[number]

    async def answer(self, answer: Started | Denied) -> None:
        """What a host says about the first one."""
        command = NoteAnswer(resume_id=(await self.row()).id, answer=answer)
        await self.desk.db.run(self.desk.muster, note_answer, command)

    async def receive(self) -> int:
        """A mail on the session's thread, past the server, whose own look is half a minute off."""
        post = Post(
            external_id=str(uuid.uuid4()),
            body="Red.",
            sender=GATE,
            sender_verified=True,
            thread="t-1",
        )
        command = Receive(post=post, settings=RESUMING)
        return (await self.desk.db.run(self.desk.plugin, receive, command)).id


@pytest.fixture
async def steps(cluster: Cluster, db: SpiedDatabase, owner: Owner) -> AsyncIterator[Steps]:
    """A host that offers resumes is connected, and the session has no window."""
    await make_chief(db, owner)
    session = new_session()
    async with mail_desk(db, owner, cluster) as desk, desk.host(session) as host:
        await desk.bind(session)
        await host.show()
        opened = Steps(desk=desk, session=session)
        await opened.receive()
        yield opened


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
    assert await steps.desk.is_ordinary((await steps.row()).message_id)


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
    assert await steps.desk.is_ordinary((await steps.row()).message_id)


@pytest.mark.rule(390, 391)
async def test_ten_minutes_are_the_end_of_it(steps: Steps) -> None:
    """Whatever it waits for, it is over when the hold is."""
    await steps.desk.shift(timedelta(minutes=10))
    await steps.step()
    row = await steps.row()
    assert (row.state, row.why) == ("timed_out", "It was not resumed within 10 minutes.")
    assert await steps.desk.is_ordinary((await steps.row()).message_id)


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
    assert route.message_id == (await steps.row()).message_id


@pytest.mark.rule(383, 391)
async def test_a_window_that_is_remembered_meanwhile_is_the_end_of_it(steps: Steps) -> None:
    """The owner opened the session on a laptop and shut that: nobody is asked to run it twice."""
    async with steps.desk.host(steps.session, name="laptop"):
        pass
    assert await steps.step() is None
    row = await steps.row()
    assert (row.state, row.why) == ("refused", "A window shows the session.")
    assert await steps.desk.is_ordinary(row.message_id)


@pytest.mark.rule(381, 382)
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "Session routing is switched off."),
        (
            {"MUSTER_SESSION_ROUTING": "1", "MUSTER_MAIL_RESUME_OFF": "1"},
            "Resumes are switched off.",
        ),
    ],
    ids=["routing", "resumes"],
)
async def test_a_server_that_is_started_without_it_gives_the_message_to_the_chief(
    steps: Steps, cluster: Cluster, settings: dict[str, str], why: str
) -> None:
    """The settings of the server that looks are those that count."""
    async with running_server(steps.desk.db, cluster.app_url, **settings):
        assert (await steps.desk.until_resume("refused")).why == why
    assert await steps.desk.is_ordinary((await steps.row()).message_id)


@pytest.mark.rule(381)
async def test_without_routing_no_window_gets_the_message(steps: Steps) -> None:
    """Not even one that is there already: a route could not be answered."""
    async with steps.desk.host(steps.session, name="laptop"):
        await steps.step()
        assert (await steps.row()).state == "waiting"
        await steps.step(routing=False)
    assert (await steps.row()).state == "refused"
    assert await steps.desk.routes() == []


@pytest.mark.rule(391)
async def test_no_host_is_asked_for_a_revoked_plugins_message(steps: Steps) -> None:
    """Nobody would deliver it to the window."""
    await revoke(steps.desk.db, steps.desk.owner, steps.desk.plugin)
    assert await steps.step() is None
    row = await steps.row()
    assert (row.state, row.asked, row.why) == ("refused", [], "The message's plugin is revoked.")


@pytest.mark.rule(389, 391)
async def test_a_disabled_accounts_message_waits_and_is_not_routed(steps: Steps) -> None:
    """It may be enabled again in time; else its row says why."""
    async with steps.desk.host(steps.session, name="laptop"):
        await steps.step()
        await disable(steps.desk.db, steps.desk.owner)
        await steps.step()
        assert (await steps.row()).state == "waiting"
        await steps.desk.shift(timedelta(seconds=91))
        await steps.step()
    row = await steps.row()
    assert (row.state, row.why) == ("timed_out", "The account is disabled.")
    assert await steps.desk.routes() == []


@pytest.mark.rule(392)
async def test_a_message_that_joined_waits_for_the_next_hosts_window_too(steps: Steps) -> None:
    """The first host's silence was taken for a window, and it denied that late."""
    box = (await steps.step()).host_id  # type: ignore[union-attr]
    await steps.receive()
    await steps.desk.shift(timedelta(seconds=61))
    for number in (0, 1):
        await steps.step(number)
        assert (await steps.row(number)).state == "waiting"
    await steps.answer(Denied(host_id=box, why="No transcript."))
    async with steps.desk.host(name="laptop") as laptop:
        asked = await steps.step()
        assert asked is not None
        await steps.desk.shift(timedelta(seconds=91))
        await steps.step(1)
        assert (await steps.row(1)).state == "waiting"
        await steps.answer(Started(host_id=asked.host_id, window="@7"))
        await laptop.show(steps.session, state="working")
        for number in (0, 1):
            await steps.step(number)
    assert [row.state for row in await steps.desk.resumes()] == ["routed", "routed"]
