"""What the database refuses whatever code writes, even as a superuser."""

from collections.abc import AsyncIterator

import attrs
import pytest

from muster.pg.driver import Connection, DatabaseError
from muster.principals import Owner
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.refused_asks import ASKS
from tests.support.refused_mirror import MIRROR
from tests.support.refused_pushes import PUSHES
from tests.support.refused_routes import ROUTES
from tests.support.refused_self_routing import SELF_ROUTING
from tests.support.refused_session_asks import SESSION_ASKS
from tests.support.refused_tasks import TASKS
from tests.support.refused_turns import TURNS
from tests.support.rows import MESSAGE, TASK, Rows, add_rows

# Each refusal: the constraint or trigger, and the statement that meets it after the ones before.
AGENT = "insert into agents (owner_id, name, chief, provisioned, created_at) values"
PLUGIN = "insert into plugins (owner_id, name, label, scope, created_at) values"
TOKEN = "insert into credentials (owner_id, kind, holder_id, sha256, created_at) values"
USER = "insert into users (name, email, password_hash, created_at) values"
FACT = "insert into audit (owner_id, at, actor, via, action, subject, data) values"
KEY = (
    "insert into passkeys (owner_id, name, credential_id, public_key, sign_count, created_at)"
    " values"
)
LINK = "insert into setup_links (owner_id, sha256, created_at, expires_at) values"
CHALLENGE = (
    "insert into passkey_challenges (owner_id, sha256, address, created_at, expires_at) values"
)
ATTEMPT = "insert into sign_in_attempts (at, account, address, failed) values"
PERSONAL = "insert into personal_tokens (owner_id, name, scope, created_at, expires_at) values"
TALK = "insert into conversations (owner_id, agent_id, plugin_id, title, created_at) values"


def mail(**columns: str) -> str:
    """The insert of a queued message, but for the columns that are given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "plugin_id": "%(plugin)s",
        "external_id": "'new'",
        "body": "'b'",
        "no_reply": "false",
        "sender_verified": "false",
        "human_conversation": "false",
        "created_at": "%(now)s",
        "state": "'queued'",
        "attempts": "0",
    } | columns
    return f"insert into messages ({', '.join(values)}) values ({', '.join(values.values())})"


def reply(**columns: str) -> str:
    """The insert of a rejected draft, but for the columns that are given as SQL."""
    body = columns.get("body", "'b'")
    values = {
        "owner_id": "%(owner)s",
        "message_id": "%(message)s",
        "plugin_id": "%(plugin)s",
        "agent_id": "%(agent)s",
        "body": body,
        "body_sha256": f"sha256(convert_to({body}, 'UTF8'))",
        "state": "'rejected'",
        "created_at": "%(now)s",
        "expires_at": "%(now)s",
    } | columns
    return f"insert into drafts ({', '.join(values)}) values ({', '.join(values.values())})"


def session(**columns: str) -> str:
    """The insert of a browser session, but for the columns that are given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "sha256": "sha256('new')",
        "created_at": "%(now)s",
        "signed_in_at": "%(now)s",
        "expires_at": "%(now)s",
        "last_seen_at": "%(now)s",
        "method": "'passkey'",
        "user_agent": "''",
        "address": "''",
    } | columns
    return (
        f"insert into browser_sessions ({', '.join(values)}) values ({', '.join(values.values())})"
    )


HAND_OVER = (
    "update messages set state = 'delivering', agent_id = %(agent)s, epoch = 1,"
    " delivering_at = %(now)s where id = %(message)s"
)
SETTLE = "update messages set state = 'delivered', settled_at = %(now)s where id = %(message)s"
APPROVE = "update drafts set state = 'approved', approved_at = %(now)s where id = %(draft)s"
CLAIM = "update drafts set claimed_at = %(now)s, lease_expires_at = %(now)s where id = %(draft)s"
THIS = "where id = %(draft)s"
REPORT = "update drafts set state = 'sent', reported_at = %(now)s where id = %(draft)s"

