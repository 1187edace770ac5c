"""The verbs of agents, with their SQL."""

from muster.accounts.operations import lock_account
from muster.agents.rules import (
    NODE_ALIVE_SECONDS,
    Accept,
    AddAgent,
    AgentRow,
    AgentView,
    ListAgents,
    Release,
    RetireAgent,
    changed_hint,
    check,
    deposed,
    retired,
)
from muster.credentials.operations import issue, revoke
from muster.credentials.rules import Issue, Revoke
from muster.errors import Conflict, NotFound, Unauthorized
from muster.ids import CredentialKind
from muster.outcomes import Fact, Hint, HintKind
from muster.pg.database import Transaction
from muster.pg.query import Query

INSERT_AGENT = Query("""
    insert into agents (owner_id, name, chief, provisioned, created_at)
    values (%(owner_id)s, %(name)s, %(chief)s, %(provisioned)s, %(now)s)
    on conflict do nothing
    returning id, owner_id, name, chief, provisioned, created_at, retired_at, epoch, node,
              connected_at
""")


async def add_agent(tx: Transaction, command: AddAgent) -> tuple[AgentRow, str]:
    """Register an agent; answers it with the text of its token, which is told this once.

    Raises Invalid for a shape; Conflict while a live agent has the name, or while there is a chief
    and `replace` is not said.
    """
    check(command)
    await lock_account(tx)
    if await find_agent(tx, command.name) is not None:
        raise Conflict(f"There is a live agent named {command.name} already.", code="name_taken")
    former = await lock_chief(tx) if command.chief else None
    if former is not None:
        if not command.replace:
            raise Conflict(
                f"The agent {former.name} is the chief already; --replace moves the chief.",
                code="chief_exists",
            )
        await tx.save(UPDATE_AGENT, deposed(former))
    agent = await tx.one(
        INSERT_AGENT,
        AgentRow,
        name=command.name,
        chief=command.chief,
        provisioned=command.chief,
    )
    issued = await issue(tx, Issue(kind=CredentialKind.AGENT, holder_id=agent.id))
    subject = f"agent:{agent.id}"
    await tx.record(
        Fact(action="agent.added", subject=subject, data={"name": agent.name, "chief": agent.chief})
    )
    if former is not None:
        await tx.record(
            Fact(action="agent.chief_moved", subject=subject, data={"from": f"agent:{former.id}"})
        )
    tx.hint(changed_hint(agent))
    return agent, issued.token.text


UPDATE_AGENT = Query("""
    update agents set chief = %(chief)s, retired_at = %(retired_at)s
    where owner_id = %(owner_id)s and id = %(id)s and retired_at is null
""")

LIST_AGENTS = Query("""
    select a.id, a.owner_id, a.name, a.chief, a.provisioned, a.created_at, a.retired_at, a.epoch,
           a.node, a.connected_at, seen.last_seen_at,
           coalesce(n.seen_at > %(now)s - make_interval(secs => %(alive_seconds)s), false)
               as is_connected
    from agents a
    left join nodes n on n.id = a.node
    cross join lateral (
        select max(c.last_seen_at) as last_seen_at from credentials c
        where c.owner_id = a.owner_id and c.kind = 'mag_' and c.holder_id = a.id
    ) seen
    where a.owner_id = %(owner_id)s and (a.retired_at is null or %(retired_too)s)
    order by a.name, a.id
    limit %(limit)s
""")


async def list_agents(tx: Transaction, command: ListAgents) -> list[AgentView]:
    """The owner's agents by name."""
    return await tx.all(
        LIST_AGENTS,
        AgentView,
        retired_too=command.retired_too,
        limit=command.limit,
        alive_seconds=NODE_ALIVE_SECONDS,
    )


FIND_AGENT = Query("""
    select id, owner_id, name, chief, provisioned, created_at, retired_at, epoch, node, connected_at
    from agents where owner_id = %(owner_id)s and name = %(name)s and retired_at is null
""")


async def find_agent(tx: Transaction, name: str) -> AgentRow | None:
    """The owner's live agent of that name."""
    return await tx.find(FIND_AGENT, AgentRow, name=name)


LOCK_AGENT = Query("""
    select id, owner_id, name, chief, provisioned, created_at, retired_at, epoch, node, connected_at
    from agents where owner_id = %(owner_id)s and name = %(name)s and retired_at is null
    for no key update
""")


