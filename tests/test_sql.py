"""Every Query of muster is understood by the database as it is migrated."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

import muster
from muster.pg.driver import Connection, DatabaseError
from muster.pg.pipeline import DECLARED
from muster.pg.query import Query
from tests.support.cluster import Cluster

_PARAMETER = re.compile(r"%\((\w+)\)s")
_WRITE = re.compile(r"\s*(update|insert|delete)\b")


def list_queries() -> Iterator[tuple[str, Query]]:
    """Each Query at the top of a module of muster, with its full name."""
    for found in pkgutil.walk_packages(muster.__path__, "muster."):
        if found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            if isinstance(value, Query):
                yield f"{found.name}.{name}", value


QUERIES = dict(list_queries())


def prepared(text: str) -> str:
    """The PREPARE of a statement as the pipeline sends it: `$1` for each name."""
    names = list(dict.fromkeys(_PARAMETER.findall(text)))
    body = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", text).replace("%%", "%")
    types = ", ".join(DECLARED.get(name, "unknown") for name in names)
    return f"prepare tried{f'({types})' if types else ''} as {body}"


async def refusal(cluster: Cluster, text: str) -> str | None:
    """What the server says against preparing a statement."""
    connection = await Connection.open(cluster.app_url)
    try:
        await connection.script(prepared(text))
    except DatabaseError as error:
        return str(error)
    finally:
        connection.close()
    return None


@pytest.mark.parametrize("name", sorted(QUERIES))
async def test_query_is_understood(cluster: Cluster, name: str) -> None:
    """The migrated schema has what the query names, in types that fit, in each of its forms."""
    query = QUERIES[name]
    assert await refusal(cluster, query.text) is None
    assert await refusal(cluster, query.opening) is None
    if _WRITE.match(query.text) and "returning" not in query.text:
        assert await refusal(cluster, query.exactly_one) is None


async def test_misspelt_query_is_found(cluster: Cluster) -> None:
    """A column that does not exist is told, so that this file can fail."""
    assert "no_such" in str(await refusal(cluster, Query("select no_such from users").opening))


def test_queries_stand_at_the_top() -> None:
    """The walk finds the queries that everybody uses, under the names of their modules."""
    assert "muster.pg.audit.RECORD" in QUERIES
