"""The section "Agents' tokens" of `/settings`: the agents, their tokens, and the forms of both.

A new token is shown once, by the answer to its form, with the lines that start a runner with it.
Making, revoking and retiring need a fresh sign-in: an agent is a way in, and the chief the one that
reads what comes.
"""

from collections.abc import Mapping
from typing import Final

from quart import Blueprint
from quart.typing import ResponseReturnValue

from muster.agents.operations import add_agent, list_agents, retire_agent
from muster.agents.operations.tokens import (
    add_agent_token,
    list_agent_tokens,
    revoke_agent_token,
)
from muster.agents.rules import AddAgent, AddToken, AgentRow, ListAgents, RetireAgent, RevokeToken
from muster.errors import Invalid
from web.pages.reading import read_id
from web.pages.visits import Visit, go_to, show, signed_in

AGENTS: Final = Blueprint("agents", __name__)
PARTS: Final = ("chief", "successor", "agent")
_SECTION: Final = "/settings#agents"


async def load_agents(visit: Visit) -> Mapping[str, object]:
    """The live agents, who of them is the chief, and the live tokens of each."""
    async with visit.node.db.transaction(visit.owner) as tx:
        agents = await list_agents(tx, ListAgents())
        tokens = await list_agent_tokens(tx, None)
    chief = next((agent for agent in agents if agent.chief), None)
    return {"agents": agents, "tokens": tokens, "chief": chief}


@signed_in(AGENTS, "POST", "/settings/agents", page="/settings")
async def add(visit: Visit) -> ResponseReturnValue:
    """Make an agent and show its token, this once."""
    part = visit.form.get("part", "agent")
    if part not in PARTS:
        raise Invalid("Choose what part the agent has.", field="part")
    name = visit.form.get("name", "").strip()
    command = AddAgent(name=name, chief=part != "agent", replace=part == "successor")
    agent, text = await visit.node.db.run(visit.owner, visit.risky(add_agent), command)
    return await _show_token(visit, agent, text, is_new=True)


@signed_in(AGENTS, "POST", "/settings/agents/<name>/tokens", page="/settings")
async def add_token(visit: Visit, name: str) -> ResponseReturnValue:
    """Make an agent another token and show it, this once."""
    command = AddToken(name=name)
    agent, text = await visit.node.db.run(visit.owner, visit.risky(add_agent_token), command)
    return await _show_token(visit, agent, text, is_new=False)


@signed_in(AGENTS, "POST", "/settings/agents/<name>/tokens/<token_id>/revoke", page="/settings")
async def revoke_token(visit: Visit, name: str, token_id: str) -> ResponseReturnValue:
    """End one token of an agent, and the runner that is connected by it."""
    command = RevokeToken(name=name, token_id=read_id(token_id))
    await visit.node.db.run(visit.owner, visit.risky(revoke_agent_token), command)
    return go_to(_SECTION)


@signed_in(AGENTS, "POST", "/settings/agents/<name>/retire", page="/settings")
async def retire(visit: Visit, name: str) -> ResponseReturnValue:
    """End an agent and its tokens, for good."""
    await visit.node.db.run(visit.owner, visit.risky(retire_agent), RetireAgent(name=name))
    return go_to(_SECTION)


async def _show_token(
    visit: Visit, agent: AgentRow, text: str, *, is_new: bool
) -> ResponseReturnValue:
    public_url = visit.node.config.public_url
    return await show(
        "agent_made.html", agent=agent, token=text, is_new=is_new, public_url=public_url
    )
