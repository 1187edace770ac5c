"""The rows of resumes: wanted, asked of a host, answered. The chief's room carries them on."""

# ruff: noqa: S608 - what is put into the statements is a constant of this room

from typing import Final

import attrs

from muster.messages.operations import hold_message
from muster.mirror.operations.sessions import find_session
from muster.mirror.resuming import (
    HELD_FOR,
    HOST_STARTS_MAX,
    WITHIN,
    Cause,
    Command,
    Denied,
    Gate,
    Resume,
    Started,
    WantResume,
    decide,
    look_hint,
    wanted,
    why_not,
)
from muster.mirror.store import ONLINE
from muster.outcomes import Changed
from muster.pg.database import Transaction
from muster.pg.query import Query

COLUMNS: Final = """
    r.id, r.owner_id, r.message_id, m.sender, r.claude_session, r.cause, r.routed_via,
    r.wanted_host_id, r.joined_id, r.state, r.created_at, r.asked, r.host_id, r.epoch, r.asked_at,
    r.started_at, r.tmux_window, r.waits_until, r.route_id, r.ended_at, r.why
"""
# Of the hosts that offer resumes and may be asked: those that started few enough. One that is asked
# now may start one.
OFFERS: Final = f"""
    h.owner_id = %(owner_id)s and {ONLINE} and h.interactive and h.resume_spawn
    and (not %(only)s or h.id = %(wanted_host_id)s) and not h.id = any(%(asked)s::bigint[])
    and (select count(*) from mail_resumes r
         where r.owner_id = h.owner_id and r.host_id = h.id
           and (r.started_at > %(since)s or r.state = 'asking')) < {HOST_STARTS_MAX}
"""

COUNT_HOSTS = Query(f"select count(*) from hosts h where {OFFERS}")

COUNT_STARTS = Query("""
    select count(*) from mail_resumes
    where owner_id = %(owner_id)s and claude_session = %(claude_session)s
      and started_at > %(since)s
""")

FIND_LEADER = Query("""
    select id from mail_resumes
    where owner_id = %(owner_id)s and claude_session = %(claude_session)s and joined_id is null
      and state in ('wanted', 'asking', 'waiting')
    for no key update
""")

INSERT_RESUME = Query("""
    insert into mail_resumes (owner_id, message_id, claude_session, cause, routed_via,
                              wanted_host_id, joined_id, state, created_at)
    values (%(owner_id)s, %(message_id)s, %(claude_session)s, %(cause)s, %(routed_via)s,
            %(wanted_host_id)s, %(joined_id)s, 'wanted', %(now)s)
    returning id
""")


async def want_resume(tx: Transaction, command: WantResume) -> str | None:
    """As muster: want a queued message's session resumed; the reason why not, or None.

    The caller holds the plugin's row, so two messages for one session come one after the other: the
    second joins the first one's resume, if that is still open.
    """
    leader_id = await tx.scalar(FIND_LEADER, claude_session=command.claude_session)
    if leader_id is None:
        no = why_not(await _gate(tx, command))
        if no is not None:
            return no
    resume_id = await tx.scalar(
        INSERT_RESUME,
        message_id=command.message_id,
        claude_session=command.claude_session,
        cause=command.cause,
        routed_via=command.routed_via,
        wanted_host_id=command.host_id,
        joined_id=leader_id,
    )
    await hold_message(tx, command.message_id, tx.now + HELD_FOR)
    resume = await tx.one(GET_RESUME, Resume, resume_id=resume_id)
    await tx.record(wanted(resume))
    tx.hint(look_hint(tx.owner_id, resume.id))
    return None


async def _gate(tx: Transaction, command: WantResume) -> Gate:
    session = await find_session(tx, command.claude_session)
    since = tx.now - WITHIN
    hosts = await tx.scalar(
        COUNT_HOSTS, only=command.only, wanted_host_id=command.host_id, asked=[], since=since
    )
    starts = await tx.scalar(COUNT_STARTS, claude_session=command.claude_session, since=since)
    return Gate(is_shown=session is not None and session.shown, hosts=hosts, session_starts=starts)


