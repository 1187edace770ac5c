"""The section "Agents' tokens" of `/settings`, by forms alone."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import attrs
import pytest

from muster.agents.operations import list_agents
from muster.agents.operations.tokens import list_agent_tokens
from muster.agents.rules import ListAgents
from tests.support.builders import make_agent
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.owner_desk import text_of
from tests.support.person import Person, add_person
from tests.support.server import ScriptedAgent, Server, running_server
from tests.support.visitor import Visiting, sign_in


@attrs.frozen(kw_only=True)
class At:
    """Somebody at the settings of a running server."""

    db: SpiedDatabase
    server: Server
    person: Person
    visiting: Visiting

    async def page(self) -> str:
        """The settings."""
        answer = await self.visiting.get("/settings")
        assert answer.status_code == 200
        return answer.text

    async def make(self, path: str = "/settings/agents", **fields: str) -> str:
        """Send a form that makes a token; the token."""
        answer = await self.visiting.post(path, **fields)
        assert answer.status_code == 200, text_of(answer.text)
        assert answer.headers["cache-control"] == "no-store"
        (token,) = re.findall(r">(mag_[^<]+)<", answer.text)
        assert "muster agent run" in answer.text
        assert token not in await self.page()
        return str(token)

    async def agents(self) -> dict[str, bool]:
        """The live agents, and whether each is the chief."""
        found = await self.db.run(self.person.owner, list_agents, ListAgents())
        return {agent.name: agent.chief for agent in found}


@asynccontextmanager
async def settings(db: SpiedDatabase, cluster: Cluster) -> AsyncIterator[At]:
    """Sign a new person in."""
    person = await add_person(db)
    async with running_server(db, cluster.app_url) as server:
        visiting = await sign_in(server, person.owner)
        async with visiting.client:
            yield At(db=db, server=server, person=person, visiting=visiting)


async def test_an_agent_is_made_in_the_page(db: SpiedDatabase, cluster: Cluster) -> None:
    """A chief is made, then an agent, then a successor; each token opens the socket."""
    async with settings(db, cluster) as at:
        assert "There is no agent yet" in await at.page()
        tokens = [
            await at.make(name="helper", part="chief"),
            await at.make(name="second", part="agent"),
            await at.make(name="third", part="successor"),
        ]
        assert await at.agents() == {"helper": False, "second": False, "third": True}
        assert "in the place of third" in await at.page()
        for token in tokens:
            async with ScriptedAgent(at.server.url, token) as agent:
                await agent.next_frame("welcome")


async def test_what_is_no_agent_is_refused(db: SpiedDatabase, cluster: Cluster) -> None:
    """A name that is taken or is none, a second chief and an unknown part make nothing."""
    async with settings(db, cluster) as at:
        await at.make(name="helper", part="chief")
        for status, fields in (
            (409, {"name": "helper", "part": "agent"}),
            (409, {"name": "other", "part": "chief"}),
            (400, {"name": "A b", "part": "agent"}),
            (400, {"name": "other", "part": "boss"}),
        ):
            answer = await at.visiting.post("/settings/agents", **fields)
            assert answer.status_code == status, fields
            assert "mag_" not in answer.text
        assert list(await at.agents()) == ["helper"]


async def test_tokens_are_listed_and_revoked(db: SpiedDatabase, cluster: Cluster) -> None:
    """Each token stands with its times; revoking one ends its runner and lets the other go on."""
    async with settings(db, cluster) as at:
        first = await at.make(name="helper", part="chief")
        second = await at.make("/settings/agents/helper/tokens")
        async with ScriptedAgent(at.server.url, first) as agent:
            await agent.next_frame("welcome")
            page = await at.page()
            revokes = re.findall(r'action="(/settings/agents/helper/tokens/\d+/revoke)"', page)
            assert len(revokes) == 2
            assert "Last used" in page
            gone = await at.visiting.post(revokes[0])
            assert (gone.status_code, gone.headers["location"]) == (303, "/settings#agents")
            assert await agent.close_code() == 4401
        async with ScriptedAgent(at.server.url, second) as agent:
            await agent.next_frame("welcome")
        assert (await at.visiting.post(revokes[0])).status_code == 404
        assert (await at.visiting.post("/settings/agents/nobody/tokens")).status_code == 404


async def test_agents_are_retired(db: SpiedDatabase, cluster: Cluster) -> None:
    """An agent stands with its part, and is retired by its form with all of its tokens."""
    async with settings(db, cluster) as at:
        await make_agent(db, at.person.owner, "helper", chief=True)
        assert ">chief<" in await at.page()
        answer = await at.visiting.post("/settings/agents/helper/retire")
        assert answer.headers["location"] == "/settings#agents"
        assert (await at.visiting.post("/settings/agents/helper/retire")).status_code == 404
        assert await at.agents() == {}
        assert await db.run(at.person.owner, list_agent_tokens, None) == {}


@pytest.mark.parametrize(
    "path", ["", "/helper/tokens", "/helper/tokens/{}/revoke", "/helper/retire"]
)
async def test_all_of_it_needs_a_fresh_sign_in(
    db: SpiedDatabase, cluster: Cluster, path: str
) -> None:
    """Making, revoking and retiring ask to confirm in place, and change nothing until then."""
    async with settings(db, cluster) as at:
        agent = await make_agent(db, at.person.owner, "helper", chief=False)
        (token,) = (await db.run(at.person.owner, list_agent_tokens, None))[agent.agent_id]
        db.clock_offset += timedelta(hours=12)
        form = {"name": "other", "part": "agent"}
        answer = await at.visiting.post(f"/settings/agents{path.format(token.id)}", **form)
        assert answer.status_code == 409
        assert "This needs a fresh sign-in" in answer.text
        assert 'name="confirm_password"' in answer.text
        assert await at.agents() == {"helper": False}
        kept = await db.run(at.person.owner, list_agent_tokens, None)
        assert [one.id for one in kept[agent.agent_id]] == [token.id]
