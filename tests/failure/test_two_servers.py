"""Two servers on one database: what one learns, the other acts upon, and nothing is done twice."""

from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import httpx2
import pytest
import trio

from muster.agents.operations import list_agents
from muster.agents.rules import ListAgents
from muster.chief.deliveries import Deliveries
from muster.chief.turns import By
from muster.chief.words import Say, say
from muster.drafts.operations import Approve, approve
from muster.messages.rules import State
from muster.node import tree
from muster.pg.query import Query
from tests.support.cluster import Cluster, OwnDatabase
from tests.support.desk import Desk, OpenDesk
from tests.support.program import program_on
from tests.support.server import ScriptedAgent, call_tool, running_server
from tests.support.visitor import sign_in
from tests.support.waiting import until

LISTENERS = Query("""
    select count(*) from pg_stat_activity
    where datname = current_database() and query ilike 'listen muster%%'
""")


@attrs.frozen(kw_only=True)
class Pair:
    """One owner's desk at each of the two servers, and their command line."""

    a: Desk
    b: Desk
    home: Path
    database: OwnDatabase

    async def command(self, *arguments: str) -> None:
        """Run a `muster` command that must go well."""
        program = program_on(self.database, self.home)
        ended = await trio.to_thread.run_sync(lambda: program.run(*arguments))
        assert ended.code == 0, ended.err

    @property
    def name(self) -> str:
        """The owner's account."""
        return f"user-{self.a.owner.owner_id}"


@pytest.fixture
async def pair(
    desk: OpenDesk, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Pair]:
    """Two servers that know of each other; no sweep stands in for a hint that does not come."""
    monkeypatch.setattr(tree, "CLAIMABLE_SECONDS", 1000.0)
    async with desk() as a, running_server(a.db, cluster.app_url) as second:
        for server in (second, a.server):
            await server.node.heartbeat.beat()

        async def both_listen() -> bool:
            async with a.db.transaction(a.owner) as tx:
                return int(await tx.scalar(LISTENERS)) == 2

        await until(both_listen)
        yield Pair(
            a=a,
            b=attrs.evolve(a, server=second),
            home=tmp_path,
            database=OwnDatabase(admin_url=cluster.admin_url, app_url=cluster.app_url),
        )


async def draft_a_reply(desk: Desk, external_id: str = "m1") -> int:
    """Let the chief draft a reply to a new message on one turn; the draft's id."""
    async with desk.agent() as chief:
        await chief.next_frame("welcome")
        message_id = await desk.post(external_id)
        turn = await chief.next_frame("turn")
        filed = await call_tool(
            desk.server, desk.chief_token, "reply_draft", message_id=message_id, body="Noon works."
        )
        await chief.send("turn.done", turn_id=turn["turn_id"], text="")
        await desk.reaches(message_id, State.DELIVERED)
    draft_id: int = filed["structuredContent"]["draft_id"]
    return draft_id


async def park(desk: Desk, answers: list[httpx2.Response]) -> None:
    """Claim on this server, and note the answer."""
    answers.append(await desk.claim(wait_seconds=20))


async def parked(*desks: Desk) -> None:
    """Wait until each server has a claim parked."""
    await until(lambda: all(desk.server.node.waiters.plugin_ids() for desk in desks))


@pytest.mark.rule(63, 64, 84)
@pytest.mark.parametrize("how", ["the other server", "the command line"])
async def test_a_claim_parked_here_hears_of_an_approval_there(pair: Pair, how: str) -> None:
    """Of claims parked on both servers exactly one gets the reply, whoever heard the approval."""
    draft_id = await draft_a_reply(pair.a)
    answers: list[httpx2.Response] = []
    with trio.fail_after(15):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(park, pair.a, answers)
            await parked(pair.a)
            if how == "the other server":
                command = Approve(draft_id=draft_id)
                await pair.b.server.node.db.run(pair.b.owner, approve, command)
            else:
                await pair.command("drafts", "approve", str(draft_id), "--owner", pair.name)
    assert [(one.status_code, one.json()["draft_id"]) for one in answers] == [(200, draft_id)]
    assert (await pair.b.claim()).status_code == 204


@pytest.mark.rule(84)
async def test_one_approval_answers_one_of_the_claims_on_both(pair: Pair) -> None:
    """A claim on each server wakes for one approval, and one of them alone gets the reply."""
    draft_id = await draft_a_reply(pair.a)
    answers: list[httpx2.Response] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(park, pair.a, answers)
        nursery.start_soon(park, pair.b, answers)
        await parked(pair.a, pair.b)
        await pair.command("drafts", "approve", str(draft_id), "--owner", pair.name)
        await until(lambda: answers)
        for desk in (pair.a, pair.b):
            desk.server.node.waiters.drain()
    assert sorted(one.status_code for one in answers) == [200, 204]


