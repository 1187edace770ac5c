"""The verbs of plugins, with their SQL."""

from collections.abc import Iterable

from muster.credentials.operations import issue, revoke
from muster.credentials.rules import Issue, Revoke
from muster.errors import Conflict, NotFound, Unauthorized
from muster.ids import CredentialKind
from muster.outcomes import Fact
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.plugins.rules import (
    AddPlugin,
    ListPlugins,
    PluginName,
    PluginRow,
    PluginView,
    RevokePlugin,
    check,
    revoked,
)

# Two that add one name: the second waits for the first to commit and then inserts nothing.
INSERT_PLUGIN = Query("""
    insert into plugins (owner_id, name, label, scope, created_at)
    values (%(owner_id)s, %(name)s, %(label)s, %(scope)s, %(now)s)
    on conflict (owner_id, name) where revoked_at is null do nothing
    returning id, owner_id, name, label, scope, created_at, revoked_at
""")


async def add_plugin(tx: Transaction, command: AddPlugin) -> tuple[PluginRow, str]:
    """Register a plugin; answers it with the text of its token, which is told this once.

    Raises Invalid for a shape, Conflict while a live plugin has the name.
    """
    check(command)
    plugin = await tx.find(
        INSERT_PLUGIN, PluginRow, name=command.name, label=command.label, scope=command.scope
    )
    if plugin is None:
        raise Conflict(f"There is a live plugin named {command.name} already.", code="name_taken")
    issued = await issue(tx, Issue(kind=CredentialKind.PLUGIN, holder_id=plugin.id))
    await tx.record(
        Fact(
            action="plugin.added",
            subject=f"plugin:{plugin.id}",
            data={"name": plugin.name, "label": plugin.label, "scope": plugin.scope},
        )
    )
    return plugin, issued.token.text


# Both lateral looks go through an index: credentials_holder_idx and messages_waiting_idx.
LIST_PLUGINS = Query("""
    select p.id, p.owner_id, p.name, p.label, p.scope, p.created_at, p.revoked_at,
           seen.last_seen_at, waiting.waiting
    from plugins p
    cross join lateral (
        select max(c.last_seen_at) as last_seen_at from credentials c
        where c.owner_id = p.owner_id and c.kind = 'mpl_' and c.holder_id = p.id
    ) seen
    cross join lateral (
        select count(*) as waiting from messages m
        where m.plugin_id = p.id and m.state in ('queued', 'delivering')
    ) waiting
    where p.owner_id = %(owner_id)s and (p.revoked_at is null or %(revoked_too)s)
    order by p.name, p.id
    limit %(limit)s
""")


async def list_plugins(tx: Transaction, command: ListPlugins) -> list[PluginView]:
    """The owner's plugins (plugins: "Two ways in"). `waiting` counts queued and delivering."""
    return await tx.all(
        LIST_PLUGINS, PluginView, revoked_too=command.revoked_too, limit=command.limit
    )


FIND_PLUGIN = Query("""
    select id, owner_id, name, label, scope, created_at, revoked_at from plugins
    where owner_id = %(owner_id)s and name = %(name)s and revoked_at is null
""")


async def find_plugin(tx: Transaction, name: str) -> PluginRow | None:
    """The owner's live plugin of that name."""
    return await tx.find(FIND_PLUGIN, PluginRow, name=name)


NAME_PLUGINS = Query("""
    select id, name from plugins where owner_id = %(owner_id)s and id = any(%(plugin_ids)s)
""")


async def name_plugins(tx: Transaction, plugin_ids: Iterable[int]) -> dict[int, str]:
    """What the owner's plugins with these ids are called, the revoked ones too."""
    found = await tx.all(NAME_PLUGINS, PluginName, plugin_ids=sorted(set(plugin_ids)))
    return {plugin.id: plugin.name for plugin in found}


KNOWS_NAME = Query("""
    select exists (select from plugins where owner_id = %(owner_id)s and name = %(name)s)
""")


async def knows_name(tx: Transaction, name: str) -> bool:
    """Whether the owner has or had a plugin of that name."""
    return await tx.scalar(KNOWS_NAME, name=name) is True


LOCK_PLUGIN_BY_NAME = Query("""
    select id, owner_id, name, label, scope, created_at, revoked_at from plugins
    where owner_id = %(owner_id)s and name = %(name)s and revoked_at is null
    for no key update
""")
REVOKE_PLUGIN = Query("""
    update plugins set revoked_at = %(revoked_at)s
    where owner_id = %(owner_id)s and id = %(id)s and revoked_at is null
""")


async def revoke_plugin(tx: Transaction, command: RevokePlugin) -> PluginRow:
    """End the live plugin of that name and its token; raises NotFound when there is none."""
    plugin = await tx.find(LOCK_PLUGIN_BY_NAME, PluginRow, name=command.name)
    if plugin is None or command.plugin_id not in (None, plugin.id):
        raise NotFound(f"There is no live plugin named {command.name}.")
    await revoke(tx, Revoke(kind=CredentialKind.PLUGIN, holder_id=plugin.id))
    return await tx.save(REVOKE_PLUGIN, revoked(plugin, tx.now))


LOCK_LIVE_PLUGIN = Query("""
    select id, owner_id, name, label, scope, created_at, revoked_at from plugins
    where owner_id = %(owner_id)s and id = %(plugin_id)s and revoked_at is null
    for no key update
""")


async def lock_live_plugin(tx: Transaction, plugin_id: int) -> PluginRow:
    """The plugin's row, locked; raises Unauthorized once it is revoked.

    For a plugin's own door: its token was good at the knock and may have ended since.
    """
    plugin = await tx.find(LOCK_LIVE_PLUGIN, PluginRow, plugin_id=plugin_id)
    if plugin is None:
        raise Unauthorized("This is no token of a live plugin.")
    return plugin
