"""What awaited a disposition before there were asks is settled: on data of the second schema."""

import itertools
from collections.abc import AsyncIterator
from datetime import timedelta

import attrs
import pytest

from muster.attention import operations as attention
from muster.chief.dispositions import awaits_disposition
from muster.chief.operations import unrouted
from muster.messages import rules as message_rules
from muster.pg import migrate as migrating
from muster.pg.database import Database, open_database
from muster.pg.driver import Connection, with_database, with_login
from muster.principals import Agent, Muster, Owner
from tests.support.builders import begin, get_message, move_message, read_audit
from tests.support.cluster import Cluster

_numbers = itertools.count(1)
DAY = timedelta(days=1)

# One owner as the second schema has them. Each message is named after what became of it.
FILL = """
set session_replication_role = replica;
insert into users (id, name, email, password_hash, created_at) values (7, 'ada', 'x', 'x', now());
insert into plugins (id, owner_id, name, label, scope, created_at) overriding system value
values (1, 7, 'mail', 'Mail', 'mail', now()), (2, 7, 'agent-mail', 'A', 'a', now());
insert into agents (id, owner_id, name, chief, provisioned, created_at) overriding system value
values (3, 7, 'helper', true, true, now());
insert into messages (owner_id, plugin_id, external_id, body, no_reply, sender_verified,
                      human_conversation, created_at, state, attempts, agent_id, epoch,
                      delivering_at, settled_at)
select 7, p.id, fate || p.id, 'hello', fate = 'mute', false, false, now() - interval '9 days',
       case when fate in ('queued', 'delivering', 'unconfirmed') then fate else 'delivered' end,
       1,
       case when fate <> 'queued' then 3 end, case when fate <> 'queued' then 1 end,
       case when fate <> 'queued' then now() - interval '8 days' end,
       case when fate not in ('queued', 'delivering') then now() - interval '8 days' end
from unnest(array['plain', 'mute', 'queued', 'delivering', 'unconfirmed', 'draft-pending',
                  'draft-approved', 'draft-sent', 'draft-failed', 'draft-unconfirmed',
                  'draft-rejected', 'draft-superseded', 'draft-expired', 'draft-overdue']) fate,
     plugins p
where p.id = 2 or fate in ('plain', 'draft-sent', 'draft-failed');
insert into drafts (owner_id, message_id, plugin_id, agent_id, body, body_sha256, state,
                    created_at, expires_at, approved_at, claimed_at, lease_expires_at, reported_at)
select 7, m.id, m.plugin_id, 3, 'x', sha256('x'), kind, now(),
       now() + case when m.external_id like 'draft-overdue%' then -interval '1 minute'
                    else interval '1 day' end,
       case when kind in ('approved', 'sent', 'failed', 'unconfirmed') then now() end,
       case when kind in ('sent', 'failed', 'unconfirmed') then now() end,
       case when kind in ('sent', 'failed', 'unconfirmed') then now() end,
       case when kind in ('sent', 'failed') then now() end
from messages m
cross join lateral (
    select replace(rtrim(replace(m.external_id, 'draft-', ''), '12'), 'overdue', 'pending') as kind
) named
where m.external_id like 'draft-%';
set session_replication_role = origin;
"""
SETTLED = {"plain", "draft-failed", "draft-rejected", "draft-superseded", "draft-expired"}
SETTLED |= {"draft-overdue"}
MESSAGES = """
    select id, external_id, settle_reason, dispositioned_at is not null as has_time
    from muster.messages order by id
"""
OWNER = Owner(owner_id=7, via="cli")


@attrs.frozen(kw_only=True)
class Kept:
    """A message after the migration."""

    id: int
    external_id: str
    settle_reason: str | None
    has_time: bool


@attrs.frozen(kw_only=True)
class Old:
    """A database at the second version, with data in it: whose it is, and how muster logs in."""

    keeper_url: str
    admin_url: str
    app_url: str


