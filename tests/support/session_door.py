"""A mirrored session's calls at `/mirror/mcp`, as the program beside it makes them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx2

from muster.messages.rules import Message
from muster.principals import Agent
from tests.support.agent_mail import MailDesk
from tests.support.builders import make_chief, make_message
from tests.support.mirror_host import ScriptedHost, new_host, new_session
from tests.support.server import MCP_HEADERS


@attrs.frozen(kw_only=True)
class SessionDoor:
    """A host of the desk's owner whose pane `%1` shows `session`, and `%2` another one."""

    desk: MailDesk
    host: ScriptedHost
    token: str
    session: str
    other: str

    async def ask(
        self, method: str, params: dict[str, object], *, pane: str | None = "%1"
    ) -> httpx2.Response:
        """One request."""
        headers = MCP_HEADERS | ({} if pane is None else {"Muster-Pane": pane})
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with self.desk.server.client(self.token) as client:
            return await client.post("/mirror/mcp", json=body, headers=headers)

    async def tools(self) -> set[str]:
        """The names of the tools."""
        answer = await self.ask("tools/list", {})
        return {tool["name"] for tool in answer.json()["result"]["tools"]}

    async def call(self, name: str, *, pane: str = "%1", **arguments: object) -> dict[str, Any]:
        """What a tool answers; a refusal has `refused`."""
        answer = await self.ask("tools/call", {"name": name, "arguments": arguments}, pane=pane)
        assert answer.status_code == 200, answer.text
        result = answer.json()["result"]
        told: dict[str, Any] = json.loads(result["content"][0]["text"])
        assert result.get("isError", False) == ("refused" in told), result
        return told


@asynccontextmanager
async def session_door(desk: MailDesk, name: str = "box") -> AsyncIterator[SessionDoor]:
    """A new host, connected."""
    _, token = await new_host(desk.db, desk.owner, name)
    session, other = new_session(), new_session()
    async with ScriptedHost(desk.server.url, token) as host:
        await host.hello()
        await host.show(session, other, state="working")
        yield SessionDoor(desk=desk, host=host, token=token, session=session, other=other)


@attrs.frozen(kw_only=True)
class Setting:
    """The door, and the owner's chief, which is not connected."""

    door: SessionDoor
    chief: Agent

    @property
    def desk(self) -> MailDesk:
        """The desk of the door's owner."""
        return self.door.desk

    async def message(self, **fields: Any) -> Message:
        """A message that the chief has."""
        return await make_message(self.desk.db, self.desk.plugin, delivered_to=self.chief, **fields)


@asynccontextmanager
async def session_setting(desk: MailDesk) -> AsyncIterator[Setting]:
    """A door and a chief."""
    async with session_door(desk) as door:
        yield Setting(door=door, chief=await make_chief(desk.db, desk.owner))