CASES: list[tuple[str, list[str]]] = [
    ("users_name_check", [f"{USER} ('Ada', 'a', 'x', %(now)s)"]),
    ("users_name_key", [f"{USER} ('twin', 'a', 'x', %(now)s), ('twin', 'b', 'x', %(now)s)"]),
    ("plugins_name_check", [f"{PLUGIN} (%(owner)s, '9', 'L', 's', %(now)s)"]),
    ("plugins_label_check", [f"{PLUGIN} (%(owner)s, 'p', repeat('é', 81), 's', %(now)s)"]),
    ("plugins_scope_check", [f"{PLUGIN} (%(owner)s, 'p', 'L', '', %(now)s)"]),
    ("plugins_live_name_key", [f"{PLUGIN} (%(owner)s, 'mail', 'L', 's', %(now)s)"]),
    ("plugins_owner_id_fkey", [f"{PLUGIN} (-1, 'p', 'L', 's', %(now)s)"]),
    ("agents_name_check", [f"{AGENT} (%(owner)s, 'a b', false, false, %(now)s)"]),
    ("agents_live_name_key", [f"{AGENT} (%(owner)s, 'helper', false, false, %(now)s)"]),
    ("agents_one_chief_key", [f"{AGENT} (%(owner)s, 'second', true, false, %(now)s)"]),
    ("agents_owner_id_fkey", [f"{AGENT} (-1, 'a', false, false, %(now)s)"]),
    ("credentials_kind_check", [f"{TOKEN} (%(owner)s, 'xxx_', 1, sha256('a'), %(now)s)"]),
    ("credentials_sha256_check", [f"{TOKEN} (%(owner)s, 'mpl_', 1, 'short', %(now)s)"]),
    ("credentials_sha256_key", [f"{TOKEN} (%(owner)s, 'mag_', 1, %(sha256)s, %(now)s)"]),
    ("credentials_owner_id_fkey", [f"{TOKEN} (-1, 'mag_', 1, sha256('b'), %(now)s)"]),
    ("conversations_one_key", [f"{TALK} (%(owner)s, %(agent)s, %(plugin)s, 't', %(now)s)"]),
    ("conversations_owner_id_agent_id_fkey", [f"{TALK} (%(owner)s, -1, %(plugin)s, 't', %(now)s)"]),
    ("conversations_owner_id_plugin_id_fkey", [f"{TALK} (%(owner)s, %(agent)s, -1, 't', %(now)s)"]),
    ("messages_external_id_key", [mail(external_id="'1'")]),
    ("messages_external_id_check", [mail(external_id="repeat('é', 101)")]),
    ("messages_body_check", [mail(body="repeat('é', 8193)")]),
    ("messages_body_check", [mail(body="''")]),
    ("messages_sender_check", [mail(sender="repeat('é', 201)")]),
    ("messages_subject_check", [mail(subject="repeat('é', 201)")]),
    ("messages_thread_check", [mail(thread="''")]),
    ("messages_state_check", [
        mail(state="'lost'", agent_id="%(agent)s", epoch="1", delivering_at="%(now)s")]),
    ("messages_queued_check", [mail(state="'delivering'")]),
    ("messages_settled_check", [
        HAND_OVER, "update messages set state = 'delivered' where id = %(message)s"]),
    ("messages_handed_check", [HAND_OVER.replace("epoch = 1", "epoch = null")]),
    ("messages_owner_id_plugin_id_fkey", [mail(plugin_id="-1")]),
    ("messages_owner_id_agent_id_fkey", [HAND_OVER.replace("%(agent)s", "-1")]),
    ("messages_one_turn_key", [HAND_OVER, HAND_OVER.replace("%(message)s", "%(second)s")]),
    ("messages_move", ["update messages set state = 'unconfirmed' where id = %(message)s"]),
    ("messages_move", [HAND_OVER, SETTLE, HAND_OVER]),
    *[
        ("messages_content_kept", [f"update messages set {change} where id = %(message)s"])
        for change in (
            "no_reply = true",
            "sender_verified = true",
            "human_conversation = true",
            "body = 'other'",
            "sender = 'somebody else'",
            "subject = 'other'",
            "thread = 'other'",
            "external_id = 'other'",
            "received_at = %(now)s",
            "created_at = created_at - interval '1 day'",
        )
    ],
    ("drafts_body_check", [reply(body="repeat('é', 8193)")]),
    ("drafts_state_check", [reply(state="'lost'")]),
    ("drafts_one_pending_key", [reply(state="'pending'")]),
    ("drafts_one_in_flight_key", [APPROVE, reply(state="'approved'")]),
    ("drafts_begin", [reply()]),
    ("messages_begin", [mail(
        state="'delivering'", agent_id="%(agent)s", epoch="1", delivering_at="%(now)s")]),
    ("drafts_sha256_check", [reply(body_sha256="sha256('other')")]),
    ("drafts_no_reply", [reply(state="'pending'", message_id="%(mute)s")]),
    ("drafts_plugin", [reply(plugin_id="-1")]),
    ("drafts_owner_id_agent_id_fkey", [reply(agent_id="-1")]),
    ("drafts_owner_id_superseded_by_fkey", [
        "update drafts set superseded_by = -1 where id = %(draft)s"]),
    ("drafts_claim_check", [
        APPROVE, "update drafts set claimed_at = %(now)s where id = %(draft)s"]),
    ("drafts_claimed_was_approved_check", [CLAIM]),
    ("drafts_sent_was_claimed_check", [APPROVE, REPORT]),
    ("drafts_reported_check", [APPROVE, CLAIM, f"update drafts set state = 'sent' {THIS}"]),
    ("drafts_ref_check", [f"update drafts set external_ref = repeat('é', 201) {THIS}"]),
    ("drafts_detail_check", [f"update drafts set detail = repeat('é', 2049) {THIS}"]),
    ("drafts_claimed_once", [APPROVE, CLAIM, CLAIM.replace("%(now)s", "%(now)s + interval '1 s'")]),
    ("drafts_claimed_once", [
        APPROVE, CLAIM,
        "update drafts set claimed_at = null, lease_expires_at = null where id = %(draft)s"]),
    *[
        ("drafts_claimed_kept", [
            APPROVE, CLAIM, f"update drafts set state = '{state}' where id = %(draft)s"])
        for state in ("rejected", "superseded", "expired")
    ],
    *[
        ("drafts_text_kept", [f"update drafts set {change} where id = %(draft)s"])
        for change in (
            "body = 'other', body_sha256 = sha256('other')",
            "message_id = %(second)s",
            "expires_at = expires_at + interval '1 day'",
        )
    ],
    *[
        ("drafts_move", [*before, f"update drafts set state = '{state}' where id = %(draft)s"])
        for before, state in (
            ([], "sent"),
            ([], "unconfirmed"),
            ([APPROVE], "pending"),
            ([APPROVE, CLAIM, REPORT], "approved"),
            ([APPROVE, CLAIM, f"update drafts set state = 'unconfirmed' {THIS}"], "approved"),
            ([f"update drafts set state = 'rejected' {THIS}"], "pending"),
        )
    ],
    ("users_time_zone_check", ["update users set time_zone = '' where id = %(owner)s"]),
    ("users_passkey_handle_key", [
        "update users set passkey_handle = 'same' where id = %(owner)s",
        f"{USER} ('twin', 'a', 'x', %(now)s)",
        "update users set passkey_handle = 'same' where name = 'twin'"]),
    ("passkeys_name_check", [f"{KEY} (%(owner)s, '', 'id', 'key', 0, %(now)s)"]),
    ("passkeys_credential_id_check", [f"{KEY} (%(owner)s, 'n', '', 'key', 0, %(now)s)"]),
    ("passkeys_credential_id_key", [f"{KEY} (%(owner)s, 'n', %(sha256)s, 'key', 0, %(now)s)"]),
    ("passkeys_sign_count_check", [f"{KEY} (%(owner)s, 'n', 'id', 'key', -1, %(now)s)"]),
    ("passkeys_owner_id_fkey", [f"{KEY} (-1, 'n', 'id', 'key', 0, %(now)s)"]),
    ("browser_sessions_sha256_key", [session(sha256="%(sha256)s")]),
    ("browser_sessions_sha256_check", [session(sha256="'short'")]),
    ("browser_sessions_method_check", [session(method="'guess'")]),
    ("browser_sessions_agent_check", [session(user_agent="repeat('é', 301)")]),
    ("browser_sessions_address_check", [session(address="repeat('1', 65)")]),
    ("browser_sessions_owner_id_fkey", [session(owner_id="-1")]),
    ("setup_links_sha256_key", [f"{LINK} (null, %(sha256)s, %(now)s, %(now)s)"]),
    ("setup_links_sha256_check", [f"{LINK} (null, 'short', %(now)s, %(now)s)"]),
    ("setup_links_owner_id_fkey", [f"{LINK} (-1, sha256('new'), %(now)s, %(now)s)"]),
    ("passkey_challenges_sha256_key", [f"{CHALLENGE} (null, %(sha256)s, '', %(now)s, %(now)s)"]),
    ("passkey_challenges_sha256_check", [f"{CHALLENGE} (null, 'short', '', %(now)s, %(now)s)"]),
    ("passkey_challenges_address_check", [
        f"{CHALLENGE} (null, sha256('new'), repeat('1', 65), %(now)s, %(now)s)"]),
    ("passkey_challenges_owner_id_fkey", [
        f"{CHALLENGE} (-1, sha256('new'), '', %(now)s, %(now)s)"]),
    ("sign_in_attempts_account_check", [f"{ATTEMPT} (%(now)s, 'short', '', true)"]),
    ("sign_in_attempts_address_check", [
        f"{ATTEMPT} (%(now)s, sha256('a'), repeat('1', 65), true)"]),
    ("personal_tokens_name_check", [f"{PERSONAL} (%(owner)s, 'A b', 'read', %(now)s, null)"]),
    ("personal_tokens_scope_check", [f"{PERSONAL} (%(owner)s, 'n', 'all', %(now)s, null)"]),
    ("personal_tokens_expiry_check", [
        f"{PERSONAL} (%(owner)s, 'n', 'read', %(now)s, %(now)s)"]),
    ("personal_tokens_live_name_key", [
        f"{PERSONAL} (%(owner)s, 'laptop', 'read', %(now)s, null)"]),
    ("personal_tokens_owner_id_fkey", [f"{PERSONAL} (-1, 'n', 'read', %(now)s, null)"]),
    ("append-only", ["update audit set actor = 'x'"]),
    ("append-only", ["delete from audit"]),
    ("append-only", ["truncate audit"]),
    ("audit_owner_id_fkey", [f"{FACT} (-1, %(now)s, 'a', 'v', 'x', 's', '{{}}')"]),
    *ASKS,
    *TASKS,
    *TURNS,
    *PUSHES,
    *MIRROR,
    *ROUTES,
    *SELF_ROUTING,
    *SESSION_ASKS,
    ("drafts_route_key", [
        reply(message_id="%(second)s", state="'pending'", route_id="%(route)s"),
        reply(route_id="%(route)s")]),
    ("drafts_owner_id_route_id_fkey", [reply(route_id="-1")]),
]  # fmt: skip
# Identities, and pairs that stand only as targets of foreign keys: nothing writes them.
UNWRITTEN = ("_pkey", "_owner_id_id_key")
UNTRIED = {
    # Another trigger of the same table speaks first, in every case that one can write.
    "drafts_owner_id_message_id_fkey",
    "drafts_owner_id_plugin_id_fkey",
}
# Triggers whose refusals have names of their own.
SPEAKERS = {
    "drafts_answerable": "drafts_no_reply",
    "audit_append_only": "append-only",
    "audit_no_truncate": "append-only",
}
CONSTRAINTS = """
    select conname::text as name from pg_constraint
    where connamespace = 'muster'::regnamespace and contype <> 'n'
    union select indexrelid::regclass::text from pg_index
    where indrelid in (select oid from pg_class where relnamespace = 'muster'::regnamespace)
          and indisunique
    union select tgname::text from pg_trigger
    where not tgisinternal
          and tgrelid in (select oid from pg_class where relnamespace = 'muster'::regnamespace)
"""


