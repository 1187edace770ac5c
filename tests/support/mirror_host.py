"""A mirror host's end of its socket, driven by the test frame by frame, and hosts to drive."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import trio

from muster.mirror.operations.hosts import add_host
from muster.mirror.rules import AddHost
from muster.pg.database import Database
from muster.pg.query import Query
from muster.principals import Owner
from tests.support.server import ScriptedAgent

FIND_MIRRORED = Query("""
    select id from mirrored where owner_id = %(owner_id)s and claude_session = %(name)s
""")


class ScriptedHost(ScriptedAgent):
    """Says what it is told to; `seq` grows by itself, and acknowledgements are left unread."""

    path = "/mirror/v1/socket"

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url, token)
        self._seq = 0
        self.acknowledged: set[int] = set()
        self._kept: list[dict[str, Any]] = []  # came before an acknowledgement that was waited for

    async def say(self, kind: str, **members: object) -> int:
        """Send a frame with the next seq; answers it."""
        self._seq += 1
        await self.send(kind, seq=self._seq, **members)
        return self._seq

    async def hello(self, *, interactive: bool = True, resume_spawn: bool = False) -> None:
        """Say hello and be welcomed."""
        await self.say(
            "hello",
            host="box.test",
            interactive=interactive,
            resume_spawn=resume_spawn,
            now=datetime.now(UTC).isoformat(),
        )
        await self.hear("welcome")

    async def hear(self, kind: str, seconds: float = 5.0) -> dict[str, Any]:
        """The next frame of that type; acknowledgements and pings before it are noted."""
        with trio.fail_after(seconds):
            while True:
                frame = self._kept.pop(0) if self._kept else await self._next(seconds)
                if frame["type"] == "ack":
                    self.acknowledged.add(frame["seq"])
                if frame["type"] == kind:
                    return frame
                assert frame["type"] in {"ack", "ping", "watch"}, frame

    async def until_acknowledged(self, seq: int, seconds: float = 5.0) -> None:
        """Read until muster has written down what the frame of that seq said."""
        with trio.fail_after(seconds):
            while seq not in self.acknowledged:
                frame = await self._next(seconds)
                if frame["type"] == "ack":
                    self.acknowledged.add(frame["seq"])
                elif frame["type"] == "paste":
                    self._kept.append(frame)

    async def show(
        self,
        *sessions: str,
        state: str = "idle",
        idle_seconds: float = 60.0,
        active: bool = True,
    ) -> None:
        """List one window for each session, all in one state; wait until it is written down."""
        now = datetime.now(UTC)
        since = (now - timedelta(seconds=idle_seconds)).isoformat() if state == "idle" else None
        windows = [
            {
                "window": f"@{number}",
                "title": f"main:{number}",
                "label": None,
                "panes": [
                    {
                        "pane": f"%{number}",
                        "claude_session": session,
                        "active": active,
                        "state": state,
                        "idle_since": since,
                        "cwd": "/srv/work",
                        "repo": "example/work",
                    }
                ],
            }
            for number, session in enumerate(sessions, 1)
        ]
        await self.until_acknowledged(
            await self.say("windows", now=now.isoformat(), windows=windows)
        )

    async def _next(self, seconds: float) -> dict[str, Any]:
        with trio.fail_after(seconds):
            frame: dict[str, Any] = json.loads(await self.socket.get_message())
        return frame


def new_session() -> str:
    """The id of a Claude Code session that nobody has seen yet."""
    return str(uuid.uuid4())


async def new_host(db: Database, owner: Owner, name: str = "box") -> tuple[int, str]:
    """A host of the owner's; its id and its token."""
    host, token = await db.run(owner, add_host, AddHost(name=name))
    return host.id, token


async def find_mirrored(db: Database, owner: Owner, session: str) -> int:
    """The id of the row of a session that a host showed."""
    async with db.transaction(owner) as tx:
        found = await tx.scalar(FIND_MIRRORED, name=session)
    assert isinstance(found, int)
    return found
