"""An ended session is asked of hosts over their sockets, and the message waits for it."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from muster.chief.self_routing.resumed import Advance, advance
from muster.messages.operations import lock_next_queued
from muster.messages.rules import State as MessageState
from muster.mirror.gateway import Links
from muster.pg.query import Query
from muster.principals import Owner
from tests.support.agent_mail import RESUMING, ROUTING, MailDesk, mail_desk, review
from tests.support.builders import make_chief, new_agent, read_audit, revoke
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mirror_host import ScriptedHost, new_session
from tests.support.server import ScriptedAgent, running_server
from tests.support.waiting import until

TAKE = Query("""
    update messages set state = 'delivering', agent_id = %(agent)s, epoch = 1, attempts = 1,
           delivering_at = %(now)s
    where owner_id = %(owner_id)s and id = %(message)s
""")


@pytest.fixture
async def desk(cluster: Cluster, db: SpiedDatabase, owner: Owner) -> AsyncIterator[MailDesk]:
    """The owner's desk."""
    async with mail_desk(db, owner, cluster) as opened:
        yield opened


async def never() -> None:
    """The credential of a claim that nobody doubts."""


@pytest.mark.rule(384, 388, 393)
async def test_each_host_is_asked_in_turn_and_told_the_session_alone(desk: MailDesk) -> None:
    """The first denies, the second starts it; the frame names the session and nothing else."""
    session = await desk.ended()
    async with desk.host(name="one") as one, desk.host(name="two") as two:
        message_id = await desk.receive(thread="t-1")
        frame = await one.hear("resume")
        assert set(frame) == {"type", "resume_id", "claude_session"}
        assert frame["claude_session"] == session
        row = await desk.until_resume("asking")
        await one.say(
            "resume.done", resume_id=row.id, outcome="refused", detail="No transcript.", window=None
        )
        frame = await two.hear("resume")
        await two.say("resume.done", resume_id=row.id, outcome="started", detail="", window="@9")
        row = await desk.until_resume("waiting")
        assert len(row.asked) == 2
    facts = await read_audit(desk.db, desk.owner, "mail_resume.")
    assert [fact.action.removeprefix("mail_resume.") for fact in facts] == [
        "wanted",
        "asked",
        "denied",
        "asked",
        "started",
    ]
    for fact in facts:
        assert fact.actor == "muster"
        assert fact.subject == f"message:{message_id}"
        assert (fact.data["sender"], fact.data["claude_session"]) == ("example/gate", session)


@pytest.mark.rule(384)
async def test_the_host_that_showed_the_session_last_is_asked_first(desk: MailDesk) -> None:
    """Whichever of them connected first."""
    session = new_session()
    async with desk.host(name="one"), desk.host(session, name="two") as two:
        await desk.bind(session)
        await two.show()
        await desk.receive(thread="t-1")
        assert (await two.hear("resume"))["claude_session"] == session