async def retire_agent(tx: Transaction, command: RetireAgent) -> AgentRow:
    """End the live agent of that name and its token; raises NotFound when there is none."""
    await lock_account(tx)
    agent = await tx.find(LOCK_AGENT, AgentRow, name=command.name)
    if agent is None:
        raise NotFound(f"There is no live agent named {command.name}.")
    await revoke(tx, Revoke(kind=CredentialKind.AGENT, holder_id=agent.id))
    return await tx.save(UPDATE_AGENT, retired(agent, tx.now))


LOCK_CHIEF = Query("""
    select id, owner_id, name, chief, provisioned, created_at, retired_at, epoch, node, connected_at
    from agents where owner_id = %(owner_id)s and chief and retired_at is null
    for no key update
""")


async def lock_chief(tx: Transaction) -> AgentRow | None:
    """The owner's live chief, locked; None while there is none."""
    return await tx.find(LOCK_CHIEF, AgentRow)


LOCK_LIVE_AGENT = Query("""
    select id, owner_id, name, chief, provisioned, created_at, retired_at, epoch, node, connected_at
    from agents where owner_id = %(owner_id)s and id = %(agent_id)s and retired_at is null
    for no key update
""")


async def lock_live_agent(tx: Transaction, agent_id: int) -> AgentRow | None:
    """The owner's live agent of that id, locked: whoever begins a turn of its does so in turn."""
    return await tx.find(LOCK_LIVE_AGENT, AgentRow, agent_id=agent_id)


FIND_CHIEF_ID = Query("""
    select id from agents where owner_id = %(owner_id)s and chief and retired_at is null
""")


async def find_chief_id(tx: Transaction) -> int | None:
    """Who the owner's live chief is, without locking it."""
    found = await tx.scalar(FIND_CHIEF_ID)
    assert found is None or isinstance(found, int)
    return found


# The row's lock makes two sockets of one agent take turns; the later one has the higher epoch.
ACCEPT_GATEWAY = Query("""
    update agents
    set epoch = epoch + 1, node = %(node)s, connected_at = %(now)s, left_at = null
    where owner_id = %(owner_id)s and id = %(agent_id)s and retired_at is null
    returning id, owner_id, name, chief, provisioned, created_at, retired_at, epoch, node,
              connected_at
""")


async def accept_gateway(tx: Transaction, command: Accept) -> int:
    """Note a new gateway socket and answer its epoch; raises Unauthorized once retired.

    The hint ends older sockets on other nodes. What older epochs had in hand is settled by the
    chief's rooms, which know of turns.
    """
    agent = await tx.find(ACCEPT_GATEWAY, AgentRow, agent_id=command.agent_id, node=command.node)
    if agent is None:
        raise Unauthorized("This is no token of a live agent.")
    tx.hint(changed_hint(agent))
    return agent.epoch


FIND_EPOCH = Query("""
    select epoch from agents
    where owner_id = %(owner_id)s and id = %(agent_id)s and retired_at is null
""")


async def find_epoch(tx: Transaction, agent_id: int) -> int | None:
    """The epoch of a live agent's newest gateway socket, 0 before its first."""
    found = await tx.scalar(FIND_EPOCH, agent_id=agent_id)
    assert found is None or isinstance(found, int)
    return found


RELEASE_GATEWAY = Query("""
    update agents set node = null, connected_at = null, left_at = %(now)s
    where owner_id = %(owner_id)s and id = %(agent_id)s and epoch = %(epoch)s
""")


async def release_gateway(tx: Transaction, command: Release) -> None:
    """Note that the socket of this epoch is closed; a newer socket stays noted."""
    touched = await tx.execute(RELEASE_GATEWAY, agent_id=command.agent_id, epoch=command.epoch)
    if touched:
        kind = HintKind.AGENT_CHANGED
        tx.hint(Hint(kind=kind, owner_id=tx.owner_id, id=command.agent_id))


FIND_PROVISIONED = Query("""
    select chief and provisioned from agents
    where owner_id = %(owner_id)s and id = %(agent_id)s and retired_at is null
""")


async def is_provisioned_chief(tx: Transaction, agent_id: int) -> bool:
    """Whether muster made this agent as the chief that it is: then it has standing instructions."""
    return bool(await tx.scalar(FIND_PROVISIONED, agent_id=agent_id))
