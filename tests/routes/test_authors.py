"""`POST /api/pr-sessions`: a session's hook tells what it created and pushed."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import attrs
import pytest

from muster.credentials.operations.personal import add_personal
from muster.credentials.rules import AddPersonal, Scope
from muster.mirror.operations.sessions import find_session
from muster.pg.query import Query
from muster.principals import Owner
from muster.routes.operations.authors import Author, Did, find_author
from muster.routes.reviews import Review
from tests.support.builders import read_now
from tests.support.cluster import Cluster, SpiedDatabase, add_owner
from tests.support.desk import error_of
from tests.support.fleet_desk import focus
from tests.support.mirror_host import ScriptedHost, new_host, new_session
from tests.support.server import Server, running_server
from tests.support.waiting import until

HOOK = "a-hook-token-of-32-characters-or-more"
PATH = "/api/pr-sessions"
GATE = "MUSTER_PR_MAIL_SENDERS"
ROWS = Query("""
    select repo, pr, head_ref, claude_session, seen_at from session_prs
    where owner_id = %(owner_id)s order by id
""")


@attrs.frozen(kw_only=True)
class Row:
    """An authorship as it is stored."""

    repo: str
    pr: int | None
    head_ref: str | None
    claude_session: str
    seen_at: datetime


@attrs.frozen(kw_only=True)
class Authors:
    """A server with a review gate, and its owner."""

    db: SpiedDatabase
    owner: Owner
    server: Server
    token: str

    async def report(self, token: str | None = None, **body: object) -> tuple[int, bytes]:
        """Report an authorship; the answer."""
        async with self.server.client(token or self.token) as client:
            answer = await client.post(PATH, json={"repo": "example/garden"} | body)
        return answer.status_code, answer.content

    async def created(self, session: str, pr: int = 12, **more: Any) -> tuple[int, bytes]:
        """Report that a session created a pull request."""
        return await self.report(kind="gh-pr-create", pr=pr, claude_session=session, **more)

    async def pushed(self, session: str, head_ref: str = "roses", **more: Any) -> tuple[int, bytes]:
        """Report that a session pushed a branch."""
        return await self.report(kind="git-push", head_ref=head_ref, claude_session=session, **more)

    async def author(
        self, pr: int = 12, head_ref: str | None = None, repo: str = "example/garden"
    ) -> Author | None:
        """The author of a pull request."""
        review = Review(repo=repo, pr=pr, head_sha="0" * 40, head_ref=head_ref)
        async with self.db.transaction(self.owner) as tx:
            return await find_author(tx, review)

    async def is_away(self, session: str) -> bool:
        """Whether no online window shows a session any more."""
        async with self.db.transaction(self.owner) as tx:
            found = await find_session(tx, session)
        return found is None or not found.online

    async def rows(self) -> list[Row]:
        """All that is stored."""
        async with self.db.transaction(self.owner) as tx:
            return await tx.all(ROWS, Row)


@pytest.fixture
async def authors(cluster: Cluster, db: SpiedDatabase, owner: Owner) -> AsyncIterator[Authors]:
    """The owner's server."""
    settings = {
        "MUSTER_SESSION_ROUTING": "1",
        GATE: "example/gate",
        "MUSTER_HOOK_TOKEN": HOOK,
        "MUSTER_HOOK_OWNER": f"user-{owner.owner_id}",
    }
    _, token = await db.run(owner, add_personal, AddPersonal(name="laptop", scope=Scope.WRITE))
    async with running_server(db, cluster.app_url, **settings) as server:
        await server.node.heartbeat.beat()  # hosts are online once their server is known to live
        yield Authors(db=db, owner=owner, server=server, token=token)


@pytest.mark.rule(355, 357)
async def test_an_authorship_is_noted_once_and_is_the_most_recent_when_told_again(
    authors: Authors,
) -> None:
    """201, then 200, without a body; whoever was told last is the author."""
    one, two = new_session(), new_session()
    assert await authors.created(one, head_ref="roses") == (201, b"")
    assert await authors.created(two, token=HOOK) == (201, b"")
    found = await authors.author()
    assert found is not None
    assert (found.claude_session, found.kind) == (two, Did.CREATED)
    assert await authors.created(one, repo="Example/Garden") == (200, b"")
    found = await authors.author(repo="EXAMPLE/garden")
    assert found is not None
    assert found.claude_session == one
    # No window shows it: it is stored, without a host; what a later report leaves out stays.
    assert (found.mirrored_id, found.host, found.head_ref) == (None, None, "roses")
    assert len(await authors.rows()) == 2


@pytest.mark.rule(356, 360)
async def test_a_branch_names_its_pusher_and_a_number_its_creator(authors: Authors) -> None:
    """Whichever was told last; another number, branch or repository names nobody."""
    creator, pusher = new_session(), new_session()
    await authors.created(creator)
    await authors.pushed(pusher)
    for head_ref, session in ((None, creator), ("other", creator), ("roses", pusher)):
        found = await authors.author(head_ref=head_ref)
        assert found is not None
        assert found.claude_session == session
    assert await authors.author(pr=13) is None
    await authors.created(creator, pr=11, head_ref="tulips")
    assert await authors.author(pr=13, head_ref="tulips") is None
    assert await authors.author(head_ref="roses", repo="example/other") is None
    await authors.created(creator)
    found = await authors.author(head_ref="roses")
    assert found is not None
    assert (found.claude_session, found.did) == (creator, "created example/garden#12")


