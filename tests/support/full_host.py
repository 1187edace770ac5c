"""Hosts, sessions, texts and routes in each state, for the pages that show them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import attrs

from muster.allowlists import Allowlist
from muster.chief.operations.routing.answering import (
    AnswerRoute,
    RelayRoute,
    RelaySettings,
    answer_route,
    relay_route,
)
from muster.chief.operations.routing.ending import EndRoute, GiveBackRoute, end_route, give_back
from muster.node.nodes import beat
from muster.principals import Muster, Node
from muster.routes.rules import By
from tests.support.mirror_host import ScriptedHost, find_mirrored, new_host, new_session
from tests.support.mirrored_desk import MirroredDesk
from tests.support.owner_desk import OwnerDesk

WIDE = "a-name-without-any-blank-" + "x" * 90
SCREEN = "\n".join(
    ["$ claude", "", "> Mend the gate, please.", "", f"● I look at {WIDE}{WIDE}", "  tests: 12 ✓"]
)


@attrs.frozen(kw_only=True)
class MirroredHouse:
    """What there is of hosts and sessions."""

    session_ids: Sequence[int]
    route_ids: Sequence[int]

    @property
    def paths(self) -> list[str]:
        """Every page that shows something of it."""
        return [
            "/sessions",
            "/sessions?show=ended",
            *(f"/sessions/{number}" for number in self.session_ids),
            "/routes",
            *(f"/routes/{number}" for number in self.route_ids),
            "/docs/sessions",
        ]


@asynccontextmanager
async def mirrored_house(at: OwnerDesk) -> AsyncIterator[MirroredHouse]:
    """Connect two hosts of the owner's, one that went away and one that never came."""
    # Where the clock was moved on, the server seems dead until its next sign of life.
    await at.db.run(Node(), beat, at.server.node.node_id)
    await new_host(at.db, at.owner, "a-machine-with-a-rather-long-name-of-40")
    gone, reading = new_session(), new_session()
    ended_id = await _show_once(at, "attic", new_session(), gone)
    async with ScriptedHost(at.server.url, (await new_host(at.db, at.owner, "laptop"))[1]) as quiet:
        await quiet.hello(interactive=False)
        await _list(quiet, (reading, "working", "notes"))
        _, token = await new_host(at.db, at.owner, "box")
        async with ScriptedHost(at.server.url, token) as host:
            await host.hello(resume_spawn=True)
            names = [new_session() for _ in range(4)]
            states = ("idle", "working", "waiting", "unknown")
            titles = ("main:1", WIDE, "notes", "\u202eright to left")
            await _list(host, *zip(names, states, titles, strict=True))
            ids = [await find_mirrored(at.db, at.owner, name) for name in names]
            desks = [
                MirroredDesk(at=at, host=host, name=name, mirrored_id=mirrored_id)
                for name, mirrored_id in zip(names, ids, strict=True)
            ]
            await _talk(desks[0])
            routes = await _route(desks[1])
            shown = await find_mirrored(at.db, at.owner, reading)
            yield MirroredHouse(session_ids=(*ids, shown, ended_id), route_ids=routes)


async def _show_once(at: OwnerDesk, name: str, ended: str, offline: str) -> int:
    """A host that shows a session, then another, and goes; the id of the one that ended."""
    async with ScriptedHost(at.server.url, (await new_host(at.db, at.owner, name))[1]) as host:
        await host.hello()
        await host.show(ended, state="working")
        await host.show(offline, state="working")
    return await find_mirrored(at.db, at.owner, ended)


async def _list(host: ScriptedHost, *sessions: tuple[str, str, str]) -> None:
    """List windows whose sessions differ in state and title."""
    now = datetime.now(UTC)
    windows = [
        {
            "window": f"@{number}",
            "title": title,
            "label": None,
            "panes": [
                {
                    "pane": f"%{number}",
                    "claude_session": session,
                    "active": True,
                    "state": state,
                    "idle_since": (now - timedelta(hours=1)).isoformat()
                    if state == "idle"
                    else None,
                    "cwd": f"/srv/work/{title}" if title.isascii() else "/srv/work",
                    "repo": "example/work",
                }
            ],
        }
        for number, (session, state, title) in enumerate(sessions, 1)
    ]
    await host.until_acknowledged(await host.say("windows", now=now.isoformat(), windows=windows))


async def _talk(desk: MirroredDesk) -> None:
    """A session with a terminal, titles, receipts, an unconfirmed text and one behind it."""
    await desk.focus("Mend the gate of the garden", source="prompt")
    await desk.focus(f"The gate {WIDE}"[:120])
    await desk.send("Please look at the tests again.\nThen tell me what fails.")
    await desk.paste_done((await desk.host.hear("paste"))["send_id"], "pasted")
    await desk.send(f"And this: {WIDE}\u202e")
    lost = (await desk.host.hear("paste"))["send_id"]
    await desk.paste_done(lost, "unconfirmed", "no proof in 20 s")
    await desk.at.visiting.post(f"{desk.path}/sends/{lost}/resolve", arrived="no")
    await desk.send("Once more, then.")
    doubted = (await desk.host.hear("paste"))["send_id"]
    await desk.paste_done(doubted, "unconfirmed", "no proof in 20 s")
    await desk.send("This one waits.")
    await desk.send("This one does not.")
    (*_, last) = await desk.texts()
    await desk.at.visiting.post(f"{desk.path}/sends/{last.id}/cancel")
    await desk.page()  # somebody looks
    watch = await desk.host.hear("watch")
    screen = {"pane": watch["pane"], "text": SCREEN, "at": datetime.now(UTC).isoformat()}
    await desk.host.until_acknowledged(await desk.host.say("screen", **screen))


async def _route(desk: MirroredDesk) -> Sequence[int]:
    """Routes of one session: two that are open, one that failed, one with an answer."""
    at = desk.at
    muster = Muster(owner_id=at.owner.owner_id)
    letters = [
        await at.message(f"Letter {number}. {WIDE}", sender="Ada <ada@example.test>")
        for number in range(4)
    ]
    made = [await desk.route(letter) for letter in letters[:3]]
    made.append(await desk.route(letters[3], By.OWNER, "mcp from box/main:1"))
    failing = EndRoute(route_id=made[0].id, why="its session is in no online window any more")
    await at.db.run(muster, end_route, failing)
    await at.db.run(muster, give_back, GiveBackRoute(route_id=made[0].id))
    answer = AnswerRoute(
        route_id=made[1].id, body="Noon works.\nBring the offers.", via="mcp from box/main:1",
        deny_words=frozenset(),
    )  # fmt: skip
    await at.db.run(at.owner, answer_route, answer)
    settings = RelaySettings(allow=Allowlist.parse(""), deny_words=frozenset())
    await at.db.run(muster, relay_route, RelayRoute(route_id=made[1].id, settings=settings))
    return [route.id for route in made]