@pytest.mark.rule(384, 391)
async def test_a_host_that_was_never_told_is_no_host_that_may_have_started_one(
    desk: MailDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection ended before the frame was written, so the next one is asked at once."""
    await desk.ended()
    async with desk.host(name="one"):
        monkeypatch.setattr(Links, "find", lambda _links, _host_id: None)
        await desk.receive(thread="t-1")
        row = await desk.until_resume("refused")
    assert (row.why, row.started_at) == ("The host is not connected any more.", None)


@pytest.mark.rule(391)
async def test_when_every_host_denies_the_message_is_the_chiefs(desk: MailDesk) -> None:
    """The row names the last denial, and the message is offered to the chief like any other."""
    await desk.ended()
    async with desk.host(name="one") as host:
        message_id = await desk.receive(thread="t-1")
        frame = await host.hear("resume")
        held = await desk.message(message_id)
        assert (held.state, held.held_until is None) == (MessageState.QUEUED, False)
        await host.say(
            "resume.done",
            resume_id=frame["resume_id"],
            outcome="refused",
            detail="The folder is gone.",
            window=None,
        )
        row = await desk.until_resume("refused")
    assert row.why == "The folder is gone."
    assert await desk.is_ordinary(message_id)


@pytest.mark.rule(390)
async def test_a_held_message_is_left_alone_for_ten_minutes(desk: MailDesk) -> None:
    """No delivery takes it meanwhile, and the hold is over by itself."""
    chief = await make_chief(desk.db, desk.owner)
    await desk.ended()
    async with desk.host(name="one") as host:
        message_id = await desk.receive(thread="t-1")
        await host.hear("resume")

        async def next_queued() -> int | None:
            async with desk.db.transaction(desk.muster) as tx:
                found = await lock_next_queued(tx, chief.agent_id)
            return None if found is None else found.id

        assert await next_queued() is None
        await desk.shift(timedelta(minutes=10, seconds=1))
        assert await next_queued() == message_id
        row = await desk.until_resume("timed_out")
    assert row.why == "It was not resumed within 10 minutes."


@pytest.mark.rule(391)
async def test_no_window_in_time_gives_the_message_to_the_chief(desk: MailDesk) -> None:
    """A window that was started and is not listed within 90 s: timed out, naming what was so."""
    await make_chief(desk.db, desk.owner)
    await desk.ended()
    async with desk.host(name="one") as host:
        message_id = await desk.receive(thread="t-1")
        frame = await host.hear("resume")
        await host.say(
            "resume.done", resume_id=frame["resume_id"], outcome="started", detail="", window="@9"
        )
        await desk.until_resume("waiting")
        await desk.shift(timedelta(seconds=91))
        row = await desk.until_resume("timed_out")
    assert row.why == "no window shows it"
    assert row.started_at is not None
    assert await desk.is_ordinary(message_id)


@pytest.mark.rule(392)
async def test_a_second_message_joins_the_resume_that_is_under_way(desk: MailDesk) -> None:
    """No host is asked for it; it ends as the first one does."""
    await desk.ended()
    async with desk.host(name="one") as host:
        first = await desk.receive(thread="t-1")
        frame = await host.hear("resume")
        second = await desk.receive(thread="t-1", external_id="m2")
        rows = await desk.resumes()
        assert [row.joined_id for row in rows] == [None, rows[0].id]
        await host.say(
            "resume.done",
            resume_id=frame["resume_id"],
            outcome="refused",
            detail="No.",
            window=None,
        )
        await desk.until_resume("refused", 0)
        assert (await desk.until_resume("refused", 1)).why == "No."
    assert await desk.is_ordinary(first)
    assert await desk.is_ordinary(second)


@pytest.mark.rule(384)
async def test_for_a_review_only_the_recorded_host_is_asked(desk: MailDesk) -> None:
    """Another host that offers resumes is not; without the recorded one it is the chief's."""
    session = new_session()
    async with desk.host(name="other"):
        async with desk.host(session, name="home") as home:
            await desk.author(session)
            await home.show()
            message_id = await desk.receive(body=review())
            frame = await home.hear("resume")
            await home.say(
                "resume.done",
                resume_id=frame["resume_id"],
                outcome="refused",
                detail="No.",
                window=None,
            )
            row = await desk.until_resume("refused")
            assert (row.cause, row.asked) == ("review", [row.host_id])
            assert await desk.is_ordinary(message_id)
        late = await desk.receive(body=review(), external_id="m2")
        assert await desk.is_ordinary(late)
        assert len(await desk.resumes()) == 1


@pytest.mark.rule(381, 382)
@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        (ROUTING, {}),
        (RESUMING, {"sender": "example/other"}),
        (RESUMING, {"sender_verified": False}),
        (RESUMING.__class__(routing=False, resume_allow=RESUMING.resume_allow), {}),
        (
            RESUMING.__class__(routing=True, resume_allow=RESUMING.resume_allow, resume_off=True),
            {},
        ),
    ],
    ids=["nobody listed", "not listed", "unverified", "routing off", "killed"],
)
async def test_mail_that_may_not_resume_is_the_chiefs(
    desk: MailDesk, settings: object, fields: dict[str, object]
) -> None:
    """No row is made, and the message is ordinary."""
    await desk.ended()
    async with desk.host(name="one"):
        message_id = await desk.receive(settings, thread="t-1", **fields)  # type: ignore[arg-type]
    assert await desk.resumes() == []
    assert await desk.is_ordinary(message_id)


@pytest.mark.rule(383, 384)
async def test_a_session_that_is_remembered_or_has_no_offering_host_is_not_resumed(
    desk: MailDesk,
) -> None:
    """A lost host's window still counts; so does one in a pane that is not the active one."""
    session = new_session()
    async with desk.host(session, name="lost"):
        await desk.bind(session)
    async with desk.host(name="one"):
        assert await desk.is_ordinary(await desk.receive(thread="t-1"))
        await desk.shift(timedelta(hours=25))
    async with desk.host(name="plain", resume_spawn=False):
        assert await desk.is_ordinary(await desk.receive(thread="t-1", external_id="m2"))
    async with desk.host(name="quiet", interactive=False):
        assert await desk.is_ordinary(await desk.receive(thread="t-1", external_id="m3"))
    assert await desk.resumes() == []


@pytest.mark.rule(384)
async def test_a_repeat_resumes_nothing_again(desk: MailDesk) -> None:
    """One row a message, whatever is posted again."""
    await desk.ended()
    async with desk.host(name="one"):
        one = await desk.receive(thread="t-1")
        assert await desk.receive(thread="t-1") == one
    assert len(await desk.resumes()) == 1