@pytest.mark.rule(357)
async def test_the_host_is_kept_while_a_window_shows_the_session(
    authors: Authors, db: SpiedDatabase, owner: Owner
) -> None:
    """It is the one that showed it at a report; a report without a window keeps the one before."""
    session = new_session()
    host_id, token = await new_host(db, owner)
    async with ScriptedHost(authors.server.url, token) as host:
        await host.hello()
        await host.show(session)
        await authors.pushed(session)
        await authors.created(session)
        await host.show(new_session())
        assert await authors.pushed(session) == (200, b"")
        assert await authors.created(session) == (200, b"")
    for found in (await authors.author(head_ref="roses"), await authors.author()):
        assert found is not None
        assert (found.host_id, found.host) == (host_id, "box")


@pytest.mark.rule(363)
async def test_an_author_has_the_title_that_it_had_last(
    authors: Authors, db: SpiedDatabase, owner: Owner
) -> None:
    """Whatever it was about when it created the pull request."""
    session = new_session()
    _, token = await new_host(db, owner)
    async with ScriptedHost(authors.server.url, token) as host:
        await host.hello()
        await host.show(session)
        now = await read_now(db)
        for minutes, title in ((3, "Roses"), (1, "Tulips"), (2, "Weeds")):
            await focus(host, session, title, at=now - timedelta(minutes=minutes))
    await authors.created(session)
    found = await authors.author()
    assert found is not None
    assert found.title == "Tulips"


@pytest.mark.rule(357)
async def test_a_window_of_a_host_that_is_away_names_no_host(
    authors: Authors, db: SpiedDatabase, owner: Owner
) -> None:
    """It is remembered, and shows nobody what runs there."""
    session = new_session()
    _, token = await new_host(db, owner)
    async with ScriptedHost(authors.server.url, token) as host:
        await host.hello()
        await host.show(session)
    await until(partial(authors.is_away, session))
    await authors.pushed(session)
    found = await authors.author(head_ref="roses")
    assert found is not None
    assert (found.host_id, found.did) == (None, "pushed roses to example/garden")


@pytest.mark.rule(357)
async def test_what_was_not_told_for_thirty_days_is_deleted_by_the_next_report(
    authors: Authors, db: SpiedDatabase
) -> None:
    """The owner's own report deletes their old rows, and nobody else's."""
    other = await add_owner(db)
    _, others = await db.run(other, add_personal, AddPersonal(name="a", scope=Scope.WRITE))
    await authors.created(new_session(), token=others)
    old, kept = new_session(), new_session()
    await authors.created(old)
    db.clock_offset += timedelta(days=1)
    await authors.pushed(kept)
    db.clock_offset += timedelta(days=29, seconds=1)
    await authors.created(new_session(), pr=99)
    assert old not in [row.claude_session for row in await authors.rows()]
    assert kept in [row.claude_session for row in await authors.rows()]
    async with db.transaction(other) as tx:
        assert len(await tx.all(ROWS, Row)) == 1


@pytest.mark.rule(355, 356)
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kind": "gh-pr-create"}, "pr"),
        ({"kind": "gh-pr-create", "pr": 0}, "pr"),
        ({"kind": "gh-pr-create", "pr": "12"}, "pr"),
        ({"kind": "gh-pr-create", "pr": 12, "head_ref": "a b"}, "head_ref"),
        ({"kind": "git-push"}, "head_ref"),
        ({"kind": "git-push", "head_ref": ""}, "head_ref"),
        ({"kind": "git-push", "head_ref": "roses", "pr": 12}, "pr"),
        ({"kind": "web", "pr": 12}, "kind"),
        ({"kind": "gh-pr-create", "pr": 12, "repo": "garden"}, "repo"),
        ({"kind": "gh-pr-create", "pr": 12, "claude_session": "one"}, "claude_session"),
    ],
)
async def test_what_is_no_report_is_refused(
    authors: Authors, body: dict[str, object], field: str
) -> None:
    """400 names the field, and nothing is stored."""
    known = {"repo": "example/garden", "claude_session": new_session()}
    async with authors.server.client(authors.token) as client:
        answer = await client.post(PATH, json=known | body)
    assert (answer.status_code, error_of(answer)["field"]) == (400, field)
    assert await authors.rows() == []


@pytest.mark.rule(354, 355)
@pytest.mark.parametrize("left_out", ["MUSTER_SESSION_ROUTING", GATE])
async def test_without_a_gate_or_routing_there_is_no_such_route(
    cluster: Cluster, db: SpiedDatabase, owner: Owner, left_out: str
) -> None:
    """404 while either setting is missing."""
    settings = {"MUSTER_SESSION_ROUTING": "1", GATE: "example/gate"}
    del settings[left_out]
    _, token = await db.run(owner, add_personal, AddPersonal(name="laptop", scope=Scope.WRITE))
    async with (
        running_server(db, cluster.app_url, **settings) as server,
        server.client(token) as client,
    ):
        answer = await client.post(PATH, json={})
    assert answer.status_code == 404


@pytest.mark.rule(360)
async def test_another_owners_session_is_never_an_author(
    authors: Authors, db: SpiedDatabase
) -> None:
    """Only the owner's own reports name an author."""
    other = await add_owner(db)
    _, token = await db.run(other, add_personal, AddPersonal(name="a", scope=Scope.WRITE))
    assert (await authors.created(new_session(), token=token))[0] == 201
    assert await authors.author() is None


@pytest.mark.rule(348, 355)
async def test_what_hooks_report_is_documented_as_answers_without_a_body(
    authors: Authors,
) -> None:
    """The document has both routes while they are on, and no content at 200 and 201."""
    async with authors.server.client() as client:
        paths = (await client.get("/openapi.json")).json()["paths"]
    for path in (PATH, "/api/plugin-threads"):
        told = paths[path]["post"]["responses"]
        assert "content" not in told["200"]
        assert "content" not in told["201"]
        assert "content" in told["400"]
