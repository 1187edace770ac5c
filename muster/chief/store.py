"""The chief's own SQL: its conversation for each plugin."""

import attrs

from muster.pg.database import Transaction
from muster.pg.query import Query

_OPEN_CONVERSATION = Query("""
    insert into conversations (owner_id, agent_id, plugin_id, title, created_at)
    values (%(owner_id)s, %(agent_id)s, %(plugin_id)s, %(title)s, %(now)s)
    returning id
""")

_FIND_CHIEF_IN_DEMAND = Query("""
    select a.id from agents a
    where a.owner_id = %(owner_id)s and a.chief and a.retired_at is null
      and exists (select from messages m where m.owner_id = a.owner_id and m.state = 'queued')
""")


async def find_chief_in_demand(tx: Transaction) -> int | None:
    """The owner's live chief while something is queued for it; no lock is taken."""
    found = await tx.scalar(_FIND_CHIEF_IN_DEMAND)
    assert found is None or isinstance(found, int)
    return found


_FIND_SETTING = Query("""
    select
        p.label, p.scope, p.revoked_at is null as plugin_lives,
        exists (
            select from users u where u.id = p.owner_id and u.disabled_at is null
        ) as owner_enabled,
        (
            select c.id from conversations c
            where c.owner_id = p.owner_id and c.agent_id = %(agent_id)s and c.plugin_id = p.id
        ) as conversation_id,
        exists (
            select from messages m
            where m.owner_id = p.owner_id and m.agent_id = %(agent_id)s and m.state = 'delivering'
        ) or exists (
            select from turns t
            where t.owner_id = p.owner_id and t.agent_id = %(agent_id)s and t.state = 'delivering'
        ) as is_delivering,
        exists (
            select from turns t
            where t.owner_id = p.owner_id and t.agent_id = %(agent_id)s and t.state = 'queued'
        ) as words_wait,
        nextval('turns_id_seq') as turn_id
    from plugins p
    where p.owner_id = %(owner_id)s and p.id = %(plugin_id)s
""")


@attrs.frozen(kw_only=True)
class TurnSetting:
    """What a turn on a plugin's message needs to know; `is_delivering`: an older one is left.

    `turn_id` is the turn's own from here on, so that its row can be written without a trip.
    """

    label: str
    scope: str
    plugin_lives: bool
    owner_enabled: bool
    conversation_id: int | None
    is_delivering: bool
    words_wait: bool
    turn_id: int


async def find_setting(tx: Transaction, agent_id: int, plugin_id: int) -> TurnSetting:
    """Look at all of it at once; the caller holds the chief's row."""
    return await tx.one(_FIND_SETTING, TurnSetting, agent_id=agent_id, plugin_id=plugin_id)


async def open_conversation(tx: Transaction, agent_id: int, plugin_id: int, title: str) -> int:
    """Begin the chief's conversation for a plugin, under the plugin's label.

    The caller holds the chief's row and saw that there is none, so no other begins one beside it.
    """
    made = await tx.scalar(_OPEN_CONVERSATION, agent_id=agent_id, plugin_id=plugin_id, title=title)
    assert isinstance(made, int)
    return made
