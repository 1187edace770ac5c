"""Row-level security: whose rows anybody sees, and what System may not."""

import attrs
import pytest

from muster.outcomes import Fact
from muster.pg.driver import DatabaseError
from muster.pg.query import Query
from muster.principals import Node, Owner, System
from tests.support.cluster import SpiedDatabase, add_owner
from tests.support.rows import Rows, add_rows

OWNED = (
    "users",
    "plugins",
    "agents",
    "credentials",
    "conversations",
    "turns",
    "messages",
    "drafts",
    "tasks",
    "task_tags",
    "task_comments",
    "asks",
    "audit",
    "passkeys",
    "browser_sessions",
    "setup_links",
    "passkey_challenges",
    "personal_tokens",
    "push_devices",
    "push_quiet_hours",
    "push_deliveries",
    "hosts",
    "mirrored",
    "windows",
    "panes",
    "focus_titles",
    "sends",
    "plugin_threads",
    "session_prs",
    "mail_resumes",
    "session_routes",
    "session_asks",
)
NOBODYS = ("reports", "nodes", "migrations", "sign_in_attempts", "push_keys")
# What System is there for, and nothing beside it.
HIDDEN_FROM_SYSTEM = (
    ("users", "password_hash"),
    ("plugins", "label"),
    ("plugins", "scope"),
    ("agents", "connected_at"),
    ("credentials", "last_seen_at"),
    ("messages", "body"),
    ("messages", "sender"),
    ("messages", "subject"),
    ("messages", "external_id"),
    ("drafts", "body"),
    ("drafts", "body_sha256"),
    ("drafts", "external_ref"),
    ("drafts", "detail"),
    ("messages", "settle_reason"),
    ("tasks", "title"),
    ("tasks", "body"),
    ("tasks", "message_id"),
    ("task_tags", "tag"),
    ("task_comments", "body"),
    ("asks", "question"),
    ("asks", "answer"),
    ("conversations", "id"),
    ("turns", "id"),
    ("audit", "id"),
    ("reports", "id"),
    ("passkeys", "public_key"),
    ("passkeys", "name"),
    ("passkey_challenges", "address"),
    ("users", "passkey_handle"),
    ("browser_sessions", "user_agent"),
    ("browser_sessions", "address"),
    ("sign_in_attempts", "id"),
    ("push_devices", "url"),
    ("push_devices", "secret"),
    ("push_deliveries", "id"),
    ("push_quiet_hours", "from_minute"),
    ("push_keys", "private_key"),
    ("hosts", "machine"),
    ("mirrored", "id"),
    ("windows", "title"),
    ("panes", "id"),
    ("focus_titles", "title"),
    ("sends", "text"),
    ("sends", "why"),
    ("plugin_threads", "id"),
    ("session_prs", "id"),
    ("mail_resumes", "claude_session"),
    ("mail_resumes", "why"),
    ("messages", "held_until"),
    ("session_routes", "answer"),
    ("session_routes", "why"),
    ("session_asks", "id"),
)

TABLES = Query(
    """
    select c.relname as name, c.relrowsecurity as enabled, c.relforcerowsecurity as forced,
           pg_get_userbyid(c.relowner) = session_user as mine
    from pg_class c where c.relnamespace = 'muster'::regnamespace and c.relkind = 'r'
    """
)
SETTING = Query("select current_setting('muster.owner_id', true)")
WHO = Query("select current_user::text")


@attrs.frozen(kw_only=True)
class Table:
    """How row-level security stands on a table."""

    name: str
    enabled: bool
    forced: bool
    mine: bool


@pytest.fixture
async def rows(db: SpiedDatabase, owner: Owner) -> Rows:
    """One row of each kind, owned by `owner`."""
    return await add_rows(db, owner)


async def test_owned_tables_are_forced(db: SpiedDatabase) -> None:
    """Each table with an owner has row-level security, for its own owner too."""
    async with db.transaction(System()) as tx:
        tables = {table.name: table for table in await tx.all(TABLES, Table)}
    assert set(tables) == {*OWNED, *NOBODYS}
    for name in OWNED:
        assert tables[name].enabled, name
        assert tables[name].forced, name