@pytest.mark.rule(390)
async def test_a_server_that_stops_in_the_middle_loses_nothing(
    cluster: Cluster, db: SpiedDatabase, owner: Owner
) -> None:
    """What was asked is not asked again: the next server takes the host's late answer."""
    async with mail_desk(db, owner, cluster) as desk:
        await desk.ended()
        async with desk.host(name="one") as host:
            message_id = await desk.receive(thread="t-1")
            frame = await host.hear("resume")
            token = host._token
    async with (
        running_server(db, cluster.app_url, MUSTER_SESSION_ROUTING="1") as server,
        ScriptedHost(server.url, token) as host,
    ):
        await host.hello(resume_spawn=True)
        seq = await host.say(
            "resume.done",
            resume_id=frame["resume_id"],
            outcome="refused",
            detail="The folder is gone.",
            window=None,
        )
        await host.until_acknowledged(seq)
        await until(lambda: desk.is_ordinary(message_id))
    (row,) = await desk.resumes()
    assert (row.state, len(row.asked)) == ("refused", 1)


@pytest.mark.rule(389, 390)
async def test_a_server_that_stops_while_the_window_comes_up_loses_nothing(
    cluster: Cluster, db: SpiedDatabase, owner: Owner
) -> None:
    """The next server makes the route, once the host shows the window to it."""
    await make_chief(db, owner)
    async with mail_desk(db, owner, cluster) as desk:
        session = await desk.ended()
        async with desk.host(name="one") as host:
            await desk.receive(thread="t-1")
            frame = await host.hear("resume")
            done = {"resume_id": frame["resume_id"], "outcome": "started", "detail": ""}
            await host.until_acknowledged(await host.say("resume.done", window="@1", **done))
            token = host._token
    async with (
        running_server(db, cluster.app_url, MUSTER_SESSION_ROUTING="1") as server,
        ScriptedHost(server.url, token) as host,
    ):
        await host.hello(resume_spawn=True)
        await host.show(session, state="working")
        await desk.until_resume("routed")
    assert len(await desk.routes()) == 1


@pytest.mark.rule(390, 391)
async def test_a_connected_chief_gets_the_message_once_the_resume_is_over(desk: MailDesk) -> None:
    """Neither its arrival nor a claim begins a turn on it before."""
    _, token = await new_agent(desk.db, desk.owner)
    await desk.ended()
    async with desk.host(name="one") as host, ScriptedAgent(desk.server.url, token) as chief:
        await chief.next_frame("welcome")
        held = await desk.receive(thread="t-1")
        frame = await host.hear("resume")
        await desk.server.node.claim(desk.plugin, 0, never)
        other = await desk.receive(external_id="m2")
        turn = await chief.next_frame("turn")
        assert f"[message_id {other}]" in turn["text"]
        await chief.send("turn.done", turn_id=turn["turn_id"], text="")
        await desk.until_delivered(other)
        await host.say(
            "resume.done", resume_id=frame["resume_id"], outcome="refused", detail="", window=None
        )
        turn = await chief.next_frame("turn")
        assert f"[message_id {held}]" in turn["text"]


@pytest.mark.rule(391)
async def test_a_revoked_plugins_message_is_not_routed(desk: MailDesk) -> None:
    """The window is left running, and the message stays with nobody."""
    await make_chief(desk.db, desk.owner)
    session = await desk.ended()
    async with desk.host(name="one") as host:
        await desk.receive(thread="t-1")
        frame = await host.hear("resume")
        await revoke(desk.db, desk.owner, desk.plugin)
        await host.say(
            "resume.done", resume_id=frame["resume_id"], outcome="started", detail="", window="@1"
        )
        await host.show(session)
        row = await desk.until_resume("refused")
    assert row.why == "The message's plugin is revoked."
    assert await desk.routes() == []


@pytest.mark.rule(391)
async def test_a_message_that_another_delivery_took_ends_its_resume(desk: MailDesk) -> None:
    """Nothing is given back, for the chief has it."""
    chief = await make_chief(desk.db, desk.owner)
    await desk.ended()
    async with desk.host(name="one") as host:
        message_id = await desk.receive(thread="t-1")
        await host.hear("resume")
        async with desk.db.transaction(desk.muster) as tx:
            await tx.execute(TAKE, agent=chief.agent_id, message=message_id)
        row = await desk.until_resume("refused")
    assert row.why == "The message was taken by another delivery."
    again = Advance(resume_id=row.id, node="none")
    assert await desk.db.run(desk.muster, advance, again) is None
