"""Owners, plugins and chiefs, made by the rooms' own operations in few commits.

No allowance is lifted for a benchmark: a plugin posts at most 60 new messages an hour and an agent
has at most 20 drafts pending, so the load is spread over as many of them as that asks for.
"""

import itertools
from collections.abc import Sequence

import attrs

from bench.server import Server
from muster.accounts.operations import add_user, next_user_id
from muster.accounts.rules import AddUser
from muster.agents.operations import add_agent
from muster.agents.rules import AddAgent
from muster.credentials.operations import knock
from muster.credentials.rules import Knock
from muster.ids import digest
from muster.pg.database import Database
from muster.plugins.operations import add_plugin
from muster.plugins.rules import AddPlugin
from muster.principals import Agent, Owner, Plugin, System

POSTS_PER_PLUGIN = 50  # of the 60 an hour
_numbers = itertools.count(1)


@attrs.frozen(kw_only=True)
class Plug:
    """A plugin: who it is in the database, and what it shows at the door."""

    principal: Plugin
    token: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Chief:
    """An owner's chief."""

    principal: Agent
    token: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Person:
    """An owner with what belongs to it."""

    owner: Owner
    plugs: tuple[Plug, ...]
    chief: Chief


async def make_people(server: Server, owners: int, *, plugins_each: int = 1) -> list[Person]:
    """Owners with a chief and plugins each; one transaction an owner."""
    db = server.db
    async with db.transaction(System()) as tx:
        ids = [await next_user_id(tx) for _ in range(owners)]
    people = [await _make(db, Owner(owner_id=one, via="cli"), plugins_each) for one in ids]
    server.unsent.clear()
    return people


def plugs_of(people: Sequence[Person]) -> list[Plug]:
    """Everybody's plugins, neighbours of different owners."""
    return [plug for row in zip(*(one.plugs for one in people), strict=True) for plug in row]


async def _make(db: Database, owner: Owner, plugins: int) -> Person:
    name = f"bench-{next(_numbers)}"
    email = f"{name}@example.test"
    async with db.transaction(owner) as tx:
        await add_user(tx, AddUser(name=name, email=email, password_hash="no login"))
        agent, agent_token = await add_agent(tx, AddAgent(name="chief", chief=True))
        added = [
            await add_plugin(tx, AddPlugin(name=f"mail-{number}", label="Bench", scope="bench"))
            for number in range(plugins)
        ]
    credentials = await _credentials(db, [agent_token, *(token for _, token in added)])
    chief = Agent(
        owner_id=owner.owner_id,
        agent_id=agent.id,
        name=agent.name,
        credential_id=credentials[agent_token],
    )
    plugs = [
        Plug(
            principal=Plugin(
                owner_id=owner.owner_id,
                plugin_id=row.id,
                name=row.name,
                credential_id=credentials[token],
            ),
            token=token,
        )
        for row, token in added
    ]
    return Person(owner=owner, plugs=tuple(plugs), chief=Chief(principal=chief, token=agent_token))


async def _credentials(db: Database, tokens: Sequence[str]) -> dict[str, int]:
    found = {}
    async with db.transaction(System()) as tx:
        for token in tokens:
            known = await knock(tx, Knock(sha256=digest(token)))
            assert known is not None
            found[token] = known.credential_id
    return found
