"""An empty muster and whoever opens it first: what a newcomer and their first programs do."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from muster.accounts.operations.links import make_link
from muster.accounts.operations.sessions import knock_session
from muster.pg.pool import Pool
from muster.principals import Node, Owner, System
from tests.support.browser import Tab
from tests.support.builders import new_agent
from tests.support.cluster import OwnDatabase, SpiedDatabase
from tests.support.desk import Desk
from tests.support.server import ScriptedAgent, Server, call_tool, running_server

TURN_SECONDS_MAX = 20.0
PASSWORD = "correct horse battery"


@attrs.frozen(kw_only=True)
class Empty:
    """A server without an account, and the address that opens the first one."""

    server: Server
    db: SpiedDatabase
    setup: str

    async def desk(self, tab: Tab, plugin_token: str) -> Desk:
        """What the account that the tab is signed in to has by now, and a chief of its own."""
        async with self.db.transaction(System(), look=True) as tx:
            visitor = await knock_session(tx, await cookie_of(tab))
        assert visitor is not None
        owner = Owner(owner_id=visitor.owner_id, via="cli")
        chief_id, chief_token = await new_agent(self.db, owner)
        return Desk(
            server=self.server,
            db=self.db,
            owner=owner,
            plugin_token=plugin_token,
            chief_token=chief_token,
            chief_id=chief_id,
        )


@asynccontextmanager
async def empty_server(database: OwnDatabase, **settings: str) -> AsyncIterator[Empty]:
    """Serve a database in which nobody has an account, as `muster serve` finds it at first."""
    pool = Pool(database.app_url, size=8, waiters_max=100)
    try:
        db = SpiedDatabase(pool)
        async with running_server(db, database.app_url, **settings) as server:
            link = await db.run(Node(), make_link, None)
            yield Empty(server=server, db=db, setup=f"/setup?link={link.text}")
    finally:
        pool.close()


async def cookie_of(tab: Tab) -> str:
    """The session of whoever is signed in."""
    cookies = await tab.do(lambda page: page.context.cookies())
    (value,) = [cookie["value"] for cookie in cookies if cookie["name"] == "muster_session"]
    return value


@attrs.frozen(kw_only=True)
class Chief:
    """The newcomer's chief, with its tools."""

    desk: Desk
    agent: ScriptedAgent

    async def turn(self) -> dict[str, Any]:
        """Wait for the next turn, and begin it."""
        with trio.fail_after(TURN_SECONDS_MAX):
            while True:
                frame: dict[str, Any] = json.loads(await self.agent.socket.get_message())
                if frame["type"] == "turn":
                    await self.agent.send("turn.started", turn_id=frame["turn_id"])
                    return frame
                assert frame["type"] == "ping", frame
                await self.agent.send("pong")

    async def call(self, name: str, **arguments: object) -> dict[str, Any]:
        """Call one of its tools, which does it."""
        result = await call_tool(self.desk.server, self.desk.chief_token, name, **arguments)
        assert not result.get("isError"), result
        content: dict[str, Any] = result["structuredContent"]
        return content

    async def done(self, turn: dict[str, Any], text: str = "Done.") -> None:
        """End the turn."""
        await self.agent.send("turn.done", turn_id=turn["turn_id"], text=text)


@asynccontextmanager
async def chief_of(desk: Desk) -> AsyncIterator[Chief]:
    """Connect the chief."""
    async with desk.agent() as agent:
        await agent.next_frame("welcome")
        yield Chief(desk=desk, agent=agent)
