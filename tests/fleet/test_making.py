"""What a report tells of the owner's real hosts, sessions, titles and pull requests."""

import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import attrs
import pytest

from muster.fleet.operations import MakeReport, make_report
from muster.fleet.requests import Span, encode
from muster.mirror.operations.focus import note_task_focus
from muster.mirror.operations.hosts import retire_host
from muster.mirror.operations.sessions import get_session
from muster.mirror.rules import NoteTaskFocus, RetireHost
from muster.pg.query import Query
from muster.principals import Owner
from muster.routes.authors import Did
from tests.support.builders import make_agent, read_now
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.fleet_desk import PATH, FleetDesk, fleet_desk, focus
from tests.support.mirror_host import ScriptedHost, new_host, new_session

MIRRORED = Query("select id from mirrored where owner_id = %(owner_id)s")
NEWEST_TITLE = Query("select max(at) from focus_titles where owner_id = %(owner_id)s")


@attrs.frozen(kw_only=True)
class Now:
    """The desk, and the time when the test began."""

    desk: FleetDesk
    at: datetime


@pytest.fixture
async def now(cluster: Cluster, db: SpiedDatabase, owner: Owner) -> AsyncIterator[Now]:
    """The owner's desk."""
    async with fleet_desk(db, owner, cluster) as desk:
        yield Now(desk=desk, at=await read_now(db))


def ids(told: dict[str, Any]) -> list[str]:
    """The sessions that a report tells of."""
    return [one["id"] for one in told["sessions"]]


@pytest.mark.rule(370, 374, 375, 376)
async def test_a_session_under_a_path_is_told(now: Now) -> None:
    """By its window's own name, its titles in the window and its pull requests; by no host."""
    session = new_session()
    minute = timedelta(minutes=1)
    async with now.desk.mail.host(session, name="attic") as host:
        for number, title in enumerate(("first", "ünd 在 🙂", "before"), 1):
            await focus(host, session, title, at=now.at - minute * number**7)
        await now.desk.mail.author(session, pr=12)
        told = await now.desk.answered()
    (one,) = told["sessions"]
    assert one["id"] == f"mirror:{session}"
    assert (one["kind"], one["name"], one["host"], one["state"]) == (
        "mirror", "main:1", "", "waiting",
    )  # fmt: skip
    assert [focused["title"] for focused in one["focus"]] == ["first", "ünd 在 🙂"]
    assert one["prs"] == ["example/garden#12"]
    assert one["repo"] is None  # its pane runs elsewhere
    assert told["coverage"] == {"sessions": 1, "omitted": 0, "hosts": [], "gaps": []}
    assert "attic" not in json.dumps(told)
    assert PATH not in json.dumps(told)


@pytest.mark.rule(374, 377)
async def test_the_newest_directory_decides(now: Now) -> None:
    """Titles from before it moved in are told; one that moved out is not mentioned at all."""
    came, left, unknown, elsewhere = sessions = [new_session() for _ in range(4)]
    minute = timedelta(minutes=1)
    async with now.desk.mail.host(*sessions) as host:
        await focus(host, came, "a private matter", at=now.at - 2 * minute, cwd="/srv/private")
        await focus(host, came, "work", at=now.at - minute)
        await focus(host, left, "work", at=now.at - 2 * minute)
        await focus(host, left, "private", at=now.at - minute, cwd=f"{PATH}-x")
        await focus(host, unknown, "who knows", at=now.at, cwd=None)
        await focus(host, elsewhere, "private", at=now.at, cwd="/srv/private")
        told = await now.desk.answered()
    assert ids(told) == [f"mirror:{came}"]
    assert [one["title"] for one in told["sessions"][0]["focus"]] == ["work", "a private matter"]
    assert told["coverage"]["gaps"] == [
        "1 session left out, as the working directory is not known."
    ]
    for session in (left, unknown, elsewhere):
        assert session not in json.dumps(told)


@pytest.mark.rule(371, 379)
async def test_what_a_person_typed_is_counted_and_not_told(now: Now) -> None:
    """A title that is a prompt's first line stays here."""
    session = new_session()
    async with now.desk.mail.host(session) as host:
        await focus(host, session, "please fire Bob", at=now.at, source="prompt")
        told = await now.desk.answered()
    assert told["sessions"][0]["focus"] == []
    assert told["coverage"]["gaps"] == [
        "1 focus title left out: the first line of a prompt is no summary."
    ]


