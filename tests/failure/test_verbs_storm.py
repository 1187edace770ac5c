"""Every room's verbs at once for one owner: nothing deadlocks, and what is once stays once."""

import random
from datetime import datetime

import attrs

from muster.attention.rules import OPEN_PER_OWNER_MAX
from muster.chief.gating import DAY, GATED_PER_DAY_MAX
from muster.chief.turns import WAITING_MAX
from muster.pg.query import Query
from muster.principals import Owner
from tests.support.cluster import SpiedDatabase
from tests.support.verb_storm import VerbStorm, open_verb_storm

ROUND_SECONDS = 5.0
ROUNDS_MAX = 4  # one, unless the machine is busy
WORKERS = 12

# Each names rows that must not be there; `what` is shown when there are some.
WRONG = {
    "a key has one open task": Query("""
        select g.tag as what from task_tags g
        join tasks t on t.owner_id = g.owner_id and t.id = g.task_id
        where g.owner_id = %(owner_id)s and g.tag like 'tracker:%%' and t.merged_into is null
          and t.status in ('open', 'in_progress', 'ready_for_review')
        group by g.tag having count(*) > 1
    """),
    "an answer is said once, to an agent that asked": Query("""
        select a.id::text as what from asks a
        left join turns t on t.owner_id = a.owner_id and t.ask_id = a.id
        where a.owner_id = %(owner_id)s
        group by a.id having count(t.id) > (case when a.plugin_message_id is null then 1 else 0 end)
    """),
    "a message and its newest turn agree": Query("""
        select m.id::text as what from messages m
        left join lateral (
            select t.state, t.agent_id from turns t
            where t.owner_id = m.owner_id and t.message_id = m.id order by t.attempt desc limit 1
        ) newest on true
        where m.owner_id = %(owner_id)s and m.state <> 'queued'
          and (newest.state, newest.agent_id) is distinct from (m.state, m.agent_id)
    """),
    "a message comes back by retries alone": Query("""
        select m.id::text as what from messages m
        where m.owner_id = %(owner_id)s and (
            m.retries <> (
                select count(*) from audit a where a.owner_id = m.owner_id
                  and a.subject = 'message:' || m.id and a.action = 'plugin.retried')
            or m.retries + 1 < (
                select count(*) from turns t where t.owner_id = m.owner_id and t.message_id = m.id))
    """),
    "a message is settled once, and drafted for once at a time": Query("""
        select m.id::text as what from messages m
        where m.owner_id = %(owner_id)s and (
            (m.settle_reason is not null)::int <> (
                select count(*) from audit a where a.owner_id = m.owner_id
                  and a.subject = 'message:' || m.id and a.action = 'plugin.message.settled')
            or 1 < (
                select count(*) from drafts d where d.owner_id = m.owner_id and d.message_id = m.id
                  and d.state in ('pending', 'approved') and d.claimed_at is null))
    """),
    "an item is pushed to a device once": Query("""
        select p.id::text as what from push_deliveries p
        where p.owner_id = %(owner_id)s and p.kind <> 'test'
          and exists (select from push_deliveries o where o.device_id = p.device_id
                        and o.kind = p.kind and o.item_id = p.item_id and o.id < p.id)
    """),
    "few asks are open": Query(f"""
        select count(*)::text as what from asks
        where owner_id = %(owner_id)s and state = 'open' having count(*) > {OPEN_PER_OWNER_MAX}
    """),
    "few words of the owner's wait": Query(f"""
        select agent_id::text as what from turns
        where owner_id = %(owner_id)s and state = 'queued' and said_by = 'owner'
        group by agent_id having count(*) > {WAITING_MAX}
    """),
}
GATED = Query("""
    select subject, at from audit
    where owner_id = %(owner_id)s and action = 'plugin.task_gated' order by at
""")


@attrs.frozen(kw_only=True)
class What:
    """A row that is wrong."""

    what: str


@attrs.frozen(kw_only=True)
class Gated:
    """A unit of a chief's day."""

    subject: str
    at: datetime


async def judge(storm: VerbStorm) -> None:
    """Nothing that holds at any time was broken."""
    wrong = {}
    async with storm.db.transaction(storm.owner) as tx:
        for name, query in WRONG.items():
            if found := await tx.all(query, What):
                wrong[name] = [row.what for row in found]
        spent = await tx.all(GATED, Gated)
    assert wrong == {}
    assert {turn_id for turn_id, count in storm.said.items() if count > 1} == set()
    for one in spent:
        same = [each.at for each in spent if each.subject == one.subject]
        assert sum(one.at <= at < one.at + DAY for at in same) <= GATED_PER_DAY_MAX


# What a storm that did not do it would say nothing about.
MUST = {
    *("begin", "settle_turn", "begin_words", "settle_words", "say", "answer_ask", "attention_ask"),
    *("ask_about_unrouted", "retry_message", "reserve_task", "create_task", "reply_draft"),
    *("approve", "claim_next", "post_notice", "merge_task", "ungate_task"),
    *("plan", "take_next", "settle", "remove_device", "add_agent", "accept_gateway"),
}


async def test_all_verbs_at_once(db: SpiedDatabase, owner: Owner) -> None:
    """Twelve workers do everything at random, some cut off: no deadlock, and all rules hold."""
    seed = random.randrange(1_000_000)
    storm = await open_verb_storm(db, owner, seed)
    for _ in range(ROUNDS_MAX):
        await storm.run(ROUND_SECONDS, WORKERS)
        assert storm.trouble == [], seed
        await judge(storm)
        if all(storm.done[name] for name in MUST):
            return
    never = {name for name in MUST if not storm.done[name]}
    raise AssertionError(f"{never} were never done: seed {seed}, refused {storm.refused}")
