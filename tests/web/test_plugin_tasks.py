"""`POST /plugin/v1/tasks` over a real socket: every answer of its section."""

import json

import httpx2
import pytest
import trio

from muster.tasks import operations as tasks
from muster.tasks.operations import Edit, Status
from tests.support.desk import Desk, OpenDesk, error_of

KEY = "tracker:4711"
CREATE = {"title": "Rotate the build key", "body": "It is old."}
GOOD: dict[str, object] = {"key": KEY, "create": CREATE, "comment": "assigned (message 41)"}
LISTED = {"MUSTER_PLUGIN_TASK_NAMESPACES": "tracker,desk"}


async def tell(at: Desk, status: int, body: object) -> dict[str, object]:
    """Post a notice; the answer, which must have this status."""
    answer = await at.send("tasks", body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    decoded: dict[str, object] = answer.json()
    return decoded


@pytest.mark.rule(101, 103, 115, 116, 117, 123, 127, 129)
async def test_a_record_s_notices_over_the_wire(desk: OpenDesk) -> None:
    """A first notice files, a resend adds nothing, a new comment is added, a closed task passed."""
    async with desk(**LISTED) as at:
        alone = await tell(at, 200, {"key": KEY, "comment": "early"})
        assert alone == {"id": None, "created": False, "commented": False}
        first = await tell(at, 201, GOOD)
        assert (first["created"], first["commented"]) == (True, True)
        assert set(first) == {"id", "created", "commented"}
        task_id = first["id"]
        assert isinstance(task_id, int)
        assert await tell(at, 200, GOOD) == {"id": task_id, "created": False, "commented": False}
        added = await tell(at, 200, {"key": KEY, "comment": "done (message 42)"})
        assert added == {"id": task_id, "created": False, "commented": True}
        close = tasks.EditTask(task_id=task_id, edit=Edit(status=Status.COMPLETE))
        await at.db.run(at.owner, tasks.edit_task, close)
        assert (await tell(at, 201, GOOD))["id"] != task_id
        assert await at.db.run(at.owner, tasks.list_tasks, tasks.ListTasks(tag="gate:x")) == []


@pytest.mark.rule(101, 106, 108, 120)
@pytest.mark.parametrize("notice", ["assigned", "mentioned", "update"])
async def test_what_should_be_routed_is_filed_and_routed_nowhere(
    desk: OpenDesk, notice: str
) -> None:
    """With route_to_chief every 2xx says `"routed": false`, and nothing reaches the chief."""
    async with desk(**LISTED) as at, at.agent() as agent:
        await agent.next_frame("welcome")
        routed = {**GOOD, "route_to_chief": True, "notice": notice}
        assert (await tell(at, 201, routed))["routed"] is False
        assert (await tell(at, 200, routed))["routed"] is False
        alone = {"key": "tracker:9", "comment": "c", "route_to_chief": True, "notice": notice}
        assert await tell(at, 200, alone) == {
            "id": None,
            "created": False,
            "commented": False,
            "routed": False,
        }
        assert "routed" not in await tell(at, 200, {**GOOD, "route_to_chief": False})
        await at.post()
        turn = await agent.next_frame("turn")
        assert "Rotate" not in turn["text"]


BAD: list[tuple[str, dict[str, object]]] = [
    ("key", {**GOOD, "key": "4711"}),
    ("key", {**GOOD, "key": "Tracker:4711"}),
    ("key", {**GOOD, "key": "other:4711"}),
    ("key", {**GOOD, "key": "gate:4711"}),
    ("key", {**GOOD, "key": 4711}),
    ("key", {"create": CREATE}),
    ("create", {"key": KEY}),
    ("create", {"key": KEY, "comment": " \n"}),
    ("create", {"key": KEY, "create": None, "comment": "c"}),
    ("create.body", {"key": KEY, "create": {"title": "t", "body": " "}}),
    ("create.title", {"key": KEY, "create": {"title": " ", "body": "b"}}),
    ("create", {"key": KEY, "create": {"title": "t"}}),
    ("create.title", {"key": KEY, "create": {"title": 7, "body": "b"}}),
    ("create.title", {"key": KEY, "create": {"title": "nul\0", "body": "b"}}),
    ("comment", {**GOOD, "comment": "nul\0"}),
    ("comment", {**GOOD, "comment": None}),
    ("notice", {**GOOD, "route_to_chief": True}),
    ("comment", {"key": KEY, "create": CREATE, "route_to_chief": True, "notice": "update"}),
    ("comment", {**GOOD, "comment": " ", "route_to_chief": True, "notice": "update"}),
    ("notice", {**GOOD, "notice": "update"}),
    ("notice", {**GOOD, "route_to_chief": False, "notice": "update"}),
    ("notice", {**GOOD, "route_to_chief": True, "notice": "commented"}),
    ("route_to_chief", {**GOOD, "route_to_chief": "true", "notice": "update"}),
    ("priority", {**GOOD, "priority": 1}),
    ("create", {"key": KEY, "create": {**CREATE, "tags": ["gate:x"]}}),
]


@pytest.mark.rule(102, 103, 104, 105, 106, 107, 109, 110, 118)
@pytest.mark.parametrize(
    ("field", "body"), BAD, ids=[f"{n}-{field}" for n, (field, _) in enumerate(BAD)]
)
async def test_what_breaks_a_rule_is_400_and_writes_nothing(
    desk: OpenDesk, field: str, body: dict[str, object]
) -> None:
    """A field that breaks its rule is refused by name, and no task is filed."""
    async with desk(**LISTED) as at:
        answer = await at.send("tasks", body)
        assert answer.status_code == 400
        assert error_of(answer)["field"].startswith(field)
        assert await at.db.run(at.owner, tasks.list_tasks, tasks.ListTasks()) == []


@pytest.mark.rule(119)
async def test_without_namespaces_it_is_503_behind_credential_and_shape(desk: OpenDesk) -> None:
    """A server that lists none answers 401 and 400 as ever, and 503 to the rest, with a wait."""
    async with desk() as at:
        answer = await at.send("tasks", GOOD)
        assert answer.status_code == 503
        assert error_of(answer)["code"] == "no_task_namespaces"
        assert int(answer.headers["retry-after"]) > 0
        assert (await at.send("tasks", {**GOOD, "priority": 1})).status_code == 400
        assert (await at.send("tasks", {"key": KEY})).status_code == 400
        async with at.server.client("mpl_unknown") as client:
            assert (await client.post("/plugin/v1/tasks", json={})).status_code == 401


@pytest.mark.rule(111, 112)
async def test_a_long_record_is_cut_and_not_refused(desk: OpenDesk) -> None:
    """Megabyte-long text, each byte of it escaped, is taken and cut; over the cap it is 413."""
    long = {
        "key": KEY,
        "create": {"title": "\u00e9" * 2000, "body": "\u00e9" * 80_000},
        "comment": "\u20ac" * 40_000,
    }
    async with desk(**LISTED) as at:
        raw = json.dumps(long)
        assert 700_000 < len(raw) < 1024 * 1024
        async with at.server.client(at.plugin_token) as client:
            answer = await client.post("/plugin/v1/tasks", content=raw)
            assert answer.status_code == 201, answer.text
            over = raw.ljust(1024 * 1024 + 1)
            assert (await client.post("/plugin/v1/tasks", content=over)).status_code == 413
        task_id = answer.json()["id"]
        task = await at.db.run(at.owner, tasks.get_task, task_id)
        assert task.title == "\u00e9" * 512
        assert task.body == "\u00e9" * 8192
        command = tasks.ListComments(task_id=task_id)
        (comment,) = await at.db.run(at.owner, tasks.list_comments, command)
        assert comment.body == "\u20ac" * 5461


@pytest.mark.rule(126)
async def test_ten_at_once_file_one_task(desk: OpenDesk) -> None:
    """Ten requests that race on one key are one 201 and nine 200 with the same id."""
    async with desk(**LISTED) as at:
        answers: list[httpx2.Response] = []

        async def post() -> None:
            answers.append(await at.send("tasks", GOOD))

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(post)
        assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert sum(answer.json()["commented"] for answer in answers) == 1
