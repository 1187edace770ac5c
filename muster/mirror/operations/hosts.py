"""The verbs of hosts: machines that run `muster mirror`."""

# ruff: noqa: S608 - what is put into the statements is a constant of this room

from muster.accounts.operations import lock_account
from muster.credentials.operations import issue, revoke
from muster.credentials.rules import Issue, Revoke
from muster.errors import Conflict, NotFound, Refused, Unauthorized
from muster.ids import CredentialKind
from muster.mirror.rules import (
    HOSTS_MAX,
    AcceptHost,
    AddHost,
    HostRow,
    HostView,
    ListHosts,
    ReleaseHost,
    RetireHost,
    doubted_hint,
)
from muster.mirror.store import ONLINE
from muster.names import check_name
from muster.outcomes import Fact, Hint, HintKind
from muster.pg.database import Transaction
from muster.pg.query import Query

COUNT_HOSTS = Query("""
    select count(*) from hosts where owner_id = %(owner_id)s and retired_at is null
""")

INSERT_HOST = Query("""
    insert into hosts (owner_id, name, created_at) values (%(owner_id)s, %(name)s, %(now)s)
    on conflict do nothing
    returning id, owner_id, name, created_at, retired_at, machine, interactive, resume_spawn, epoch,
              node, connected_at, left_at
""")


async def add_host(tx: Transaction, command: AddHost) -> tuple[HostRow, str]:
    """Register a host and answer the text of its token, which is told this once.

    Raises Invalid for a bad name, Conflict while a live host has it, Refused at HOSTS_MAX.
    """
    check_name(command.name, field="name")
    await lock_account(tx)
    count = await tx.scalar(COUNT_HOSTS)
    assert isinstance(count, int)
    if count >= HOSTS_MAX:
        raise Refused(f"There are {HOSTS_MAX} hosts already; revoke one first.", code="too_many")
    host = await tx.find(INSERT_HOST, HostRow, name=command.name)
    if host is None:
        raise Conflict(f"There is a host named {command.name} already.", code="name_taken")
    issued = await issue(tx, Issue(kind=CredentialKind.MIRROR_HOST, holder_id=host.id))
    await tx.record(Fact(action="host.added", subject=f"host:{host.id}", data={"name": host.name}))
    return host, issued.token.text


LIST_HOSTS = Query(f"""
    select h.id, h.owner_id, h.name, h.created_at, h.retired_at, h.machine, h.interactive,
           h.resume_spawn, h.epoch, h.node, h.connected_at, h.left_at, {ONLINE} as online,
           seen.last_seen_at
    from hosts h
    cross join lateral (
        select max(c.last_seen_at) as last_seen_at from credentials c
        where c.owner_id = h.owner_id and c.kind = 'mmh_' and c.holder_id = h.id
    ) seen
    where h.owner_id = %(owner_id)s and (h.retired_at is null or %(retired_too)s)
    order by h.name, h.id
    limit %(limit)s
""")


async def list_hosts(tx: Transaction, command: ListHosts) -> list[HostView]:
    """The owner's hosts by name."""
    return await tx.all(LIST_HOSTS, HostView, retired_too=command.retired_too, limit=command.limit)


RETIRE_HOST = Query("""
    update hosts set retired_at = %(now)s
    where owner_id = %(owner_id)s and name = %(name)s and retired_at is null
    returning id, owner_id, name, created_at, retired_at, machine, interactive, resume_spawn, epoch,
              node, connected_at, left_at
""")


async def retire_host(tx: Transaction, command: RetireHost) -> HostRow:
    """End the live host of that name, its token and its connection; NotFound when there is none."""
    host = await tx.find(RETIRE_HOST, HostRow, name=command.name)
    if host is None:
        raise NotFound(f"There is no live host named {command.name}.")
    await revoke(tx, Revoke(kind=CredentialKind.MIRROR_HOST, holder_id=host.id))
    await tx.record(
        Fact(action="host.retired", subject=f"host:{host.id}", data={"name": host.name})
    )
    tx.hint(doubted_hint(host))
    return host


# The row's lock makes two sockets of one host take turns; the later one has the higher epoch.
ACCEPT_HOST = Query("""
    update hosts
    set epoch = epoch + 1, node = %(node)s, connected_at = %(now)s, left_at = null,
        machine = %(machine)s, interactive = %(interactive)s, resume_spawn = %(resume_spawn)s
    where owner_id = %(owner_id)s and id = %(host_id)s and retired_at is null
    returning id, owner_id, name, created_at, retired_at, machine, interactive, resume_spawn, epoch,
              node, connected_at, left_at
""")


async def accept_host(tx: Transaction, command: AcceptHost) -> HostRow:
    """Note a new socket; raises Unauthorized once retired.

    The hint ends older sockets on other nodes. What they had in hand is settled by whoever calls
    this, in the same transaction (muster.mirror.operations.sends).
    """
    host = await tx.find(
        ACCEPT_HOST,
        HostRow,
        host_id=command.host_id,
        node=command.node,
        machine=command.machine,
        interactive=command.interactive,
        resume_spawn=command.resume_spawn,
    )
    if host is None:
        raise Unauthorized("This is no token of a live host.")
    tx.hint(doubted_hint(host))
    tx.hint(Hint(kind=HintKind.HOST_CHANGED, owner_id=tx.owner_id, id=host.id))
    return host


FIND_HOST_EPOCH = Query("""
    select epoch from hosts
    where owner_id = %(owner_id)s and id = %(host_id)s and retired_at is null
""")


async def find_host_epoch(tx: Transaction, host_id: int) -> int | None:
    """The epoch of a live host's newest socket, 0 before its first."""
    found = await tx.scalar(FIND_HOST_EPOCH, host_id=host_id)
    assert found is None or isinstance(found, int)
    return found


RELEASE_HOST = Query("""
    update hosts set node = null, left_at = %(now)s
    where owner_id = %(owner_id)s and id = %(host_id)s and epoch = %(epoch)s and node is not null
""")

# A session that no host shows any more was seen until now.
SEEN_UNTIL_NOW = Query("""
    update mirrored m set last_seen_at = greatest(m.last_seen_at, %(now)s)
    from panes p, windows w
    where m.owner_id = %(owner_id)s and p.mirrored_id = m.id and p.owner_id = m.owner_id
      and w.id = p.window_id and w.owner_id = m.owner_id and w.host_id = %(host_id)s
""")


async def release_host(tx: Transaction, command: ReleaseHost) -> bool:
    """Note that the socket of this epoch is closed; whether it was the newest."""
    touched = await tx.execute(RELEASE_HOST, host_id=command.host_id, epoch=command.epoch)
    if touched:
        await tx.execute(SEEN_UNTIL_NOW, host_id=command.host_id)
        tx.hint(Hint(kind=HintKind.HOST_CHANGED, owner_id=tx.owner_id, id=command.host_id))
    return bool(touched)
