"""No statement of muster's walks a whole large table: pinned at 100,000 rows of each."""

import re

import pytest

from muster.pg.driver import Connection
from muster.pg.query import Query
from tests.support.cluster import OwnDatabase
from tests.support.many_mirrored import (
    BY_INDEX_MIRRORED,
    FILL_MIRRORED,
    LARGE_MIRRORED,
    SYSTEMS_MIRRORED,
)
from tests.support.many_routed import BY_INDEX_ROUTED, SYSTEMS_ROUTED
from tests.support.many_self_routed import (
    BY_INDEX_SELF_ROUTED,
    FILL_SELF_ROUTED,
    LARGE_SELF_ROUTED,
    SYSTEMS_SELF_ROUTED,
)
from tests.test_sql import QUERIES

ROWS = 100_000
LARGE = (
    *("messages", "drafts", "asks", "turns", "tasks", "audit", "credentials", "reports"),
    *("task_tags", "task_comments", "push_deliveries"),
    *("browser_sessions", "sign_in_attempts", "passkeys", "passkey_challenges", "setup_links"),
    "personal_tokens",
    *LARGE_MIRRORED,
    *LARGE_SELF_ROUTED,
)
_PARAMETER = re.compile(r"%\((\w+)\)s")
_DECLARED = {"now": "timestamptz", "owner_id": "bigint"}

# What runs as System, across owners; the rest runs as one owner, whose rows the policies add.
AS_SYSTEM = (
    *("muster.drafts.due.", "muster.attention.due.", "muster.credentials.operations.KNOCK"),
    "muster.accounts.operations.sessions.KNOCK_SESSION",
    "muster.accounts.operations.sessions.FIND_KNOWN",
    "muster.accounts.operations.sessions.FIND_BROWSER",
    "muster.accounts.operations.passkeys.FIND_HOLDER",
    "muster.accounts.operations.links.FIND_LINK",
    "muster.push.store.devices.LIST_LISTENING",
    "muster.chief.operations.unrouted.FIND_OWNERS",
    *SYSTEMS_MIRRORED,
    *SYSTEMS_ROUTED,
    *SYSTEMS_SELF_ROUTED,
)

# Triggers are off: these rows have a past that nobody lived through.
FILL = f"""
set session_replication_role = replica;
insert into users (id, name, email, password_hash, created_at)
select n, 'user-' || n, 'x', 'x', now() from generate_series(1, 200) n;
insert into plugins (owner_id, name, label, scope, created_at)
select n, 'mail', 'Mail', 'mail', now() from generate_series(1, 200) n;
insert into agents (owner_id, name, chief, provisioned, created_at)
select n, 'helper', true, true, now() from generate_series(1, 200) n;
insert into credentials (owner_id, kind, holder_id, sha256, created_at)
select 1 + n % 200, 'mpl_', 1 + n % 200, sha256(n::text::bytea), now()
from generate_series(1, {ROWS}) n;
insert into browser_sessions (owner_id, sha256, created_at, signed_in_at, expires_at, last_seen_at,
                              method, user_agent, address)
select 1 + n % 200, sha256(n::text::bytea), now(), now(), now(), now(), 'passkey', '', ''
from generate_series(1, {ROWS}) n;
insert into sign_in_attempts (at, account, address, failed)
select now(), sha256((n % 5000)::text::bytea), 'address ' || n % 5000, true
from generate_series(1, {ROWS}) n;
insert into passkeys (owner_id, name, credential_id, public_key, sign_count, created_at)
select 1 + n % 200, 'key', sha256(n::text::bytea), 'key', 0, now()
from generate_series(1, {ROWS}) n;
insert into passkey_challenges (owner_id, sha256, address, created_at, expires_at)
select nullif(n % 200, 0), sha256(n::text::bytea), 'address ' || n % 5000, now(), now()
from generate_series(1, {ROWS}) n;
insert into setup_links (owner_id, sha256, created_at, expires_at)
select nullif(n % 200, 0), sha256(n::text::bytea), now(), now() from generate_series(1, {ROWS}) n;
insert into personal_tokens (owner_id, name, scope, created_at)
select 1 + n % 200, 'token-' || n, 'read', now() from generate_series(1, {ROWS}) n;
insert into messages (owner_id, plugin_id, external_id, body, no_reply, sender_verified,
                      human_conversation, created_at, state, attempts, agent_id, epoch,
                      delivering_at, settled_at)
select p.owner_id, p.id, 'm' || n, 'hello', false, false, false, now() - n * interval '1 minute',
       'delivered', 1, a.id, 1, now(), now()
from generate_series(1, {ROWS}) n
join plugins p on p.owner_id = 1 + n % 200 join agents a on a.owner_id = p.owner_id;
insert into drafts (owner_id, message_id, plugin_id, agent_id, body, body_sha256, state, created_at,
                    expires_at, approved_at, claimed_at, lease_expires_at, reported_at)
select owner_id, id, plugin_id, agent_id, 'x', sha256('x'), 'sent', created_at,
       created_at + interval '7 days', now(), now(), now(), now()
from messages;
insert into asks (owner_id, asked_by, question, answers, message_id, plugin_message_id, state,
                  created_at, expires_at, ended_at)
select owner_id, 'muster', 'What now?', '{{}}', id, id, 'dismissed', now(), now(), now()
from messages;
insert into conversations (owner_id, agent_id, plugin_id, title, created_at)
select owner_id, id, id, 'Mail', now() from agents;
insert into turns (owner_id, conversation_id, agent_id, message_id, state, attempt, epoch,
                   created_at, begun_at, ended_at)
select m.owner_id, c.id, m.agent_id, m.id, 'delivered', 1, 1, now(), now(), now()
from messages m join conversations c on c.agent_id = m.agent_id;
insert into tasks (owner_id, title, body, status, message_id, created_by, created_at, updated_at,
                   closed_at)
select owner_id, 'Water the garden', '', 'complete', id, 'owner', now(), now(), now()
from messages;
insert into task_tags (owner_id, task_id, tag) select owner_id, id, 'record:' || id from tasks;
insert into task_comments (owner_id, task_id, author, body, body_sha256, created_at)
select owner_id, id, 'owner', 'done?', sha256('done?'), now() from tasks;
insert into audit (owner_id, at, actor, via, action, subject, data)
select 1 + n % 200, now(), 'muster', 'muster', 'plugin.delivered', 'message:' || n, '{{}}'
from generate_series(1, {ROWS}) n;
insert into push_devices (owner_id, sink, name, url, kinds, secret, created_at, not_before)
select id, 'webhook', 'door', 'https://door.example.test', '{{draft,ask,task}}', 'x', now(), now()
from users;
insert into push_deliveries (owner_id, device_id, kind, item_id, state, created_at, due_at,
                             attempts, ended_at)
select owner_id, id, 'draft', n, 'dropped', now(), now(), 0, now()
from push_devices cross join generate_series(1, {ROWS} / 200) n;
insert into reports (node, at, path, event, data)
select 'n', now(), 'root', 'started', '{{}}' from generate_series(1, {ROWS}) n;
{FILL_MIRRORED}
{FILL_SELF_ROUTED}
analyze;
"""


