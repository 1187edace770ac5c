"""An agent's tokens on the database: made beside each other, revoked one by one."""

from functools import partial

import pytest

from muster.agents.operations import add_agent, retire_agent
from muster.agents.operations.tokens import (
    add_agent_token,
    list_agent_tokens,
    revoke_agent_token,
)
from muster.agents.rules import TOKENS_MAX, AddAgent, AddToken, RetireAgent, RevokeToken
from muster.credentials.operations import knock
from muster.credentials.rules import Knock
from muster.errors import NotFound, Refused
from muster.ids import digest
from muster.outcomes import HintKind
from muster.principals import Owner, System
from tests.support.barrier import collide
from tests.support.builders import read_audit
from tests.support.cluster import SpiedDatabase, add_owner

HELPER = AddToken(name="helper")


async def opens(db: SpiedDatabase, text: str) -> bool:
    """Whether a token opens its door."""
    async with db.transaction(System(), look=True) as tx:
        return await knock(tx, Knock(sha256=digest(text))) is not None


async def test_tokens_stand_beside_each_other(db: SpiedDatabase, owner: Owner) -> None:
    """Each token of an agent opens its door until it is revoked, and the others go on."""
    agent, first = await db.run(owner, add_agent, AddAgent(name="helper"))
    db.published.clear()
    _, second = await db.run(owner, add_agent_token, HELPER)
    assert [(hint.kind, hint.id) for hint in db.published] == [(HintKind.AGENT_CHANGED, agent.id)]
    tokens = (await db.run(owner, list_agent_tokens, None))[agent.id]
    assert len(tokens) == 2
    db.published.clear()
    command = RevokeToken(name="helper", token_id=tokens[0].id)
    await db.run(owner, revoke_agent_token, command)
    assert [(hint.kind, hint.id) for hint in db.published] == [(HintKind.AGENT_CHANGED, agent.id)]
    assert (await opens(db, first), await opens(db, second)) == (False, True)
    assert [row.data["token"] for row in await read_audit(db, owner, "agent.token_revoked")] == [
        tokens[0].id
    ]
    with pytest.raises(NotFound):
        await db.run(owner, revoke_agent_token, command)
    await db.run(owner, retire_agent, RetireAgent(name="helper"))
    assert not await opens(db, second)
    with pytest.raises(NotFound):
        await db.run(owner, add_agent_token, HELPER)


async def test_a_token_is_revoked_by_its_own_agent_and_owner_alone(
    db: SpiedDatabase, owner: Owner
) -> None:
    """A token that is named with another agent, or by another owner, goes on."""
    agent, text = await db.run(owner, add_agent, AddAgent(name="helper"))
    await db.run(owner, add_agent, AddAgent(name="other"))
    (token,) = (await db.run(owner, list_agent_tokens, None))[agent.id]
    stranger = await add_owner(db)
    await db.run(stranger, add_agent, AddAgent(name="helper"))
    for who, name in ((owner, "other"), (stranger, "helper")):
        with pytest.raises(NotFound):
            await db.run(who, revoke_agent_token, RevokeToken(name=name, token_id=token.id))
    assert await opens(db, text)


async def test_an_agent_has_a_bounded_number_of_tokens(db: SpiedDatabase, owner: Owner) -> None:
    """Of two that ask for the last one at once, one is refused."""
    agent, _ = await db.run(owner, add_agent, AddAgent(name="helper"))
    for _ in range(TOKENS_MAX - 2):
        await db.run(owner, add_agent_token, HELPER)
    ended = await collide(db, *[(owner, partial(add_agent_token, command=HELPER))] * 2)
    assert sorted(isinstance(end, Refused) for end in ended) == [False, True]
    assert len((await db.run(owner, list_agent_tokens, None))[agent.id]) == TOKENS_MAX
