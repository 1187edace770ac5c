"""An owner's desk at the pages, and a host of theirs whose window shows a session."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import attrs
import httpx2

from muster.chief.operations.routing.making import RouteMessage, route_message
from muster.messages.rules import Message
from muster.mirror.operations import queue
from muster.mirror.rules import subject_of
from muster.mirror.send_rules import ListQueue, QueuedSend
from muster.routes.rules import By, Route
from tests.support.mirror_host import ScriptedHost, find_mirrored, new_host, new_session
from tests.support.owner_desk import OpenOwnerDesk, OwnerDesk

WINDOW_SECONDS = 12 * 3600


@attrs.frozen(kw_only=True)
class MirroredDesk:
    """`name` is the Claude Code id of the session that the host shows."""

    at: OwnerDesk
    host: ScriptedHost
    name: str
    mirrored_id: int

    @property
    def path(self) -> str:
        """The session's page."""
        return f"/sessions/{self.mirrored_id}"

    async def page(self) -> str:
        """Its markup."""
        return await self.at.page(self.path)

    async def send(self, text: str, **fields: str) -> httpx2.Response:
        """Send the form of the page."""
        return await self.at.visiting.post(f"{self.path}/sends", text=text, **fields)

    async def texts(self, *, ended: bool = False) -> list[QueuedSend]:
        """The session's queue, or what ended."""
        command = ListQueue(
            mirrored_id=self.mirrored_id, stepup_window_seconds=WINDOW_SECONDS, ended=ended
        )
        return await self.at.db.run(self.at.owner, queue.list_queue, command)

    async def focus(self, title: str, source: str = "summary", cwd: str = "/srv/work") -> None:
        """The host tells what the session is about."""
        said = await self.host.say(
            "focus", claude_session=self.name, title=title, source=source, cwd=cwd,
            at=datetime.now(UTC).isoformat(),
        )  # fmt: skip
        await self.host.until_acknowledged(said)

    async def paste_done(self, send_id: int, outcome: str, detail: str = "") -> None:
        """The host tells what became of a text."""
        done = {"send_id": send_id, "outcome": outcome, "detail": detail}
        await self.host.until_acknowledged(await self.host.say("paste.done", **done))

    async def route(self, message: Message, by: By = By.CHIEF, via: str | None = None) -> Route:
        """Hand a message that the chief has to the session."""
        command = RouteMessage(message_id=message.id, subject=subject_of(self.name), by=by, via=via)
        principal = self.at.chief if by is By.CHIEF else self.at.owner
        return await self.at.server.node.db.run(principal, route_message, command)


@asynccontextmanager
async def at_host(
    at: OwnerDesk, *, interactive: bool = True, state: str = "working", idle_seconds: float = 60
) -> AsyncIterator[MirroredDesk]:
    """Connect a host of the desk's owner, whose one window shows a session."""
    _, token = await new_host(at.db, at.owner)
    async with ScriptedHost(at.server.url, token) as host:
        await host.hello(interactive=interactive)
        name = new_session()
        await host.show(name, state=state, idle_seconds=idle_seconds)
        mirrored_id = await find_mirrored(at.db, at.owner, name)
        yield MirroredDesk(at=at, host=host, name=name, mirrored_id=mirrored_id)


@asynccontextmanager
async def mirrored(
    owner_desk: OpenOwnerDesk, *, settings: dict[str, str] | None = None, **shown: object
) -> AsyncIterator[MirroredDesk]:
    """Open a desk and such a host; MUSTER_* settings, and what `at_host` takes as keywords."""
    async with owner_desk(**(settings or {})) as at, at_host(at, **shown) as desk:  # type: ignore[arg-type]
        yield desk