def explained(query: Query) -> str:
    """The EXPLAIN of a statement's generic plan, as the server makes it for a prepared one."""
    names = list(dict.fromkeys(_PARAMETER.findall(query.text)))

    def numbered(found: re.Match[str]) -> str:
        cast = _DECLARED.get(found[1])
        number = f"${names.index(found[1]) + 1}"
        return f"{number}::{cast}" if cast else number

    body = _PARAMETER.sub(numbered, query.text).replace("%%", "%")
    return f"explain (generic_plan) {body}"

# What is asked again and again, by the index that holds only what may still change.
BY_INDEX = {
    "muster.chief.operations.retry.LIST_UNCONFIRMED": "messages_unconfirmed_idx",
    "muster.chief.operations.unrouted.FINISH": "messages_awaiting_idx",
    "muster.chief.operations.unrouted.LIST_WAITING": "messages_awaiting_idx",
    **BY_INDEX_MIRRORED,
    **BY_INDEX_ROUTED,
    **BY_INDEX_SELF_ROUTED,
}


@pytest.fixture
async def filled(own_database: OwnDatabase) -> OwnDatabase:
    """A database with many rows of many owners."""
    admin = await Connection.open(own_database.admin_url)
    try:
        await admin.script("set search_path = muster")
        await admin.script(FILL)
    finally:
        admin.close()
    return own_database


WITHOUT_AN_INDEX = Query("select id from messages where epoch = %(x)s")


async def test_no_statement_walks_a_large_table(filled: OwnDatabase) -> None:
    """Every Query's plan reaches the large tables by an index; a planted one does not."""
    connection = await Connection.open(filled.app_url)
    walks = {}
    elsewhere = dict(BY_INDEX)
    planted = {"muster.drafts.due.PLANTED": WITHOUT_AN_INDEX}
    try:
        for name, query in {**QUERIES, **planted}.items():
            role = "; set local role muster_system" if name.startswith(AS_SYSTEM) else ""
            await connection.script(f"begin; set local muster.owner_id = '7'{role}")
            plan = await connection.script(explained(query))
            await connection.script("rollback")
            walked = re.findall(r"Seq Scan on (\w+)", "\n".join(line for (line,) in plan))
            if set(walked) & set(LARGE):
                walks[name] = plan
            if name in elsewhere and any(elsewhere[name] in line for (line,) in plan):
                del elsewhere[name]
    finally:
        connection.close()
    assert walks.keys() == planted.keys(), walks
    assert not elsewhere
