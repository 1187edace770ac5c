"""`/api/tasks` over a real socket: who may do what, and what is answered."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx2
import pytest

from muster.credentials.operations.personal import add_personal
from muster.credentials.rules import AddPersonal, Scope
from muster.principals import Owner
from tests.support.builders import read_audit
from tests.support.cluster import Cluster, SpiedDatabase, add_owner
from tests.support.desk import error_of
from tests.support.server import Server, running_server

HOOK = "a-hook-token-of-32-characters-or-more"


@attrs.frozen(kw_only=True)
class Api:
    """A running server and the tokens of one owner."""

    server: Server
    db: SpiedDatabase
    owner: Owner
    write: str
    read: str

    async def ask(
        self, method: str, path: str, body: object = None, *, token: str | None = None
    ) -> httpx2.Response:
        """One request with the writing token, or another."""
        async with self.server.client(token or self.write) as client:
            return await client.request(method, path, json=body)

    async def done(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """One request that must go well; its answer."""
        answer = await self.ask(method, path, body)
        assert answer.status_code in (200, 201), answer.text
        decoded: dict[str, Any] = answer.json()
        return decoded

    async def task(self, **fields: object) -> int:
        """File a task; its id."""
        task_id: int = (await self.done("POST", "/api/tasks", {"title": "Dig", **fields}))["id"]
        return task_id


@asynccontextmanager
async def opened(db: SpiedDatabase, owner: Owner, cluster: Cluster) -> AsyncIterator[Api]:
    """A server with a hook token for this owner."""
    tokens = {}
    for scope in Scope:
        command = AddPersonal(name=scope.value, scope=scope)
        _, tokens[scope] = await db.run(owner, add_personal, command)
    settings = {
        "MUSTER_HOOK_TOKEN": HOOK,
        "MUSTER_HOOK_OWNER": f"user-{owner.owner_id}",
        "MUSTER_PLUGIN_TASK_NAMESPACES": "tracker",
    }
    async with running_server(db, cluster.app_url, **settings) as server:
        yield Api(
            server=server, db=db, owner=owner, write=tokens[Scope.WRITE], read=tokens[Scope.READ]
        )


@pytest.fixture
async def api(db: SpiedDatabase, owner: Owner, cluster: Cluster) -> AsyncIterator[Api]:
    """An API."""
    async with opened(db, owner, cluster) as api:
        yield api


async def test_a_task_s_life_by_its_routes(api: Api) -> None:
    """A task is filed, shown, changed, ungated, commented on, listed and closed."""
    made = await api.ask(
        "POST",
        "/api/tasks",
        {"title": "Dig", "body": "Deep.", "tags": ["In Box", "gate:x"], "model": "large"},
    )
    assert made.status_code == 201
    task = made.json()
    assert set(task) == {
        *("id", "title", "body", "status", "open", "gated", "tags", "repository", "model"),
        *("message_id", "merged_into", "created_by", "created_at", "updated_at", "closed_at"),
    }
    assert (task["tags"], task["gated"], task["open"]) == (["gate:x", "in-box"], True, True)
    path = f"/api/tasks/{task['id']}"
    assert await api.done("GET", path) == task
    edit = {"title": "Dig more", "status": "in_progress", "model": "", "add_tags": ["New"]}
    changed = await api.done("PATCH", path, edit)
    assert (changed["title"], changed["status"], changed["model"]) == (
        "Dig more",
        "in_progress",
        None,
    )
    assert changed["body"] == "Deep."
    ungated = await api.done("POST", f"{path}/ungate")
    assert (ungated["tags"], ungated["gated"]) == (["in-box", "new"], False)
    comment = await api.done("POST", f"{path}/comments", {"body": "How deep?"})
    assert (comment["author"], comment["body"], comment["retracted_at"]) == (
        "owner",
        "How deep?",
        None,
    )
    retracted = await api.done("POST", f"{path}/retract", {"comment_id": comment["id"]})
    assert retracted["body"] is None
    listed = await api.done("GET", f"{path}/comments")
    assert listed == {"comments": [retracted], "next_before": None}
    closed = await api.done("PATCH", path, {"status": "complete"})
    assert closed["closed_at"].endswith("Z")
    assert (await api.done("GET", "/api/tasks"))["tasks"] == []
    assert (await api.done("GET", "/api/tasks?status=complete"))["tasks"] == [closed]
    actions = [row.action for row in await read_audit(api.db, api.owner, "task.")]
    assert actions == [
        *("task.created", "task.changed", "task.ungated", "task.commented"),
        *("task.comment_retracted", "task.changed"),
    ]
    vias = {row.via for row in await read_audit(api.db, api.owner, "task.")}
    assert vias == {"token write"}


@pytest.mark.rule(114)
async def test_a_merge_answers_the_winner(api: Api) -> None:
    """The winner carries the tags of both; the loser says where it went and takes no change."""
    loser, winner = await api.task(tags=["tracker:1"]), await api.task(tags=["tracker:2"])
    merged = await api.done("POST", f"/api/tasks/{loser}/merge", {"into": winner})
    assert (merged["id"], merged["tags"]) == (winner, ["tracker:1", "tracker:2"])
    lost = await api.done("GET", f"/api/tasks/{loser}")
    assert (lost["merged_into"], lost["open"]) == (winner, False)
    assert f"superseded-by:{winner}" in lost["tags"]
    for again in ({"into": winner}, {"into": loser}):
        answer = await api.ask("POST", f"/api/tasks/{loser}/merge", again)
        assert answer.status_code == 409
        assert error_of(answer)["code"] == "task_merged"
    answer = await api.ask("POST", f"/api/tasks/{winner}/merge", {"into": winner})
    assert error_of(answer)["code"] == "merge_self"


async def test_lists_are_filtered_and_paged(api: Api) -> None:
    """Tag, text, status and page narrow the list; a full page says where the next begins."""
    one, two, three = [await api.task(title=f"Task {n}", tags=[f"t{n % 2}"]) for n in range(3)]

    async def ids(query: str) -> list[int]:
        return [task["id"] for task in (await api.done("GET", f"/api/tasks?{query}"))["tasks"]]

    assert await ids("tag=T0") == [three, one]
    assert await ids("text=task+1") == [two]
    assert await ids("status=all&limit=2") == [three, two]
    page = await api.done("GET", "/api/tasks?limit=2")
    assert page["next_before"] == two
    assert await ids(f"limit=2&before={two}") == [one]
    assert (await api.done("GET", f"/api/tasks?before={two}"))["next_before"] is None


_Asked = tuple[str, str, object]

READERS = [("GET", "/api/tasks"), ("GET", "/api/tasks/{id}"), ("GET", "/api/tasks/{id}/comments")]
BRINGERS: list[_Asked] = [
    ("POST", "/api/tasks", {"title": "t"}),
    ("POST", "/api/tasks/{id}/comments", {"body": "c"}),
]
OWNERS_OWN: list[_Asked] = [
    ("PATCH", "/api/tasks/{id}", {"status": "complete"}),
    ("POST", "/api/tasks/{id}/ungate", None),
    ("POST", "/api/tasks/{id}/merge", {"into": 1}),
    ("POST", "/api/tasks/{id}/retract", {"comment_id": 1}),
]


async def test_each_token_does_what_it_is_for(api: Api) -> None:
    """A reading token reads alone; the hook token reads and brings, and opens no gate."""
    task_id = await api.task(tags=["gate:x"])
    for method, path in READERS:
        for token in (api.read, api.write, HOOK):
            answer = await api.ask(method, path.format(id=task_id), token=token)
            assert answer.status_code == 200, (method, path)
    for method, path, body in BRINGERS:
        place = path.format(id=task_id)
        assert (await api.ask(method, place, body, token=HOOK)).status_code == 201
        refused = await api.ask(method, place, body, token=api.read)
        assert (refused.status_code, error_of(refused)["code"]) == (403, "scope")
    for method, path, body in OWNERS_OWN:
        place = path.format(id=task_id)
        assert (await api.ask(method, place, body, token=api.read)).status_code == 403
        for token in (HOOK, "mst_" + "a" * 43, "mag_" + "a" * 43):
            answer = await api.ask(method, place, body, token=token)
            assert answer.status_code == 401, (method, path)
            error_of(answer)
    assert (await api.done("GET", f"/api/tasks/{task_id}"))["gated"] is True
    (by_hook,) = [
        row for row in await read_audit(api.db, api.owner, "task.commented") if row.via == "hook"
    ]
    assert by_hook.actor == "owner"


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/api/tasks", {}, "title"),
        ("POST", "/api/tasks", {"title": ""}, "title"),
        ("POST", "/api/tasks", {"title": "t", "tags": ["a,b"]}, "tags"),
        ("POST", "/api/tasks", {"title": "t", "tags": ["superseded-by:1"]}, "tags"),
        ("POST", "/api/tasks", {"title": "t", "body": None}, "body"),
        ("POST", "/api/tasks", {"title": "t", "repository": "x"}, "repository"),
        ("POST", "/api/tasks", {"title": "t", "status": "complete"}, "status"),
        ("PATCH", "/api/tasks/{id}", {"status": "finished"}, "status"),
        ("PATCH", "/api/tasks/{id}", {"add_tags": [""]}, "add_tags"),
        ("PATCH", "/api/tasks/{id}", {"title": "nul\0"}, "title"),
        ("POST", "/api/tasks/{id}/comments", {"body": " "}, "body"),
        ("POST", "/api/tasks/{id}/merge", {"into": "7"}, "into"),
        ("POST", "/api/tasks/{id}/merge", {"into": 2**64}, "into"),
        ("POST", "/api/tasks/{id}/retract", {}, "comment_id"),
        ("GET", "/api/tasks?status=finished", None, "status"),
        ("GET", "/api/tasks?limit=0", None, "limit"),
        ("GET", "/api/tasks?limit=x", None, "limit"),
        ("GET", "/api/tasks?before=0", None, "before"),
        ("GET", "/api/tasks?tag=a,b", None, "tag"),
        ("GET", "/api/tasks?page=2", None, "page"),
        ("GET", "/api/tasks?tag=a&tag=b", None, "tag"),
        ("GET", "/api/tasks/{id}/comments?limit=201", None, "limit"),
    ],
)
async def test_what_breaks_a_rule_is_400_by_name(
    api: Api, method: str, path: str, body: object, field: str
) -> None:
    """Bodies and queries are read strictly, and a refusal names the field."""
    answer = await api.ask(method, path.format(id=await api.task()), body)
    assert answer.status_code == 400, answer.text
    assert error_of(answer)["field"] == field


async def test_a_query_that_is_no_utf8_is_refused(api: Api) -> None:
    """A query that is not made of letters is 400, like a body."""
    answer = await api.ask("GET", "/api/tasks?text=%ff")
    assert answer.status_code == 400
    answer = await api.ask("GET", "/api/tasks?" + "&".join(f"a{n}=1" for n in range(30)))
    assert answer.status_code == 400


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
async def test_another_media_type_is_415_behind_the_credential(api: Api, kind: str | None) -> None:
    """What does not say that it is JSON is refused, whatever it holds, after the token."""
    headers: Mapping[str, str] = {} if kind is None else {"content-type": kind}
    places = [(method, path) for method, path, body in (*BRINGERS, *OWNERS_OWN) if body]
    for method, path in places:
        place = path.format(id=1)
        async with api.server.client(api.write) as client:
            answer = await client.request(method, place, content=b"{}", headers=headers)
            assert answer.status_code == 415, (method, path)
            assert error_of(answer)["code"] == "unsupported_media_type"
        async with api.server.client() as client:
            answer = await client.request(method, place, content=b"{}", headers=headers)
            assert answer.status_code == 401
    async with api.server.client(api.write) as client:
        answer = await client.post(
            "/api/tasks",
            content=b'{"title": "t"}',
            headers={"content-type": "Application/JSON; charset=utf-8"},
        )
        assert answer.status_code == 201


async def test_somebody_else_s_task_is_not_there(api: Api, cluster: Cluster) -> None:
    """Every route answers 404 for another owner's task, and for what is no id."""
    other = await add_owner(api.db)
    command = AddPersonal(name="other", scope=Scope.WRITE)
    _, token = await api.db.run(other, add_personal, command)
    theirs = (await api.ask("POST", "/api/tasks", {"title": "t"}, token=token)).json()["id"]
    routes: list[_Asked] = [(method, path, None) for method, path in READERS[1:]]
    mine = await api.task()
    for method, path, body in (*routes, BRINGERS[1], *OWNERS_OWN):
        for task_id in (theirs, 0, 2**63, "x", "-1", "1 "):
            answer = await api.ask(method, path.format(id=task_id), body)
            assert answer.status_code == 404, (method, path, task_id)
            error_of(answer)
    answer = await api.ask("POST", f"/api/tasks/{mine}/merge", {"into": theirs})
    assert answer.status_code == 404
    assert (await api.ask("DELETE", f"/api/tasks/{mine}")).status_code == 405
