"""The chief's own SQL: its conversation for each plugin."""

from muster.pg.database import Transaction
from muster.pg.query import Query

_OPEN_CONVERSATION = Query("""
    insert into conversations (owner_id, agent_id, plugin_id, title, created_at)
    values (%(owner_id)s, %(agent_id)s, %(plugin_id)s, %(title)s, %(now)s)
    returning id
""")

_FIND_CONVERSATION = Query("""
    select id from conversations
    where owner_id = %(owner_id)s and agent_id = %(agent_id)s and plugin_id = %(plugin_id)s
""")


async def open_conversation(tx: Transaction, agent_id: int, plugin_id: int, title: str) -> int:
    """Find the chief's conversation for a plugin, or begin it under the plugin's label.

    The caller holds the chief's row, so no other first turn inserts beside this one.
    """
    found = await tx.scalar(_FIND_CONVERSATION, agent_id=agent_id, plugin_id=plugin_id)
    if found is None:
        found = await tx.scalar(
            _OPEN_CONVERSATION, agent_id=agent_id, plugin_id=plugin_id, title=title
        )
    assert isinstance(found, int)
    return found