GET_RESUME = Query(f"""
    select {COLUMNS} from mail_resumes r
    join messages m on m.owner_id = r.owner_id and m.id = r.message_id
    where r.owner_id = %(owner_id)s and r.id = %(resume_id)s
""")


async def find_resume(tx: Transaction, resume_id: int) -> Resume | None:
    """The owner's resume of that id."""
    return await tx.find(GET_RESUME, Resume, resume_id=resume_id)


LOCK_RESUME = Query(f"""
    select {COLUMNS} from mail_resumes r
    join messages m on m.owner_id = r.owner_id and m.id = r.message_id
    where r.owner_id = %(owner_id)s and r.id = %(resume_id)s
    for no key update of r
""")


async def lock_resume(tx: Transaction, resume_id: int) -> Resume | None:
    """The same, its row locked; whoever locks its message too does so before."""
    return await tx.find(LOCK_RESUME, Resume, resume_id=resume_id)


@attrs.frozen(kw_only=True)
class Offering:
    """A host that offers to resume sessions, and the node that holds its socket."""

    id: int
    name: str
    epoch: int
    node: str


# The one that showed the session last is asked first. The lock makes the count of its starts exact.
NEXT_HOST = Query(f"""
    select h.id, h.name, h.epoch, h.node from hosts h
    where {OFFERS}
    order by h.id is not distinct from (
        select m.host_id from mirrored m
        where m.owner_id = h.owner_id and m.claude_session = %(claude_session)s) desc, h.id
    limit 1
    for no key update of h
""")


async def lock_next_host(tx: Transaction, resume: Resume) -> Offering | None:
    """The host to ask next, its row locked; None when there is no other."""
    return await tx.find(
        NEXT_HOST,
        Offering,
        only=resume.cause is Cause.REVIEW,
        wanted_host_id=resume.wanted_host_id,
        asked=resume.asked,
        since=tx.now - WITHIN,
        claude_session=resume.claude_session,
    )


SAVE_RESUME = Query("""
    update mail_resumes
    set state = %(state)s, asked = %(asked)s, host_id = %(host_id)s, epoch = %(epoch)s,
        asked_at = %(asked_at)s, started_at = %(started_at)s, tmux_window = %(tmux_window)s,
        waits_until = %(waits_until)s, route_id = %(route_id)s, ended_at = %(ended_at)s,
        why = %(why)s
    where owner_id = %(owner_id)s and id = %(id)s
""")


async def move(tx: Transaction, resume: Resume, command: Command) -> Resume:
    """Save what the rules say about a locked resume; unchanged where they refuse."""
    outcome = decide(resume, command, tx.now)
    return await tx.save(SAVE_RESUME, outcome) if isinstance(outcome, Changed) else resume


@attrs.frozen(kw_only=True)
class NoteAnswer:
    """What a host said about a resume, now or on a later connection."""

    resume_id: int
    answer: Started | Denied


async def note_answer(tx: Transaction, command: NoteAnswer) -> None:
    """As muster: write down a host's answer; one that comes too late changes nothing."""
    resume = await lock_resume(tx, command.resume_id)
    if resume is not None:
        await move(tx, resume, command.answer)


@attrs.frozen(kw_only=True)
class OpenResume:
    """A resume that is not over, for whoever carries it on."""

    id: int
    owner_id: int


FIND_OPEN = Query("""
    select id, owner_id from mail_resumes
    where state in ('wanted', 'asking', 'waiting')
    order by id limit %(limit)s
""")


async def find_open(tx: Transaction, limit: int) -> list[OpenResume]:
    """As System: the resumes that are not over, oldest first."""
    return await tx.all(FIND_OPEN, OpenResume, limit=limit)
