"""Hosts that are broken, or in somebody else's hands: what they say harms nobody but them."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from muster.mirror.gateway import SCREENS_MAX
from muster.principals import Owner
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mirror_host import ScriptedHost, find_mirrored, new_host, new_session
from tests.support.server import Server, running_server

NOW = "2026-01-01T00:00:00Z"
SESSION = "c0ffee00-0000-4000-8000-000000000001"
FIRST, LAST = "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"


@pytest.fixture
async def server(cluster: Cluster, db: SpiedDatabase) -> AsyncIterator[Server]:
    """A server."""
    async with running_server(db, cluster.app_url) as running:
        yield running


def listing(now: str = NOW, **members: object) -> dict[str, Any]:
    """A list of one window with one pane, and what is wrong with either."""
    pane: dict[str, object] = {
        "pane": "%1", "claude_session": SESSION, "active": True, "state": "idle",
        "idle_since": NOW, "cwd": "/srv", "repo": "a/b",
    }  # fmt: skip
    window: dict[str, object] = {"window": "@1", "title": "main:1", "label": None}
    pane.update({name: value for name, value in members.items() if name in pane})
    window.update({name: value for name, value in members.items() if name in window})
    return {"type": "windows", "now": now, "windows": [{**window, "panes": [pane]}]}


def focus(**members: object) -> dict[str, Any]:
    """A title of the session."""
    told = {"title": "t", "source": "summary", "cwd": "/srv", "at": NOW}
    return {"type": "focus", "claude_session": SESSION, **told, **members}


def hello(**members: object) -> dict[str, Any]:
    """A hello."""
    told = {"host": "box", "interactive": True, "resume_spawn": False, "now": NOW}
    return {"type": "hello", **told, **members}


NO_DATABASE_KEEPS = [
    *(listing(**{name: "\0"}) for name in ("window", "pane", "title", "label", "repo")),
    listing(cwd="/\0"),
    *(listing(idle_since=time) for time in (FIRST, LAST)),
    *(listing(now=time) for time in (FIRST, LAST)),
    focus(title="\0"),
    focus(cwd="/\0"),
    focus(at=FIRST),
    focus(at=LAST),
    hello(host="\0"),
    hello(now=LAST),
    {"type": "paste.done", "send_id": 1, "outcome": "pasted", "detail": "\0"},
    {"type": "resume.done", "resume_id": 1, "outcome": "started", "window": "\0"},
    {"type": "screen", "pane": "%1", "text": "", "at": FIRST},
    listing(title="\ud800"),
    listing(claude_session=f"{SESSION}\n"),
]


@pytest.mark.parametrize("frame", NO_DATABASE_KEEPS, ids=ascii)
async def test_what_no_database_keeps_is_a_malformed_frame(
    db: SpiedDatabase, owner: Owner, server: Server, frame: dict[str, Any]
) -> None:
    """NUL and times beyond the calendar close the socket 4400, and nothing of ours crashes."""
    _, token = await new_host(db, owner)
    async with ScriptedHost(server.url, token) as host:
        await host.hello()
        await host.socket.send_message(json.dumps({"seq": 2, **frame}))
        assert await host.close_code() == 4400
    assert not server.crashes


RAW: dict[str, str | bytes] = {
    "binary": b"{}",
    "deep": '{"type":"windows","a":' + "[" * 100_000,
    "deep and whole": '{"type":"x","a":' + "[" * 100_000 + "]" * 100_000 + "}",
    "too long": '{"type":"x","a":"' + "a" * (256 * 1024) + '"}',
    "not a number": '{"type":"windows","seq":NaN}',
    "infinite": '{"type":"windows","seq":Infinity}',
    "too large": '{"type":"windows","seq":1e999}',
    "long number": '{"type":"windows","seq":' + "9" * 100_000 + "}",
    "negative": '{"type":"windows","seq":-1,"now":"2026-01-01T00:00:00Z","windows":[]}',
    "no object": "[]",
    "no type": "{}",
    "another type": '{"type":1}',
}


@pytest.mark.parametrize("kind", RAW)
async def test_what_is_no_frame_closes_the_socket(
    db: SpiedDatabase, owner: Owner, server: Server, kind: str
) -> None:
    """Whatever the bytes are."""
    _, token = await new_host(db, owner)
    async with ScriptedHost(server.url, token) as host:
        await host.hello()
        await host.socket.send_message(RAW[kind])
        assert await host.close_code() in (4400, 1009)
    assert not server.crashes


async def test_screens_that_nobody_asked_for_are_not_kept(
    db: SpiedDatabase, owner: Owner, server: Server
) -> None:
    """However many a host tells, what is kept of it is bounded."""
    host_id, token = await new_host(db, owner)
    sessions = [new_session() for _ in range(SCREENS_MAX + 5)]
    async with ScriptedHost(server.url, token) as host:
        await host.hello()
        await host.show(*sessions)
        link = server.node.owners.links.find(host_id)
        assert link is not None
        for pane in ("%1", "%7777", "other"):
            await host.until_acknowledged(await host.say("screen", pane=pane, text="x", at=NOW))
        assert link.screens == {}
        mirrored = [await find_mirrored(db, owner, session) for session in sessions]
        for one in mirrored:
            await server.node.owners.links.look(owner.owner_id, one)
        for number in range(1, len(sessions) + 1):
            said = await host.say("screen", pane=f"%{number}", text="x", at=NOW)
            await host.until_acknowledged(said)
        assert len(link.screens) == SCREENS_MAX
        newest = await server.node.owners.links.look(owner.owner_id, mirrored[-1])
        assert newest is not None
        with trio.fail_after(5):
            await host.show(*sessions[:1])
        assert len(link.screens) <= 1