@pytest.mark.rule(374)
async def test_an_agent_is_left_out_and_counted(now: Now) -> None:
    """Nobody knows where it works; the chief is none of those that are counted."""
    helper = await make_agent(now.desk.mail.db, now.desk.mail.owner)
    for agent in (helper, now.desk.chief):
        command = NoteTaskFocus(agent_id=agent.agent_id, title="a task")
        await now.desk.mail.db.run(now.desk.mail.muster, note_task_focus, command)
    told = await now.desk.answered()
    assert told["sessions"] == []
    assert told["coverage"]["gaps"] == [
        "1 session left out, as the working directory is not known."
    ]


@pytest.mark.rule(375)
async def test_an_ended_session_and_its_host_that_left(now: Now) -> None:
    """The session has no window any more, so no name; the host is counted, and has none either."""
    session = new_session()
    async with now.desk.mail.host(session, name="attic") as host:
        await focus(host, session, "work", at=now.at)
        await host.show()
        assert (await now.desk.answered())["sessions"][0]["state"] == "ended"
    told = await now.desk.answered()
    (one,) = told["sessions"]
    assert (one["name"], one["state"]) == ("", "ended")
    assert told["coverage"]["gaps"] == ["1 mirror host offline now."]
    assert "attic" not in json.dumps(told)


@pytest.mark.rule(370, 375)
async def test_a_window_of_an_offline_host_shows_nothing(now: Now) -> None:
    """It is remembered, but what runs there is not known: the session counts as ended."""
    session = new_session()
    async with now.desk.mail.host(session) as host:
        await focus(host, session, "work", at=now.at)
    async with now.desk.mail.db.transaction(now.desk.mail.owner) as tx:
        assert (await get_session(tx, await tx.scalar(MIRRORED))).shown
    (one,) = (await now.desk.answered())["sessions"]
    assert (one["name"], one["state"]) == ("", "ended")


@pytest.mark.rule(371, 375)
async def test_only_hosts_that_there_are_may_be_offline(now: Now) -> None:
    """Not one that never connected, and none that was retired."""
    mail = now.desk.mail
    await new_host(mail.db, mail.owner, "never")
    _, token = await new_host(mail.db, mail.owner, "retired")
    async with ScriptedHost(mail.server.url, token) as host:
        await host.hello()
        await mail.db.run(mail.owner, retire_host, RetireHost(name="retired"))
    assert (await now.desk.answered())["coverage"]["gaps"] == []


@pytest.mark.rule(371)
async def test_a_window_of_long_ago_has_no_titles_any_more(now: Now) -> None:
    """They are kept for 30 days; what is gone is a gap."""
    day = timedelta(days=1)
    for days, gaps in ((29, 0), (31, 1)):
        since = now.at - days * day
        window = await now.desk.window(since=since.isoformat(), until=(since + day).isoformat())
        told = await now.desk.answered(body=await now.desk.request(window=window))
        assert len(told["coverage"]["gaps"]) == gaps


@pytest.mark.rule(374)
async def test_a_directory_that_was_named_before_the_window_counts(now: Now) -> None:
    """Which sessions are told of is decided by what is stored, whatever the window."""
    here, elsewhere = new_session(), new_session()
    hour = timedelta(hours=1)
    async with now.desk.mail.host(here, elsewhere) as host:
        await focus(host, here, "work", at=now.at - 3 * hour)
        await focus(host, elsewhere, "private", at=now.at - 3 * hour, cwd="/srv/private")
        window = await now.desk.window(since=(now.at - hour).isoformat())
        told = await now.desk.answered(body=await now.desk.request(window=window))
    assert ids(told) == [f"mirror:{here}"]
    assert told["coverage"]["gaps"] == []


