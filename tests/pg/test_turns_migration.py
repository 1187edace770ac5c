"""Messages that were handed over before there were turns have theirs: on data of version 5."""

from collections.abc import AsyncIterator
from datetime import datetime

import attrs
import pytest

from muster.pg import migrate as migrating
from muster.pg.driver import Connection, DatabaseError, with_database, with_login
from tests.support.cluster import Cluster

NAME = "before_turns"
FILL = """
set search_path = muster;
set session_replication_role = replica;
insert into users (id, name, email, password_hash, created_at) values (7, 'ada', 'x', 'x', now());
insert into plugins (id, owner_id, name, label, scope, created_at) overriding system value
values (1, 7, 'mail', 'Mail', 'mail', now());
insert into agents (id, owner_id, name, chief, provisioned, created_at) overriding system value
values (3, 7, 'helper', false, true, now()), (4, 7, 'next', true, true, now());
insert into conversations (id, owner_id, agent_id, plugin_id, title, created_at)
    overriding system value
values (11, 7, 3, 1, 'Mail', now()), (12, 7, 4, 1, 'Mail', now());
insert into messages (id, owner_id, plugin_id, external_id, body, no_reply, sender_verified,
                      human_conversation, created_at, state, attempts, agent_id, epoch,
                      delivering_at, settled_at)
    overriding system value
select id, 7, 1, 'm' || id, 'hello', false, false, false, now(), state, id,
       case when id > 1 then agent end, case when id > 1 then 9 end,
       case when id > 1 then now() - id * interval '1 hour' end,
       case when state in ('delivered', 'unconfirmed') then now() end
from (values (1, 'queued', 0), (2, 'delivering', 3), (3, 'delivered', 3), (4, 'unconfirmed', 4),
             (5, 'delivering', 4)) as m (id, state, agent);
"""
TURNS = """
    select message_id, conversation_id, agent_id, state, attempt, epoch, begun_at, ended_at
    from muster.turns order by id
"""
BEGIN = """
    insert into muster.turns (owner_id, conversation_id, agent_id, message_id, state, attempt,
                              epoch, created_at, begun_at)
    values (7, 11, 3, 1, 'delivering', 1, 9, now(), now())
"""


@attrs.frozen(kw_only=True)
class Kept:
    """A turn after the migration."""

    message_id: int
    conversation_id: int
    agent_id: int
    state: str
    attempt: int
    epoch: int
    begun_at: datetime
    ended_at: datetime | None


@pytest.fixture
async def migrated(cluster: Cluster) -> AsyncIterator[Connection]:
    """Such a database, migrated by a plain role that owns its tables; a superuser looks at it."""
    server = await Connection.open(cluster.admin_url)
    admin_url = with_database(cluster.admin_url, NAME)
    await server.script(f"create role keeper_{NAME} login createrole password 'keeper'")
    await server.script(f"create database {NAME} owner keeper_{NAME}")
    keeper_url = with_login(admin_url, f"keeper_{NAME}", "keeper")
    try:
        keeper = await Connection.open(keeper_url)
        await keeper.script("set client_min_messages to warning")
        await keeper.script(migrating.PREPARE_SCHEMA)
        for migration in migrating.load_migrations():
            if migration.version < 6:
                await migrating._apply(keeper, migration)
        keeper.close()
        admin = await Connection.open(admin_url)
        try:
            await admin.script(FILL)
            await admin.script("set session_replication_role = origin")
            await migrating.migrate(keeper_url, app_password=None)
            yield admin
        finally:
            admin.close()
    finally:
        await server.script(f"drop database {NAME} with (force)")
        await server.script(f"drop role keeper_{NAME}")
        server.close()


@pytest.mark.rule(221)
async def test_what_was_handed_over_has_its_turn(migrated: Connection) -> None:
    """Each message has one, as it stands, oldest first; one that waits has none."""
    turns = await migrated.fetch(TURNS, {}, Kept)
    assert [(turn.message_id, turn.conversation_id, turn.state) for turn in turns] == [
        (5, 12, "delivering"),
        (4, 12, "unconfirmed"),
        (3, 11, "delivered"),
        (2, 11, "delivering"),
    ]
    assert [turn.agent_id for turn in turns] == [4, 4, 3, 3]
    assert [turn.attempt for turn in turns] == [5, 4, 3, 2]
    assert {turn.epoch for turn in turns} == {9}
    assert [turn.ended_at is None for turn in turns] == [True, False, False, True]
    # What was left in the middle of a turn still is one: no other begins beside it.
    with pytest.raises(DatabaseError, match="turns_one_turn_key"):
        await migrated.script(BEGIN)