@attrs.frozen(kw_only=True)
class Name:
    """A constraint, unique index or trigger."""

    name: str


@pytest.fixture
async def admin(cluster: Cluster) -> AsyncIterator[Connection]:
    """A superuser's connection inside a transaction that is not kept."""
    connection = await Connection.open(cluster.admin_url)
    await connection.script("begin")
    yield connection
    connection.close()


@pytest.fixture
async def params(db: SpiedDatabase, owner: Owner) -> dict[str, object]:
    """The ids of one row of each kind, and of a second and a mute message."""
    rows: Rows = await add_rows(db, owner)
    async with db.transaction(owner) as tx:
        mute = await tx.scalar(MESSAGE, plugin=rows.plugin_id, external="mute", no_reply=True)
        second = await tx.scalar(MESSAGE, plugin=rows.plugin_id, external="2", no_reply=False)
        second_task = await tx.scalar(TASK)
        return {
            "owner": owner.owner_id,
            "now": tx.now,
            "plugin": rows.plugin_id,
            "agent": rows.agent_id,
            "message": rows.message_id,
            "mute": mute,
            "second": second,
            "draft": rows.draft_id,
            "conversation": rows.conversation_id,
            "turn": rows.turn_id,
            "ask": rows.ask_id,
            "task": rows.task_id,
            "second_task": second_task,
            "host": rows.mirror.host_id,
            "resume": rows.self_routing.resume_id,
            "mirrored": rows.mirror.mirrored_id,
            "window": rows.mirror.window_id,
            "send": rows.mirror.send_id,
            "route": rows.route_id,
            "sha256": rows.token_sha256,
        }


@pytest.mark.rule(47, 48, 52)
@pytest.mark.parametrize(
    ("constraint", "statements"), CASES, ids=[f"{n}-{case[0]}" for n, case in enumerate(CASES)]
)
async def test_refused(
    admin: Connection, params: dict[str, object], constraint: str, statements: list[str]
) -> None:
    """The last statement is refused, by the constraint or trigger that is there for it."""
    *before, refused = statements
    for statement in before:
        await admin.execute(statement, params)
    with pytest.raises(DatabaseError) as caught:
        await admin.execute(refused, params)
    assert constraint in (caught.value.diag.constraint_name or str(caught.value))


async def test_every_refusal_is_tried(admin: Connection) -> None:
    """Each constraint, unique index and trigger of the schema has a case above."""
    found = {row.name for row in await admin.fetch(CONSTRAINTS, {}, Name)}
    names = {name for name in found if not name.endswith(UNWRITTEN)}
    tried = {case[0] for case in CASES}
    assert {SPEAKERS.get(name, name) for name in names - UNTRIED} - tried == set()