async def test_login_owns_nothing(db: SpiedDatabase) -> None:
    """The role of the pool owns no table, so it could not switch row-level security off."""
    async with db.transaction(Node()) as tx:
        assert not any(table.mine for table in await tx.all(TABLES, Table))


@pytest.mark.parametrize("table", OWNED)
async def test_others_see_nothing(db: SpiedDatabase, owner: Owner, rows: Rows, table: str) -> None:
    """An owner's rows are there for the owner, and for no other owner or node."""
    # Rows of nobody's are a node's: a guest's challenge, the links for the first account.
    key = "id" if table == "users" else "owner_id"
    owned = Query(f"select count(*) from {table} where {key} is not null")
    async with db.transaction(owner) as tx:
        assert await tx.scalar(owned) == 1
    # The other owner has one row of users, their own.
    async with db.transaction(await add_owner(db)) as tx:
        assert await tx.scalar(owned) == (1 if table == "users" else 0)
    async with db.transaction(Node()) as tx:
        assert await tx.scalar(owned) == 0


@pytest.mark.parametrize(
    "change",
    [
        "update users set email = 'x' where id = %(id)s",
        "update plugins set revoked_at = %(now)s where owner_id = %(id)s",
        "update agents set chief = false where owner_id = %(id)s",
        "update credentials set revoked_at = %(now)s where owner_id = %(id)s",
        "update messages set attempts = 9 where owner_id = %(id)s",
        "update drafts set detail = 'x' where owner_id = %(id)s",
        "update turns set attempt = 9 where owner_id = %(id)s",
        "update asks set state = 'dismissed', ended_at = %(now)s where owner_id = %(id)s",
        "update hosts set retired_at = %(now)s where owner_id = %(id)s",
        "update mirrored set last_seen_at = %(now)s where owner_id = %(id)s",
        "update windows set title = 'x' where owner_id = %(id)s",
        "update panes set active = false where owner_id = %(id)s",
        "update sends set why = 'x' where owner_id = %(id)s",
        "update session_routes set relay_due_at = null where owner_id = %(id)s",
        "update session_prs set seen_at = %(now)s where owner_id = %(id)s",
        "update mail_resumes set why = 'x' where owner_id = %(id)s",
        "delete from focus_titles where owner_id = %(id)s",
    ],
)
async def test_others_change_nothing(
    db: SpiedDatabase, owner: Owner, rows: Rows, change: str
) -> None:
    """Another owner's update finds no row."""
    async with db.transaction(owner) as tx:
        assert await tx.execute(Query(change), id=owner.owner_id) == 1
    async with db.transaction(await add_owner(db)) as tx:
        assert await tx.execute(Query(change), id=owner.owner_id) == 0


PLUGIN_OF = """
    insert into plugins (owner_id, name, label, scope, created_at)
    values (%(victim)s, 'mail2', 'M', 'm', %(now)s)
"""
FACT_OF = """
    insert into audit (owner_id, at, actor, via, action, subject, data)
    values (%(victim)s, %(now)s, 'owner', 'cli', 'a', 's', '{}')
"""


@pytest.mark.parametrize(("table", "insert"), [("plugins", PLUGIN_OF), ("audit", FACT_OF)])
async def test_rows_for_others_are_refused(
    db: SpiedDatabase, owner: Owner, table: str, insert: str
) -> None:
    """Nobody can write a row into another owner's name."""

    async def write() -> None:
        async with db.transaction(await add_owner(db)) as tx:
            await tx.execute(Query(insert), victim=owner.owner_id)

    with pytest.raises(DatabaseError, match=f'row-level security policy for table "{table}"'):
        await write()


MAIL_BY = """
    insert into messages (owner_id, plugin_id, external_id, body, no_reply, sender_verified,
                          human_conversation, created_at, state, attempts)
    values (%(owner_id)s, %(plugin)s, 'x', 'b', false, false, false, %(now)s, 'queued', 0)
"""
TALK_WITH = """
    insert into conversations (owner_id, agent_id, plugin_id, title, created_at)
    values (%(owner_id)s, %(agent)s, %(own_plugin)s, 't', %(now)s)
"""


