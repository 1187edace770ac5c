"""What sessions are about, kept as a history of titles."""

from muster.mirror.rules import FOCUS_CHARACTERS_MAX, NoteFocus, NoteTaskFocus
from muster.outcomes import Hint, HintKind
from muster.pg.database import Transaction
from muster.pg.query import Query

# A host may tell the focus of a session before it lists it, and only its newest socket may.
UPSERT_FOCUSED = Query("""
    insert into mirrored as m (owner_id, claude_session, host_id, cwd, first_seen_at, last_seen_at)
    select %(owner_id)s, %(claude_session)s, h.id, %(cwd)s, %(now)s, %(now)s
    from hosts h
    where h.owner_id = %(owner_id)s and h.id = %(host_id)s and h.epoch = %(epoch)s
      and h.retired_at is null
    on conflict (owner_id, claude_session) do update
        set cwd = coalesce(excluded.cwd, m.cwd),
            last_seen_at = greatest(m.last_seen_at, excluded.last_seen_at)
    returning id
""")

INSERT_FOCUS = Query("""
    insert into focus_titles (owner_id, mirrored_id, title, source, cwd, at, noted_at)
    values (%(owner_id)s, %(mirrored_id)s, %(title)s, %(source)s, %(cwd)s,
            least(%(at)s, %(now)s), %(now)s)
    on conflict do nothing
""")


async def note_focus(tx: Transaction, command: NoteFocus) -> bool:
    """Keep a title; whether the socket was the host's newest. Told again, it changes nothing."""
    mirrored_id = await tx.scalar(
        UPSERT_FOCUSED,
        claude_session=command.claude_session,
        host_id=command.host_id,
        epoch=command.epoch,
        cwd=command.cwd,
    )
    if mirrored_id is None:
        return False
    assert isinstance(mirrored_id, int)
    written = await tx.execute(
        INSERT_FOCUS,
        mirrored_id=mirrored_id,
        title=command.title,
        source=command.source,
        cwd=command.cwd,
        at=command.at,
    )
    if written:
        tx.hint(Hint(kind=HintKind.MIRRORED_CHANGED, owner_id=tx.owner_id, id=mirrored_id))
    return True


INSERT_TASK_FOCUS = Query("""
    insert into focus_titles (owner_id, agent_id, title, source, at, noted_at)
    values (%(owner_id)s, %(agent_id)s, %(title)s, 'task', %(now)s, %(now)s)
""")


async def note_task_focus(tx: Transaction, command: NoteTaskFocus) -> None:
    """As muster: keep what an agent works on, its task's title, cut to FOCUS_CHARACTERS_MAX.

    For whoever begins a turn of a task's; a title of white space alone says nothing.
    """
    title = " ".join(command.title.split())[:FOCUS_CHARACTERS_MAX].strip()
    if title:
        await tx.execute(INSERT_TASK_FOCUS, agent_id=command.agent_id, title=title)


DELETE_OLD_FOCUS = Query("""
    delete from focus_titles
    where owner_id = %(owner_id)s and noted_at < %(now)s - interval '30 days'
""")


async def forget_focus(tx: Transaction, _command: None = None) -> int:
    """As muster: delete the owner's titles that are older than FOCUS_KEPT; how many there were."""
    return await tx.execute(DELETE_OLD_FOCUS)
