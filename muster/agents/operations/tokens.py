"""An agent's tokens: it may have several, so that one can be changed while the runner goes on.

A runner whose token is revoked is closed at once: the hint has the agent's connection prove itself
again, by the very token that it came with.
"""

from muster.accounts.operations import lock_account
from muster.agents.operations import find_agent
from muster.agents.rules import TOKENS_MAX, AddToken, AgentRow, RevokeToken, changed_hint
from muster.credentials.operations import issue, list_live, revoke_one
from muster.credentials.rules import Issue, ListLive, LiveToken, RevokeOne
from muster.errors import NotFound, Refused
from muster.ids import CredentialKind
from muster.outcomes import Fact
from muster.pg.database import Transaction


async def list_agent_tokens(tx: Transaction, _command: None) -> dict[int, list[LiveToken]]:
    """The live tokens of each of the owner's agents, by the agent's id, the oldest first."""
    found: dict[int, list[LiveToken]] = {}
    for token in await list_live(tx, ListLive(kind=CredentialKind.AGENT)):
        found.setdefault(token.holder_id, []).append(token)
    return found


async def add_agent_token(tx: Transaction, command: AddToken) -> tuple[AgentRow, str]:
    """Make a live agent another token; answers the agent and the token's text, told this once.

    Raises NotFound when there is no such agent; Refused (`tokens_full`) once it has TOKENS_MAX.
    """
    agent = await _lock(tx, command.name)
    tokens = await list_agent_tokens(tx, None)
    if len(tokens.get(agent.id, ())) >= TOKENS_MAX:
        raise Refused(
            f"{agent.name} has {TOKENS_MAX} tokens; revoke one that is not used any more.",
            code="tokens_full",
        )
    issued = await issue(tx, Issue(kind=CredentialKind.AGENT, holder_id=agent.id))
    await tx.record(_fact("agent.token_added", agent, issued.credential_id))
    tx.hint(changed_hint(agent))
    return agent, issued.token.text


async def revoke_agent_token(tx: Transaction, command: RevokeToken) -> AgentRow:
    """End one live token of a live agent; raises NotFound when there is none such."""
    agent = await _lock(tx, command.name)
    one = RevokeOne(kind=CredentialKind.AGENT, holder_id=agent.id, credential_id=command.token_id)
    if not await revoke_one(tx, one):
        raise NotFound(f"{agent.name} has no such token, or it is revoked already.")
    await tx.record(_fact("agent.token_revoked", agent, command.token_id))
    tx.hint(changed_hint(agent))
    return agent


async def _lock(tx: Transaction, name: str) -> AgentRow:
    await lock_account(tx)
    agent = await find_agent(tx, name)
    if agent is None:
        raise NotFound(f"There is no live agent named {name}.")
    return agent


def _fact(action: str, agent: AgentRow, token_id: int) -> Fact:
    data = {"name": agent.name, "token": token_id}
    return Fact(action=action, subject=f"agent:{agent.id}", data=data)
