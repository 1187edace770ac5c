"""Who takes part: owners, each with plugins and a chief, made through muster's own operations."""

import random
from collections.abc import Sequence

import attrs
import trio

from muster.accounts.operations import add_user, next_user_id
from muster.accounts.rules import AddUser
from muster.agents.operations import add_agent
from muster.agents.rules import AddAgent
from muster.pg.database import Database, Transaction
from muster.plugins.operations import add_plugin
from muster.plugins.rules import AddPlugin
from muster.principals import Owner, System

MESSAGES_PER_PLUGIN = 50  # 60 an hour is what muster takes
PLUGINS_PER_OWNER = 20
PARALLEL = 4


@attrs.frozen(kw_only=True)
class Registered:
    """A plugin and its token."""

    name: str
    token: str = attrs.field(repr=False)
    messages: int


@attrs.frozen(kw_only=True)
class Party:
    """One owner, the plugins, and the chief's token."""

    owner: Owner
    name: str
    plugins: list[Registered]
    agent_token: str = attrs.field(repr=False)


def share(messages: int, owners: int) -> list[list[int]]:
    """How many messages each plugin of each owner posts: few enough for each one's allowance."""
    plugins = -(-messages // MESSAGES_PER_PLUGIN)
    counts = [MESSAGES_PER_PLUGIN] * plugins
    counts[-1] -= plugins * MESSAGES_PER_PLUGIN - messages
    return [counts[number::owners] for number in range(min(owners, plugins))]


async def make_parties(db: Database, shares: list[list[int]], *, prefix: str) -> list[Party]:
    """Make an owner for each share, with a plugin for each count in it."""
    parties: dict[int, Party] = {}
    limit = trio.CapacityLimiter(PARALLEL)

    async def make(number: int) -> None:
        async with limit:
            parties[number] = await _make_party(db, f"{prefix}{number}", shares[number])

    async with trio.open_nursery() as nursery:
        for number in range(len(shares)):
            nursery.start_soon(make, number)
    return [parties[number] for number in range(len(shares))]


async def _make_party(db: Database, name: str, counts: list[int]) -> Party:
    async with db.transaction(System()) as tx:
        owner = Owner(owner_id=await next_user_id(tx), via="cli")
    plugins = []
    async with db.transaction(owner) as tx:
        await _add_owner(tx, name)
        _, agent_token = await add_agent(tx, AddAgent(name="chief", chief=True))
        for number, count in enumerate(counts):
            plugin = f"{name}-p{number}"
            command = AddPlugin(name=plugin, label="Chaos", scope="chaos")
            _, token = await add_plugin(tx, command)
            plugins.append(Registered(name=plugin, token=token, messages=count))
    return Party(owner=owner, name=name, plugins=plugins, agent_token=agent_token)


async def _add_owner(tx: Transaction, name: str) -> None:
    email = f"{name}@example.test"
    await add_user(tx, AddUser(name=name, email=email, password_hash="no login"))


def deal(
    plugins: Sequence[Registered], hands: int, chance: random.Random
) -> list[list[Registered]]:
    """Give the plugins to so many processes, so that each has some of every owner's."""
    mixed = list(plugins)
    chance.shuffle(mixed)
    return [mixed[number::hands] for number in range(hands)]
