"""`POST /api/plugins/messages/{id}/retry`, and the turn that comes of it."""

from functools import partial
from pathlib import Path

import pytest
import trio

from muster.agents.operations import retire_agent
from muster.agents.rules import RetireAgent
from muster.credentials.operations.personal import add_personal
from muster.credentials.rules import AddPersonal, Scope
from muster.messages.rules import State
from muster.principals import Owner
from tests.support.builders import read_audit
from tests.support.cluster import add_owner
from tests.support.desk import Desk, OpenDesk, error_of
from tests.support.program import Ended, bare_program
from tests.support.server import ScriptedAgent

HOOK = "a-hook-token-of-32-characters-or-more"


async def make_token(at: Desk, scope: Scope = Scope.WRITE) -> str:
    """A personal token of the owner's."""
    command = AddPersonal(name=f"mine-{scope.value}", scope=scope)
    _, token = await at.db.run(at.owner, add_personal, command)
    return token


async def cut_a_turn(at: Desk, agent: ScriptedAgent, external_id: str = "m1") -> int:
    """Post a message whose turn fails; its id."""
    message_id = await at.post(external_id)
    turn = await agent.next_frame("turn")
    await agent.send("turn.failed", turn_id=turn["turn_id"], error="broken")
    await at.reaches(message_id, State.UNCONFIRMED)
    return message_id


def path_of(message_id: object) -> str:
    """Where a message is retried."""
    return f"/api/plugins/messages/{message_id}/retry"


@pytest.mark.rule(226, 227, 229)
async def test_a_retry_is_a_turn_that_says_so(desk: OpenDesk) -> None:
    """The message reaches the connected chief again, with both numbers, a warning and its age."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await cut_a_turn(at, agent)
        async with at.server.client(await make_token(at)) as client:
            answer = await client.post(path_of(message_id))
            assert (answer.status_code, answer.json()) == (
                200,
                {"message_id": message_id, "state": "queued", "retries": 1},
            )
            turn = await agent.next_frame("turn")
            preface, block = turn["text"].split("<<<", 1)
            assert "This is retry 1, delivery attempt 2:" in preface
            assert "you may already have acted on it" in preface
            assert "Check your tasks and your reply drafts" in preface
            assert "seconds old" in preface
            assert "retry 1" not in block
            again = await client.post(path_of(message_id))
            assert (again.status_code, error_of(again)["code"]) == (409, "message_state")
            await agent.send("turn.failed", turn_id=turn["turn_id"], error="broken")
            await at.reaches(message_id, State.UNCONFIRMED)
            assert (await client.post(path_of(message_id))).json()["retries"] == 2
        turn = await agent.next_frame("turn")
        assert "This is retry 2, delivery attempt 3:" in turn["text"]
        await agent.send("turn.done", turn_id=turn["turn_id"], text="")
        await at.reaches(message_id, State.DELIVERED)
        rows = await read_audit(at.db, at.owner, "plugin.retried")
        assert [row.via for row in rows] == ["token mine-write"] * 2


@pytest.mark.rule(227)
async def test_without_a_connected_chief_it_stays_queued(desk: OpenDesk) -> None:
    """No runtime: the message waits in the queue, and a claim hands it over as any other."""
    async with desk() as at:
        async with at.agent() as agent:
            await agent.next_frame("welcome")
            message_id = await cut_a_turn(at, agent)
        async with at.server.client(await make_token(at)) as client:
            assert (await client.post(path_of(message_id))).status_code == 200
        assert await at.state(message_id) is State.QUEUED
        async with at.agent() as agent:
            await agent.next_frame("welcome")
            await at.claim()
            turn = await agent.next_frame("turn")
            assert "This is retry 1, delivery attempt 2:" in turn["text"]


@pytest.mark.rule(226)
async def test_the_doors_of_a_retry(desk: OpenDesk) -> None:
    """A personal token that may write and the hook token open it; no other credential does."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await cut_a_turn(at, agent)
        reading = await make_token(at, Scope.READ)
        refused = {None: 401, at.chief_token: 401, at.plugin_token: 401, reading: 403}
        for token, status in refused.items():
            async with at.server.client(token) as client:
                answer = await client.post(path_of(message_id))
                assert answer.status_code == status, token
                error_of(answer)
        assert await at.state(message_id) is State.UNCONFIRMED


@pytest.mark.rule(226)
async def test_the_hook_token_retries(desk: OpenDesk, owner: Owner) -> None:
    """On an armed server the shared hook token does it too, as its owner."""
    settings = {"MUSTER_HOOK_TOKEN": HOOK, "MUSTER_HOOK_OWNER": f"user-{owner.owner_id}"}
    async with desk(**settings) as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await cut_a_turn(at, agent)
        async with at.server.client(HOOK) as client:
            assert (await client.post(path_of(message_id))).status_code == 200
        turn = await agent.next_frame("turn")
        await agent.send("turn.done", turn_id=turn["turn_id"], text="")
        await at.reaches(message_id, State.DELIVERED)
        (row,) = await read_audit(at.db, at.owner, "plugin.retried")
        assert (row.actor, row.via) == ("owner", "hook")


@pytest.mark.rule(236, 237)
async def test_each_refusal_has_its_slug(desk: OpenDesk) -> None:
    """What may not be retried answers 409 with the reason, what is not the caller's 404."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await cut_a_turn(at, agent)
        _, token = await at.db.run(await add_owner(at.db), add_personal, AddPersonal(name="theirs"))
        async with at.server.client(token) as client:
            for wrong in (message_id, 2**63, "0", "x"):
                answer = await client.post(path_of(wrong))
                assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")
        await at.db.run(at.owner, retire_agent, RetireAgent(name="helper"))
        async with at.server.client(await make_token(at)) as client:
            answer = await client.post(path_of(message_id))
            assert (answer.status_code, error_of(answer)["code"]) == (409, "no_chief")
        assert await at.state(message_id) is State.UNCONFIRMED


@pytest.mark.rule(3)
async def test_while_plugins_are_off_there_is_no_retry(desk: OpenDesk) -> None:
    """Off, the route answers 404 to everybody."""
    async with desk(MUSTER_PLUGINS="0") as at, at.server.client(await make_token(at)) as client:
        answer = await client.post(path_of(1))
        assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")


@pytest.mark.rule(226)
async def test_the_command_asks_by_the_api(desk: OpenDesk, tmp_path: Path) -> None:
    """From a machine without the database, `muster plugins retry` posts with a token of its own."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await cut_a_turn(at, agent)
        program = bare_program(tmp_path)
        file = tmp_path / "token"

        async def retry(token: str, number: int = message_id, url: str = at.server.url) -> Ended:
            file.write_text(f"{token}\n")
            where = ("--url", url, "--token-file", str(file), "--json")
            run = partial(program.run, "plugins", "retry", str(number), *where)
            return await trio.to_thread.run_sync(run)

        token = await make_token(at)
        done = await retry(token)
        assert done.document == {"message_id": message_id, "state": "queued", "retries": 1}
        turn = await agent.next_frame("turn")
        again = await retry(token)
        assert (again.code, again.refusal["code"]) == (4, "message_state")
        assert again.refusal["state"] == "delivering"
        assert (await retry(token, 2**62)).code == 3
        assert (await retry("mst_" + "a" * 43)).code == 5
        assert (await retry("")).code == 78
        assert (await retry(token, url="http://127.0.0.1:1")).code == 6
        await agent.send("turn.done", turn_id=turn["turn_id"], text="")
        await at.reaches(message_id, State.DELIVERED)