@pytest.mark.parametrize(
    ("constraint", "insert"),
    [
        ("messages_owner_id_plugin_id_fkey", MAIL_BY),
        ("conversations_owner_id_agent_id_fkey", TALK_WITH),
    ],
)
async def test_foreign_keys_stay_with_the_owner(
    db: SpiedDatabase, owner: Owner, rows: Rows, constraint: str, insert: str
) -> None:
    """A row cannot point at another owner's row, so nobody can probe for one."""
    other = await add_owner(db)
    others = await add_rows(db, other)

    async def write() -> None:
        async with db.transaction(owner) as tx:
            await tx.execute(
                Query(insert),
                plugin=others.plugin_id,
                agent=others.agent_id,
                own_plugin=rows.plugin_id,
            )

    with pytest.raises(DatabaseError, match=constraint):
        await write()


async def test_system_sees_ids_of_all(db: SpiedDatabase, rows: Rows) -> None:
    """System looks across owners at ids, due times and token hashes."""
    async with db.transaction(System()) as tx:
        assert await tx.scalar(WHO) == "muster_system"
        find = Query("select id from credentials where sha256 = %(sha256)s")
        assert await tx.scalar(find, sha256=rows.token_sha256) == rows.credential_id
        due = Query("select id from drafts where expires_at > %(now)s and id = %(id)s")
        assert await tx.scalar(due, id=rows.draft_id) == rows.draft_id


@pytest.mark.parametrize(("table", "column"), HIDDEN_FROM_SYSTEM)
async def test_system_sees_no_content(db: SpiedDatabase, table: str, column: str) -> None:
    """System is refused what people wrote, and all that it has no use for."""

    async def look() -> None:
        async with db.transaction(System()) as tx:
            await tx.scalar(Query(f"select {column} from {table} limit 1"))

    with pytest.raises(DatabaseError, match=f"permission denied for table {table}"):
        await look()


@pytest.mark.parametrize("table", [*OWNED, "reports", "nodes"])
async def test_system_writes_nothing(db: SpiedDatabase, table: str) -> None:
    """System has no right to insert, update, delete or truncate anywhere."""
    async with db.transaction(System()) as tx:
        able = Query(
            """
            select has_any_column_privilege(format('muster.%%I', %(table)s::text), 'insert, update')
                   or has_table_privilege(format('muster.%%I', %(table)s::text), 'delete, truncate')
            """
        )
        assert await tx.scalar(able, table=table) is False


async def test_system_writes_no_fact(db: SpiedDatabase) -> None:
    """A fact belongs to an owner, so System cannot record one."""

    async def write() -> None:
        async with db.transaction(System()) as tx:
            await tx.record(Fact(action="a", subject="s"))

    with pytest.raises(AssertionError, match="acts for no single owner"):
        await write()


async def test_owner_ends_with_the_transaction(db: SpiedDatabase, owner: Owner) -> None:
    """After a commit the session's owner is empty, and an owner's tables show nothing to it."""
    async with db.transaction(owner) as tx:
        assert await tx.scalar(SETTING) == str(owner.owner_id)
        assert await tx.scalar(Query("select count(*) from users")) == 1
    connection = db.pool._idle[-1]
    assert await connection.scalar(SETTING.text, {}) == ""
    assert await connection.scalar("select current_setting('muster.actor')", {}) == ""
    assert await connection.scalar("select count(*) from users", {}) == 0


async def test_role_ends_with_the_transaction(db: SpiedDatabase) -> None:
    """After System's transaction the same session is muster_app again."""
    async with db.transaction(System()) as tx:
        assert await tx.scalar(WHO) == "muster_system"
    async with db.transaction(Node()) as tx:
        assert await tx.scalar(WHO) == "muster_app"


async def test_app_lacks_rights_of_system(db: SpiedDatabase, rows: Rows) -> None:
    """muster_app has the rights of muster_system only while it is that role."""
    async with db.transaction(Node()) as tx:
        assert await tx.scalar(Query("select count(*) from credentials")) == 0
        inherits = Query("select pg_has_role('muster_system', 'usage')")
        assert await tx.scalar(inherits) is False
