"""The plugin client's notices, against a peer that answers badly and against muster itself."""

from collections.abc import AsyncIterator

import attrs
import pytest
import trio

from muster.clients.plugin import (
    Notice,
    Noticed,
    NotSignedInError,
    PluginClient,
    PluginsOffError,
    RefusedError,
    TryLaterError,
    UnexpectedAnswerError,
)
from muster.tasks import operations as tasks
from tests.support.desk import OpenDesk
from tests.support.scripted_server import (
    TASKS,
    TOKEN,
    Answer,
    ScriptedServer,
    Step,
    scripted_server,
)

NEW = Notice(
    key="tracker:4711", title="Rotate the key", body="It is old.", comment=" (41) assigned\n"
)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """Yield a scripted muster."""
    async with scripted_server() as server:
        yield server


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[PluginClient]:
    """Yield a client of it that keeps its notes to itself."""
    async with PluginClient(server.url, TOKEN, note=lambda _: None) as client:
        yield client


async def test_a_notice_is_sent_as_the_contract_spells_it(
    server: ScriptedServer, client: PluginClient
) -> None:
    """Each field stands where the contract has it, and what is not there is left out."""
    assert await client.post_task(NEW) == Noticed(task_id=1, created=True, commented=True)
    alone = attrs.evolve(NEW, title=None, body=None, routed_as="update")
    assert await client.post_task(alone) == Noticed(task_id=1, created=False, commented=False)
    assert [request.body for request in server.asked(TASKS)] == [
        {
            "key": "tracker:4711",
            "create": {"title": "Rotate the key", "body": "It is old."},
            "comment": "(41) assigned",
        },
        {
            "key": "tracker:4711",
            "comment": "(41) assigned",
            "route_to_chief": True,
            "notice": "update",
        },
    ]


async def test_a_comment_without_a_task_is_told(client: PluginClient) -> None:
    """Where no open task carries the key, and none was to be filed, there is no id."""
    noticed = await client.post_task(Notice(key="tracker:1", comment="done"))
    assert noticed == Noticed(task_id=None, created=False, commented=False)


@pytest.mark.parametrize("step", [step for step in Step if step is not Step.HANG])
async def test_a_notice_without_an_answer_is_posted_again(
    server: ScriptedServer, client: PluginClient, step: Step
) -> None:
    """However an answer gets lost, the same notice is sent again and recorded once."""
    server.script(TASKS, step)
    assert (await client.post_task(NEW)).task_id == 1
    first, second = server.asked(TASKS)
    assert first.body == second.body
    assert server.tasks == {"tracker:4711": ["(41) assigned"]}


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_obeyed_and_patience_ends(
    server: ScriptedServer, client: PluginClient, status: int
) -> None:
    """A notice that may be taken later is sent again after the wait; patience bounds it."""
    server.script(TASKS, Answer(status=status, body={"id": 1}, headers={"retry-after": "1"}))
    assert (await client.post_task(NEW)).created
    first, second = server.asked(TASKS)
    assert second.at - first.at >= 1
    server.script(TASKS, Answer(status=status, headers={"retry-after": "300"}))
    with trio.fail_after(5), pytest.raises(TryLaterError) as caught:
        await client.post_task(NEW, patience_seconds=10)
    assert caught.value.retry_after_seconds == 300


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(status=400, body={"error": "no", "field": "key"}), RefusedError),
        (Answer(status=409, body={"error": "no"}), RefusedError),
        (Answer(status=413, body={"error": "no"}), RefusedError),
        (Answer(status=401, body={"error": "no"}), NotSignedInError),
        (Answer(status=404, body={"error": "no"}), PluginsOffError),
        (Answer(status=200, body={"id": 7}), UnexpectedAnswerError),
        (Answer(status=200), UnexpectedAnswerError),
        (Answer(status=302), UnexpectedAnswerError),
    ],
)
async def test_a_final_answer_is_not_asked_for_again(
    server: ScriptedServer, client: PluginClient, answer: Answer, error: type[Exception]
) -> None:
    """Each final answer is one error of its own kind, after one request."""
    server.script(TASKS, answer)
    with pytest.raises(error):
        await client.post_task(NEW)
    assert len(server.asked(TASKS)) == 1


async def test_where_it_was_handed_on_is_told(server: ScriptedServer, client: PluginClient) -> None:
    """A server that routes says where to; one that does not says nowhere."""
    told = {"id": 7, "created": False, "commented": True, "routed": "chief"}
    server.script(TASKS, Answer(status=200, body=told))
    assert (await client.post_task(attrs.evolve(NEW, routed_as="assigned"))).routed == "chief"
    assert (await client.post_task(attrs.evolve(NEW, routed_as="assigned"))).routed == ""


@pytest.mark.rule(111, 112, 115, 116, 120, 127)
async def test_muster_takes_any_record_from_the_client(desk: OpenDesk) -> None:
    """A record of any length and letters is filed by the real server, cut, and resent for free."""
    huge = Notice(
        key="tracker:9",
        title="\U0001f600" * 100_000,
        body="\U0001f600" * 1_000_000,
        comment="(9) " + "\u00e9" * 1_000_000,
        routed_as="assigned",
    )
    async with desk(MUSTER_PLUGIN_TASK_NAMESPACES="tracker") as at:
        async with PluginClient(at.server.url, at.plugin_token) as client:
            first = await client.post_task(huge)
            again = await client.post_task(huge)
            with pytest.raises(RefusedError) as caught:
                await client.post_task(attrs.evolve(huge, key="other:9"))
        assert (first.created, first.commented, first.routed) == (True, True, "")
        assert (again.task_id, again.created, again.commented) == (first.task_id, False, False)
        assert caught.value.field == "key"
        assert first.task_id is not None
        task = await at.db.run(at.owner, tasks.get_task, first.task_id)
        assert task.title == "\U0001f600" * 512
        assert task.body == "\U0001f600" * 4096
