"""Each statement of muster's, run as another owner: it shows and changes nothing of the first's.

Each is run twice, with ids and names of the first owner: once with `owner_id` as the operation
gives it, once with the first owner's, so that row-level security alone stands in the way.
"""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from muster.pg.driver import Connection, DatabaseError
from muster.pg.driver import json as jsonb
from muster.pg.query import Query
from muster.principals import Owner
from tests.pg.test_rls import OWNED
from tests.support.cluster import Cluster, SpiedDatabase, add_owner
from tests.support.rows import Rows, add_rows
from tests.test_sql import QUERIES, prepared

_PARAMETER = re.compile(r"%\((\w+)\)s")
_OWNED = re.compile(rf"\b(?:{'|'.join(OWNED)})\b")
# Not granted or row-level security, a foreign key, a trigger, a constraint, a unique index.
REFUSALS = {"42501", "23503", "23001", "23514", "23505"}
# It asks whether there is anybody at all, and whoever asks is.
OF_ANYBODY = {"muster.accounts.operations.links.ANY_USER"}
WALLED = sorted(
    name for name, query in QUERIES.items() if _OWNED.search(query.text) and name not in OF_ANYBODY
)
LATER = datetime(2999, 1, 1, tzinfo=UTC)


async def _types(admin: Connection, query: Query) -> dict[str, str]:
    """The type of each of a statement's parameters, as the server makes it out."""
    await admin.script(prepared(query.text))
    types = await admin.scalar(
        "select array_to_string(parameter_types::text[], ',') from pg_prepared_statements"
        " where name = 'tried'",
        {},
    )
    names = dict.fromkeys(_PARAMETER.findall(query.text))
    return dict(zip(names, types.split(",") if types else (), strict=True))


def _arguments(query: Query, types: dict[str, str], rows: Rows, victim: Owner) -> dict[str, object]:
    """What a confused or hostile caller would ask for: the victim's things, and changes to them."""
    known: dict[str, object] = {
        **{name: value for name, value in attrs.asdict(rows).items() if name.endswith("_id")},
        "newer_id": rows.draft_id,
        "superseded_by": rows.draft_id,
        "holder_id": rows.plugin_id,
        "before_id": 2**62,
        "status": "open",
        "author": "owner",
        "external_id": "1",
        "plugin": "mail",
        "kind": "mpl_",
        "key": "inbox",
        "tag": "inbox",
        "pattern": "%",
        "state": "pending" if "drafts" in query.text else "queued",
        "since": datetime(2000, 1, 1, tzinfo=UTC),
        "newer": 0,
        "epoch": 0,
    }
    if "name" in types:
        known["name"] = f"user-{victim.owner_id}" if "users" in query.text else "mail"
        known["name"] = "helper" if "agents" in query.text else known["name"]
    table = _OWNED.search(query.text)
    noun = "plugin" if table is None else table[0].removesuffix("s")
    known["id"] = known.get(f"{noun}_id", rows.plugin_id)
    by_type: dict[str, object] = {
        "bigint": 100,
        "integer": 100,
        "double precision": 1.0,
        "text": "x",
        "boolean": True,
        "bytea": rows.token_sha256,
        "timestamp with time zone": LATER,
        "interval": timedelta(hours=1),
        "jsonb": jsonb({}),
        "bigint[]": [value for value in known.values() if isinstance(value, int) and value],
        "text[]": ["x"],
        "boolean[]": [True],
        "double precision[]": [1.0],
    }
    wanted = types.keys() - {"now", "owner_id"}
    return {name: known.get(name, by_type[types[name]]) for name in wanted}


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
        sql = f"select string_agg(t::text, e'\\n' order by t::text) from {table} t"
        params = {"owner": owner.owner_id}
        found[table] = await admin.scalar(f"{sql} where {column} = %(owner)s", params)
    return found


async def _run_as(
    db: SpiedDatabase, stranger: Owner, query: Query, arguments: dict[str, object]
) -> list[dict[str, object]]:
    """What the statement shows; a row count other than none counts as shown."""
    reads = query.text.lstrip().startswith(("select", "with")) or " returning " in f" {query.text} "
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
    # Other tests' links for a first account are nobody's: whoever opens one ends them.
    await admin.script("delete from setup_links where owner_id is null")
    query, rows = QUERIES[name], await add_rows(db, owner)
    stranger = await add_owner(db)
    before = await _all_of(admin, owner)
    assert all(before.values())
    arguments = _arguments(query, await _types(admin, query), rows, owner)
    shown = await _run_as(db, stranger, query, {**arguments, "owner_id": owner.owner_id})
    for row in shown:
        own = "email" in row and row["id"] == stranger.owner_id
        assert own or not any(row.values()), row
    await _run_as(db, stranger, query, arguments)
    assert await _all_of(admin, owner) == before


def test_the_walls_are_tried_by_many() -> None:
    """The walk finds the statements on owned tables."""
    assert len(WALLED) > 40