@pytest.fixture(params=["superuser", "owner"])
async def old(cluster: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[Old]:
    """Data of the first issue; its tables belong to a superuser, or to a plain role."""
    name = f"old_{next(_numbers)}"
    keeper = "postgres" if request.param == "superuser" else f"keeper_{name}"
    server = await Connection.open(cluster.admin_url)
    if keeper != "postgres":
        await server.script(f"create role {keeper} login createrole password 'keeper'")
    owner = "" if keeper == "postgres" else f" owner {keeper}"
    await server.script(f"create database {name}{owner}")
    admin_url = with_database(cluster.admin_url, name)
    keeper_url = admin_url if not owner else with_login(admin_url, keeper, "keeper")
    try:
        connection = await Connection.open(keeper_url)
        try:
            await connection.script("set client_min_messages to warning")
            await connection.script(migrating.PREPARE_SCHEMA)
            for migration in migrating.load_migrations()[:2]:
                await migrating._apply(connection, migration)
        finally:
            connection.close()
        admin = await Connection.open(admin_url)
        try:
            await admin.script("set search_path = muster")
            await admin.script(FILL)
        finally:
            admin.close()
        yield Old(
            keeper_url=keeper_url,
            admin_url=admin_url,
            app_url=with_database(cluster.app_url, name),
        )
    finally:
        await server.script(f"drop database {name} with (force)")
        if owner:
            await server.script(f"drop role {keeper}")
        server.close()


async def read_messages(url: str) -> list[Kept]:
    """Every message, whoever asks."""
    admin = await Connection.open(url)
    try:
        return await admin.fetch(MESSAGES, {}, Kept)
    finally:
        admin.close()


async def sweep(db: Database) -> int:
    """How many asks a round of the sweep raises."""
    swept = await db.run(
        Muster(owner_id=7), unrouted.ask_about_unrouted, unrouted.AskAboutUnrouted()
    )
    return swept.raised


@pytest.mark.rule(306)
async def test_nothing_is_asked_about_what_was_there(old: Old) -> None:
    """What awaited a disposition is settled, from any plugin; what is delivered later is judged."""
    await migrating.migrate(old.keeper_url, app_password=None)
    kept = await read_messages(old.admin_url)
    assert len(kept) == 17
    for message in kept:
        settled = message.external_id[:-1] in SETTLED
        assert message.settle_reason == ("pre-existing" if settled else None), message
        assert message.has_time is settled
    async with open_database(old.app_url, publish=lambda _: None, pool_size=2) as db:
        rows = await read_audit(db, OWNER, "plugin.message.settled")
        told = {f"message:{one.id}" for one in kept if one.settle_reason}
        assert {row.subject for row in rows} == told
        assert len(rows) == len(told)
        assert all((row.actor, dict(row.data)) == ("muster", REASON) for row in rows)
        # The sweep's own predicate finds none of them waiting.
        async with db.transaction(OWNER) as tx:
            assert not [one for one in kept if await awaits_disposition(tx, one.id)]
        db.clock_offset = DAY
        assert await sweep(db) == 2  # the drafts that nobody collected expired with the day
        # What was queued then is judged when it is delivered.
        (queued,) = [one.id for one in kept if one.external_id.startswith("queued")]
        (turn,) = [one.id for one in kept if one.external_id.startswith("delivering")]
        helper = Agent(owner_id=7, agent_id=3, name="helper", credential_id=0)
        await move_message(db, turn, message_rules.Fail(epoch=1), owner_id=7)
        await move_message(db, queued, begin(helper), owner_id=7)
        await move_message(db, queued, message_rules.Complete(epoch=1), owner_id=7)
        db.clock_offset += timedelta(minutes=15)
        assert await sweep(db) == 1
        views = await db.run(OWNER, attention.list_asks, attention.ListAsks())
        assert views[0].plugin_message_id == queued
        assert (await get_message(db, OWNER, queued)).settle_reason is None


REASON = {"reason": "pre-existing"}


async def test_the_tables_are_held_by_their_policies_again(old: Old) -> None:
    """After the migration row-level security holds the tables' owner too, as before it."""
    await migrating.migrate(old.keeper_url, app_password=None)
    admin = await Connection.open(old.admin_url)
    try:
        free = await admin.scalar(
            """
            select count(*) from pg_class
            where relnamespace = 'muster'::regnamespace and relrowsecurity
                  and not relforcerowsecurity
            """,
            {},
        )
    finally:
        admin.close()
    assert free == 0