@pytest.mark.rule(218)
async def test_an_agent_that_comes_to_the_other_server_supersedes_itself(pair: Pair) -> None:
    """The newer connection gets the turns, the older one is closed 4409 with its turn unproven."""
    async with pair.a.agent() as older:
        await older.next_frame("welcome")
        first = await pair.a.post("m1")
        await older.next_frame("turn")
        async with pair.b.agent() as newer:
            await newer.next_frame("welcome")
            assert await older.close_code() == 4409
            await pair.a.reaches(first, State.UNCONFIRMED)
            second = await pair.b.post("m2")
            turn = await newer.next_frame("turn")
            assert turn["turn_id"] == f"message:{second}:1"
            await newer.send("turn.done", turn_id=turn["turn_id"], text="")
            await pair.b.reaches(second, State.DELIVERED)


async def test_a_chief_that_is_there_is_said_to_be_there_here(pair: Pair) -> None:
    """The page and the commands of one server tell of the chief that is connected to the other."""
    page = "/chief"
    visiting = await sign_in(pair.a.server, pair.a.owner)
    async with visiting.client:
        assert "not connected" in (await visiting.get(page)).text
        async with pair.b.agent() as chief:
            await chief.next_frame("welcome")
            assert "not connected" not in (await visiting.get(page)).text
            (view,) = await pair.a.db.run(pair.a.owner, list_agents, ListAgents())
            assert view.is_connected
            assert pair.b.server.node.gateways.serves(pair.b.owner.owner_id)
            assert not pair.a.server.node.gateways.serves(pair.a.owner.owner_id)

        async def gone() -> bool:
            return "not connected" in (await visiting.get(page)).text

        await until(gone)


async def finish_turn(chief: ScriptedAgent, desk: Desk, message_id: int) -> None:
    """Take the turn on this message and complete it."""
    turn = await chief.next_frame("turn")
    assert turn["turn_id"].split(":")[1] == str(message_id)
    await chief.send("turn.done", turn_id=turn["turn_id"], text="")
    await desk.reaches(message_id, State.DELIVERED)


@pytest.mark.rule(33, 211)
async def test_a_message_posted_here_is_a_turn_of_the_chief_there(pair: Pair) -> None:
    """The hint of a post crosses to the server that the chief is connected to, without a claim."""
    async with pair.b.agent() as chief:
        await chief.next_frame("welcome")
        message_id = await pair.a.post("m1")
        await finish_turn(chief, pair.a, message_id)


@pytest.mark.rule(70, 72, 220)
async def test_a_claim_here_retries_with_the_chief_there(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was queued while the chief was busy is retried by a claim on either server."""
    offered: set[int] = set()
    deliver = Deliveries.deliver

    def noting(deliveries: Deliveries, message_id: int) -> None:
        deliver(deliveries, message_id)
        if deliveries._gateway(deliveries._agent_id) is not None:
            offered.add(message_id)

    monkeypatch.setattr(Deliveries, "deliver", noting)
    async with pair.b.agent() as chief:
        await chief.next_frame("welcome")
        first = await pair.a.post("m1")
        turn = await chief.next_frame("turn")
        waiting = {await pair.a.post(f"m{number}") for number in (2, 3)}
        await until(lambda: waiting <= offered)  # and each found a busy chief there
        await chief.send("turn.done", turn_id=turn["turn_id"], text="")
        await pair.a.reaches(first, State.DELIVERED)
        assert (await pair.a.claim()).status_code == 204
        while waiting:
            turn = await chief.next_frame("turn")
            message_id = int(turn["turn_id"].split(":")[1])
            waiting.remove(message_id)
            await chief.send("turn.done", turn_id=turn["turn_id"], text="")
            await pair.a.reaches(message_id, State.DELIVERED)


@pytest.mark.rule(21)
async def test_disabling_by_command_line_ends_claims_and_agents_on_both(pair: Pair) -> None:
    """Claims that are parked on either server end 401 at once, and agents are closed 4401."""
    answers: list[httpx2.Response] = []
    async with pair.b.agent() as chief, trio.open_nursery() as nursery:
        await chief.next_frame("welcome")
        nursery.start_soon(park, pair.a, answers)
        nursery.start_soon(park, pair.b, answers)
        await parked(pair.a, pair.b)
        with trio.fail_after(15):
            await pair.command("user", "disable", pair.name)
            assert await chief.close_code() == 4401
            await until(lambda: len(answers) == 2)
    assert [one.status_code for one in answers] == [401, 401]


async def test_words_said_here_are_a_turn_of_the_chief_there(pair: Pair) -> None:
    """What the owner writes at one server reaches the chief that is connected to the other."""
    async with pair.b.agent() as chief:
        await chief.next_frame("welcome")
        command = Say(agent_id=pair.a.chief_id, text="hello", by=By.OWNER)
        await pair.a.server.node.db.run(pair.a.owner, say, command)
        turn = await chief.next_frame("turn")
        assert turn["text"].endswith("hello")
        await chief.send("turn.done", turn_id=turn["turn_id"], text="")