@pytest.mark.rule(370)
async def test_a_window_holds_what_was_there_within(now: Now) -> None:
    """Its end is outside of it; a session that was first seen later is not told of."""
    session = new_session()
    day = timedelta(days=1)
    async with now.desk.mail.host(session, name="box") as host:
        await focus(host, session, "work", at=now.at)
        earlier = await now.desk.window(
            since=(now.at - 3 * day).isoformat(), until=(now.at - day).isoformat()
        )
        body = await now.desk.request(window=earlier)
        assert ids(await now.desk.answered(body=body)) == []
        edge = await now.desk.window(
            since=(now.at - day).isoformat(), until=(now.at + timedelta(hours=1)).isoformat()
        )
        body = await now.desk.request(window=edge)
        assert ids(await now.desk.answered(body=body)) == [f"mirror:{session}"]


@pytest.mark.rule(370, 376)
async def test_only_what_was_within_the_window_counts(now: Now) -> None:
    """Nothing earlier or later says who was active last, and no such title or request is told."""
    first, second = new_session(), new_session()
    hour = timedelta(hours=1)
    mail = now.desk.mail
    async with mail.host(first, second) as host:
        await mail.author(first, pr=12)
        await mail.shift(4 * hour)
        await focus(host, first, "within", at=now.at + 2 * hour)
        await focus(host, second, "within", at=now.at + 1.5 * hour)
        await focus(host, second, "at its end", at=now.at + 3 * hour)
        await mail.author(second, pr=13)
        async with mail.db.transaction(mail.owner) as tx:
            until = await tx.scalar(NEWEST_TITLE)
        assert isinstance(until, datetime)
        window = await now.desk.window(since=(now.at + hour).isoformat(), until=until.isoformat())
        told = await now.desk.answered(body=await now.desk.request(window=window))
    assert ids(told) == [f"mirror:{first}", f"mirror:{second}"]
    for one in told["sessions"]:
        assert [focused["title"] for focused in one["focus"]] == ["within"]
        assert one["prs"] == []


@pytest.mark.rule(370, 373)
async def test_a_reply_holds_half_of_what_the_chief_is_told(now: Now) -> None:
    """16 KiB and 32 KiB: of two long sessions a reply tells of the one that was active last."""
    long, last = new_session(), new_session()
    minute = timedelta(minutes=1)
    async with now.desk.mail.host(long, last) as host:
        for number in range(20):
            title = f"{number:02} " + "ü" * 110
            await focus(host, long, title, at=now.at - (number + 2) * minute)
            await focus(host, last, title, at=now.at - (number + 1) * minute)
        told = await now.desk.answered()
        span = Span(
            since_text="",
            until_text="",
            zone="UTC",
            since=now.at - timedelta(days=1),
            until=now.at + timedelta(hours=1),
        )
        async with now.desk.mail.db.transaction(now.desk.mail.muster) as tx:
            own = await make_report(tx, MakeReport(span=span))
    assert (ids(told), told["coverage"]["omitted"]) == ([f"mirror:{last}"], 1)
    assert ids(own) == [f"mirror:{last}", f"mirror:{long}"]
    assert 16 * 1024 < len(encode(own)) <= 32 * 1024


@pytest.mark.rule(370, 376)
async def test_pull_requests_that_a_session_created_or_pushed_to(now: Now) -> None:
    """A push counts for the pull request whose branch somebody told; a bare branch is none."""
    creator, pusher = new_session(), new_session()
    async with now.desk.mail.host(creator, pusher) as host:
        for session in (creator, pusher):
            await focus(host, session, "work", at=now.at)
        await now.desk.mail.author(creator, pr=12, head_ref="roses")
        pushed: dict[str, Any] = {"kind": Did.PUSHED, "pr": None, "repo": "Example/Garden"}
        await now.desk.mail.author(pusher, **pushed, head_ref="roses")
        await now.desk.mail.author(pusher, **pushed, head_ref="tulips")
        told = await now.desk.answered()
    prs = {one["id"]: [pr.lower() for pr in one["prs"]] for one in told["sessions"]}
    assert prs == {f"mirror:{one}": ["example/garden#12"] for one in (creator, pusher)}


@pytest.mark.rule(370)
async def test_what_the_screen_would_refuse_is_answered_all_the_same(now: Now) -> None:
    """Host names and infrastructure words in titles are the owner's to tell."""
    session = new_session()
    title = "kubectl on db.internal at 10.0.0.1"
    async with now.desk.mail.host(session) as host:
        await focus(host, session, title, at=now.at)
        told = await now.desk.answered()
    assert told["sessions"][0]["focus"][0]["title"] == title
