"""What the page Plugins shows, in one look (plugins: "Two ways in", "Retrying an …")."""

# ruff: noqa: S608 - what is put into the statements is a constant of this module

from datetime import datetime
from typing import Final

import attrs

from muster.chief.operations.retry import ListUnconfirmed, RetryList, list_unconfirmed
from muster.messages.rules import HOUR, NEW_PER_HOUR_MAX, UNDELIVERED_MAX
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.plugins.operations import list_plugins
from muster.plugins.rules import ListPlugins, PluginView

SHOWN_MAX: Final = 200


@attrs.frozen(kw_only=True)
class PluginDesk:
    """The live plugins, what each used of its hour, the ended ones, and the retry list."""

    live: list[PluginView]
    used: dict[int, int]  # messages of the last hour, by plugin; counted no further than the limit
    ended: list[PluginView]
    unconfirmed: RetryList
    hour_max: int
    waiting_max: int
    now: datetime


# By messages_allowance_idx: the order and a limit that is spelled out lead there.
COUNT_HOUR = Query(f"""
    select p.id, hour.used
    from plugins p
    cross join lateral (
        select count(*) as used from (
            select from messages m
            where m.plugin_id = p.id and m.created_at > %(since)s
            order by m.created_at desc
            limit {NEW_PER_HOUR_MAX}
        ) counted
    ) hour
    where p.owner_id = %(owner_id)s and p.revoked_at is null
""")


@attrs.frozen(kw_only=True)
class _Used:
    id: int
    used: int


async def look_at_plugins(tx: Transaction, command: ListPlugins) -> PluginDesk:
    """Look at the owner's plugins, and at what the chief did not confirm."""
    found = await list_plugins(tx, command)
    counted = await tx.all(COUNT_HOUR, _Used, since=tx.now - HOUR)
    ended = [plugin for plugin in found if plugin.revoked_at is not None]
    return PluginDesk(
        live=[plugin for plugin in found if plugin.revoked_at is None],
        used={one.id: one.used for one in counted},
        ended=sorted(ended, key=lambda plugin: plugin.revoked_at or tx.now, reverse=True),
        unconfirmed=await list_unconfirmed(tx, ListUnconfirmed(limit=SHOWN_MAX)),
        hour_max=NEW_PER_HOUR_MAX,
        waiting_max=UNDELIVERED_MAX,
        now=tx.now,
    )
