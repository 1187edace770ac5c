"""Messages that the chief does nothing about are put before the owner, once each.

(plugins: "A message the chief does not act on".) For the plugin named agent-mail alone: 15 minutes
after its delivery, a message that still awaits a disposition becomes an ask of muster's. A later
disposition closes that ask at the next sweep. What can race: two sweeps (the account's row lock,
and the unique `plugin_message_id`), a disposition against the raise (the next sweep closes it).

Most agent-mail is answered, and stays so: a round marks what is finished, that nothing brings back
(a reply was sent, a task cites it, it was asked about), and no later round reads it. What a draft
keeps back is read again, for it may be rejected or expire, or turn out to have failed.
"""

# ruff: noqa: S608 - what is put into the statements is a constant of this module

from datetime import timedelta
from typing import Final

import attrs

from muster.attention import operations as attention
from muster.chief import dispositions
from muster.chief.fence import UNVERIFIED, one_line
from muster.pg.database import Transaction
from muster.pg.query import Query

UNROUTED_PLUGIN: Final = "agent-mail"
PATIENCE: Final = timedelta(minutes=15)
EXCERPT_CHARACTERS_MAX: Final = 600
FINISHED_MAX: Final = 5000  # looked at in a round, and marked
NO_ACTION: Final = "No action needed"
OPENING: Final = (
    "Your chief did nothing about this message. Answering settles it and sends nothing;"
    " to reply, ask your chief for a draft."
)


@attrs.frozen(kw_only=True)
class Questioned:
    """An owner whose messages or asks the sweep has to look at."""

    owner_id: int


# A place to look: the predicate itself reads what System may not see, so the owner's own
# transaction judges again. Whether a message was asked about is left to that too: the planner would
# read the whole table of asks for it.
FIND_OWNERS = Query("""
    select u.id as owner_id from users u
    where u.id > %(after)s and u.disabled_at is null
      and (
          exists (
              select from plugins p
              join messages m on m.plugin_id = p.id
              where p.owner_id = u.id and p.name = %(plugin)s
                and m.state = 'delivered' and m.dispositioned_at is null and not m.no_reply
                and m.finished_at is null and m.settled_at <= %(now)s - %(patience)s::interval
          )
          or exists (
              select from asks a
              where a.owner_id = u.id and a.state = 'open' and a.plugin_message_id is not null
          )
      )
    order by u.id
    limit %(limit)s
""")


@attrs.frozen(kw_only=True)
class FindOwners:
    """The next owners to look at, by their ids."""

    after: int
    limit: int


async def find_owners(tx: Transaction, command: FindOwners) -> list[Questioned]:
    """As System: whose messages may have to be asked about, or whose asks may be over."""
    return await tx.all(
        FIND_OWNERS,
        Questioned,
        after=command.after,
        limit=command.limit,
        plugin=UNROUTED_PLUGIN,
        patience=PATIENCE,
    )


@attrs.frozen(kw_only=True)
class AskAboutUnrouted:
    """Close the asks of messages that are disposed of, then ask about those that wait."""


@attrs.frozen(kw_only=True)
class Swept:
    """What a sweep did for an owner; `full`: messages wait and no more asks may be open."""

    closed: int
    raised: int
    full: bool


@attrs.frozen(kw_only=True)
class Waiting:
    """A message that nobody did anything about."""

    message_id: int
    sender: str | None
    sender_verified: bool
    subject: str | None
    excerpt: str
    is_cut: bool


@attrs.frozen(kw_only=True)
class _Over:
    ask_id: int


# Locked, so that an answer that comes meanwhile waits, or has ended the ask before and is not here.
LOCK_OVER = Query(f"""
    select a.id as ask_id from asks a
    join messages m on m.owner_id = a.owner_id and m.id = a.plugin_message_id
    where a.owner_id = %(owner_id)s and a.state = 'open' and a.plugin_message_id is not null
      and a.expires_at > %(now)s
      and {dispositions.DISPOSED}
    order by a.id
    for no key update of a
""")
LIST_WAITING = Query(f"""
    select m.id as message_id, m.sender, m.sender_verified, m.subject,
           left(m.body, {EXCERPT_CHARACTERS_MAX}) as excerpt,
           char_length(m.body) > {EXCERPT_CHARACTERS_MAX} as is_cut
    from plugins p
    join messages m on m.plugin_id = p.id
    where p.owner_id = %(owner_id)s and p.name = %(plugin)s and m.owner_id = %(owner_id)s
      and {dispositions.AWAITS} and m.finished_at is null
      and m.settled_at <= %(now)s - %(patience)s::interval
      and not exists (select from asks a where a.plugin_message_id = m.id)
    order by m.settled_at, m.id
    limit %(limit)s
""")


# Of the oldest a bounded number, for a first round may find years of them. Passed over is what
# another transaction holds; the next round comes by again.
FINISH = Query(f"""
    with oldest as (
        select m.owner_id, m.id from plugins p
        cross join lateral (
            select m.owner_id, m.id from messages m
            where m.plugin_id = p.id
              and m.state = 'delivered' and m.dispositioned_at is null and not m.no_reply
              and m.finished_at is null and m.settled_at <= %(now)s - %(patience)s::interval
            order by m.settled_at, m.id
            limit {FINISHED_MAX}
        ) m
        where p.owner_id = %(owner_id)s and p.name = %(plugin)s
    ), finished as (
        select m.owner_id, m.id from messages m
        join oldest on oldest.owner_id = m.owner_id and oldest.id = m.id
        where exists (select from asks a where a.plugin_message_id = m.id)
           or {dispositions.CITING_TASK}
           or exists (
               select from drafts d
               where d.owner_id = m.owner_id and d.message_id = m.id and d.state = 'sent')
        for no key update of m skip locked
    )
    update messages m set finished_at = %(now)s from finished
    where m.owner_id = finished.owner_id and m.id = finished.id
""")


async def ask_about_unrouted(tx: Transaction, command: AskAboutUnrouted) -> Swept:  # noqa: ARG001
    """As muster for one owner: one round of the sweep."""
    # The lock of the account comes first: a second sweep sees what this one asked.
    places = await attention.count_places(tx)
    over = await tx.all(LOCK_OVER, _Over)
    for one in over:
        await attention.cancel(tx, attention.Cancel(ask_id=one.ask_id))
    places += len(over)
    await tx.execute(FINISH, plugin=UNROUTED_PLUGIN, patience=PATIENCE)
    waiting = await tx.all(
        LIST_WAITING,
        Waiting,
        plugin=UNROUTED_PLUGIN,
        patience=PATIENCE,
        limit=places + 1,
    )
    for message in waiting[:places]:
        await attention.ask(
            tx,
            attention.AskOwner(
                asked_by=attention.AskedBy.MUSTER,
                question=question_about(message),
                answers=(NO_ACTION,),
                message_id=message.message_id,
                plugin_message_id=message.message_id,
            ),
        )
    return Swept(closed=len(over), raised=len(waiting[:places]), full=len(waiting) > places)


def question_about(message: Waiting) -> str:
    """What the owner is shown: who wrote, about what, and how the text begins.

    What the sender wrote keeps to one line each above the text, so it cannot pose as a line here.
    """
    mark = "" if message.sender_verified else f" {UNVERIFIED}"
    return "\n".join(
        [
            OPENING,
            f"From: {one_line(message.sender or '(no sender given)')}{mark}",
            f"Subject: {one_line(message.subject or '(none)')}",
            f"Plugin: {UNROUTED_PLUGIN} · message {message.message_id}",
            "",
            message.excerpt + ("…" if message.is_cut else ""),
        ]
    )
