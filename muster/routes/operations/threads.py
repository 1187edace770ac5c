"""Binding a thread to the session that started it, and finding whose a thread is."""

from muster.errors import Refused
from muster.mirror.operations.sessions import find_session
from muster.outcomes import Fact
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.routes.threads import BindThread, BoundThread, check_bind

__all__ = ["BindThread", "BoundThread", "bind_thread", "find_thread"]

FIND_THREAD = Query("""
    select m.id as mirrored_id, m.claude_session
    from plugin_threads t join mirrored m on m.owner_id = t.owner_id and m.id = t.mirrored_id
    where t.owner_id = %(owner_id)s and t.thread = %(thread)s
""")


async def find_thread(tx: Transaction, thread: str) -> BoundThread | None:
    """Whose thread this is; None for one that nobody's send started."""
    return await tx.find(FIND_THREAD, BoundThread, thread=thread)


# Of two first reports the second waits for the first, and then inserts nothing.
BIND_THREAD = Query("""
    insert into plugin_threads (owner_id, thread, mirrored_id, bound_at)
    values (%(owner_id)s, %(thread)s, %(mirrored_id)s, %(now)s)
    on conflict do nothing
    returning id
""")


async def bind_thread(tx: Transaction, command: BindThread) -> bool:
    """As the owner: note whose thread this is; whether it is new (the first report stays).

    Raises Invalid for a field, Refused (`session_offline`) when no online window shows the session:
    then nothing is bound. You don't get Refused for a thread that is bound already.
    """
    check_bind(command)
    if await find_thread(tx, command.thread) is not None:
        return False
    session = await find_session(tx, command.claude_session)
    if session is None or not session.online:
        raise Refused("No online window shows this session.", code="session_offline")
    bound = await tx.scalar(BIND_THREAD, thread=command.thread, mirrored_id=session.id)
    if bound is None:
        return False
    await tx.record(
        Fact(
            action="plugin_thread.bound",
            subject=f"mirrored:{session.id}",
            data={"thread": command.thread, "claude_session": command.claude_session},
        )
    )
    return True
