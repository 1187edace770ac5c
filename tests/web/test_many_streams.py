"""How many streams of `/live` somebody may have."""

import pytest

from muster.node import live
from muster.principals import Owner
from tests.support.cluster import OwnDatabase, SpiedDatabase
from tests.support.person import add_person
from tests.support.server import running_server
from tests.support.visitor import sign_in


async def test_an_owners_streams_have_an_end(
    db: SpiedDatabase, cluster: OwnDatabase, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One stream too many is 429, over all sessions of an owner; others are not held up by it."""
    monkeypatch.setattr(live, "STREAMS_MAX", 2)
    async with running_server(db, cluster.app_url) as server:
        first, second = await sign_in(server, owner), await sign_in(server, owner)
        other = await sign_in(server, (await add_person(db)).owner)
        async with (
            first.client,
            second.client,
            other.client,
            first.client.stream("GET", "/live") as one,
            second.client.stream("GET", "/live") as two,
            other.client.stream("GET", "/live") as apart,
        ):
            assert {one.status_code, two.status_code, apart.status_code} == {200}
            refused = await second.get("/live")
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
            assert refused.json()["code"] == "too_many"
