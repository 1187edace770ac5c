"""Each statement of muster's, run as another owner: it shows and changes nothing of the first's.

Each is run twice, with ids and names of the first owner: once with `owner_id` as the operation
gives it, once with the first owner's, so that row-level security alone stands in the way.
"""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from muster.pg.driver import Connection, DatabaseError
from muster.pg.driver import json as jsonb
from muster.pg.query import Query
from muster.principals import Owner
from tests.pg.test_rls import OWNED
from tests.support.cluster import Cluster, SpiedDatabase, add_owner
from tests.support.rows import Rows, add_rows
from tests.test_sql import QUERIES

_PARAMETER = re.compile(r"%\((\w+)\)s")
_OWNED = re.compile(rf"\b(?:{'|'.join(OWNED)})\b")
# Not granted or row-level security, a foreign key, a trigger, a constraint, a unique index.
REFUSALS = {"42501", "23503", "23001", "23514", "23505"}
WALLED = sorted(name for name, query in QUERIES.items() if _OWNED.search(query.text))
LATER = datetime(2999, 1, 1, tzinfo=UTC)


def _arguments(query: Query, rows: Rows, victim: Owner) -> dict[str, object]:
    """What a confused or hostile caller would ask for: the victim's things, and changes to them."""
    known: dict[str, object] = {
        "plugin_id": rows.plugin_id,
        "plugin_ids": [rows.plugin_id],
        "message_id": rows.message_id,
        "message_ids": [rows.message_id],
        "draft_id": rows.draft_id,
        "newer_id": rows.draft_id,
        "superseded_by": rows.draft_id,
        "agent_id": rows.agent_id,
        "holder_id": rows.plugin_id,
        "credential_ids": [rows.credential_id],
        "sha256": rows.token_sha256,
        "body_sha256": rows.token_sha256,
        "external_id": "1",
        "plugin": "mail",
        "kind": "mpl_",
        "state": "pending" if "drafts" in query.text else "queued",
        "since": datetime(2000, 1, 1, tzinfo=UTC),
        "before_id": None,
        "data": jsonb({}),
        "limit": 100,
        "most": 100,
        "newer": 0,
        "epoch": 0,
        "attempts": 7,
    }
    truths = {"chief", "provisioned", "no_reply", "sender_verified", "human_conversation"}
    known |= dict.fromkeys(truths | {"retired_too", "revoked_too"}, True)
    names = set(_PARAMETER.findall(query.text)) - known.keys() - {"now", "owner_id"}
    known |= {name: LATER for name in names if name.endswith("_at")}
    known |= {name: "x" for name in names if name not in known}
    if "name" in names:
        known["name"] = f"user-{victim.owner_id}" if "users" in query.text else "mail"
        known["name"] = "helper" if "agents" in query.text else known["name"]
    if "id" in names:
        tables = {"messages": rows.message_id, "drafts": rows.draft_id, "agents": rows.agent_id}
        found = [key for table, key in tables.items() if table in query.text]
        known["id"] = (found or [rows.plugin_id])[0]
    wanted = set(_PARAMETER.findall(query.text))
    return {name: value for name, value in known.items() if name in wanted}


@pytest.fixture
async def admin(cluster: Cluster) -> AsyncIterator[Connection]:
    """A superuser's session, which no policy holds."""
    connection = await Connection.open(cluster.admin_url)
    yield connection
    connection.close()


async def _all_of(admin: Connection, owner: Owner) -> dict[str, Any]:
    """Every row of an owner's, as text."""
    found = {}
    for table in OWNED:
        column = "id" if table == "users" else "owner_id"
        sql = f"select string_agg(t::text, e'\\n' order by t.id) from {table} t"
        params = {"owner": owner.owner_id}
        found[table] = await admin.scalar(f"{sql} where {column} = %(owner)s", params)
    return found


async def _run_as(
    db: SpiedDatabase, stranger: Owner, query: Query, arguments: dict[str, object]
) -> list[dict[str, object]]:
    """What the statement shows; a row count other than none counts as shown."""
    reads = query.text.lstrip().startswith("select") or " returning " in f" {query.text} "
    try:
        async with db.transaction(stranger) as tx:
            if reads:
                return await tx.all(query, dict, **arguments)
            touched = await tx.execute(query, **arguments)
    except DatabaseError as refusal:
        if refusal.sqlstate not in REFUSALS:
            raise
        return []
    return [{"touched": touched}]


@pytest.mark.parametrize("name", WALLED)
async def test_nothing_of_another_owner_is_shown_or_changed(
    db: SpiedDatabase, owner: Owner, admin: Connection, name: str
) -> None:
    """No statement finds another owner's row, also where it names that owner itself."""
    query, rows = QUERIES[name], await add_rows(db, owner)
    stranger = await add_owner(db)
    before = await _all_of(admin, owner)
    assert all(before.values())
    arguments = _arguments(query, rows, owner)
    shown = await _run_as(db, stranger, query, {**arguments, "owner_id": owner.owner_id})
    for row in shown:
        own = "email" in row and row["id"] == stranger.owner_id
        assert own or not any(row.values()), row
    await _run_as(db, stranger, query, arguments)
    assert await _all_of(admin, owner) == before


def test_the_walls_are_tried_by_many() -> None:
    """The walk finds the statements on owned tables."""
    assert len(WALLED) > 40
