"""One owner's plugin and chief at a running server, as most tests of the loop need them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import attrs
import httpx2
import pytest

from muster.messages.rules import State
from muster.principals import Owner
from tests.support.builders import get_message, new_agent, new_plugin
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.server import ScriptedAgent, Server, running_server
from tests.support.waiting import until


@attrs.frozen(kw_only=True)
class Desk:
    """The server, the tokens of a plugin and of a chief that is not connected yet."""

    server: Server
    db: SpiedDatabase
    owner: Owner
    plugin_token: str
    chief_token: str
    chief_id: int

    def agent(self) -> ScriptedAgent:
        """The chief's end of a gateway socket."""
        return ScriptedAgent(self.server.url, self.chief_token)

    async def post(self, external_id: str = "m1", **fields: object) -> int:
        """Post a message that is stored; its id."""
        answer = await self.send("messages", {"external_id": external_id, **MESSAGE, **fields})
        assert answer.status_code == 202, answer.text
        message_id: int = answer.json()["id"]
        return message_id

    async def claim(self, wait_seconds: int = 0) -> httpx2.Response:
        """Claim a reply."""
        return await self.send("drafts/claim", {"wait_seconds": wait_seconds})

    async def report(self, draft_id: int, **result: object) -> httpx2.Response:
        """Report what became of a claimed reply."""
        return await self.send(f"drafts/{draft_id}/result", result)

    async def send(self, path: str, body: object) -> httpx2.Response:
        """Post JSON to the plugin's door."""
        async with self.server.client(self.plugin_token) as client:
            return await client.post(f"/plugin/v1/{path}", json=body)

    async def state(self, message_id: int) -> State:
        """The message's state now."""
        return (await get_message(self.db, self.owner, message_id)).state

    async def reaches(self, message_id: int, state: State) -> None:
        """Wait until the message is in `state`."""

        async def there() -> bool:
            return await self.state(message_id) is state

        await until(there)


def error_of(answer: httpx2.Response) -> dict[str, Any]:
    """The JSON error of an answer."""
    assert answer.headers["content-type"] == "application/json"
    decoded: dict[str, Any] = answer.json()
    assert isinstance(decoded["error"], str)
    assert isinstance(decoded["code"], str)
    return decoded


MESSAGE = {"body": "Lunch?", "sender": "Ada"}

OpenDesk = Callable[..., AbstractAsyncContextManager[Desk]]


@pytest.fixture
def desk(db: SpiedDatabase, owner: Owner, cluster: Cluster) -> OpenDesk:
    """Opens a desk of the test's own owner; MUSTER_* settings as keywords."""

    @asynccontextmanager
    async def opened(**settings: str) -> AsyncIterator[Desk]:
        _, plugin_token = await new_plugin(db, owner)
        chief_id, chief_token = await new_agent(db, owner)
        async with running_server(db, cluster.app_url, **settings) as server:
            yield Desk(
                server=server,
                db=db,
                owner=owner,
                plugin_token=plugin_token,
                chief_token=chief_token,
                chief_id=chief_id,
            )

    return opened
