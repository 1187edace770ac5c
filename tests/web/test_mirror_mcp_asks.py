"""`/mirror/mcp`: a session asks the chief and waits for it, and answers asks of its owner's."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
import trio

from muster.accounts.operations import disable_user
from muster.accounts.rules import Disable
from muster.attention import operations as attention
from muster.attention.rules import AskedBy
from muster.chief.operations.routing.listing import look_at_route
from muster.mirror.operations.hosts import retire_host
from muster.mirror.rules import RetireHost
from muster.principals import Agent, Owner
from tests.support.agent_mail import mail_desk
from tests.support.builders import make_agent, make_chief, new_agent, read_audit
from tests.support.cluster import Cluster, SpiedDatabase, add_owner
from tests.support.server import MCP_HEADERS, ScriptedAgent
from tests.support.session_door import SessionDoor, Setting, session_door, session_setting
from tests.support.waiting import until
from web.mcp import mirrored

AT_ONCE_SECONDS = 5.0


@pytest.fixture
async def at(db: SpiedDatabase, owner: Owner, cluster: Cluster) -> AsyncIterator[Setting]:
    """A server with routing, a chief that is not connected, and a host with two sessions."""
    async with mail_desk(db, owner, cluster) as desk, session_setting(desk) as setting:
        yield setting


@asynccontextmanager
async def with_chief(
    db: SpiedDatabase, owner: Owner, cluster: Cluster
) -> AsyncIterator[tuple[SessionDoor, ScriptedAgent]]:
    """The door, and the owner's connected chief."""
    async with mail_desk(db, owner, cluster) as desk, session_door(desk) as door:
        _, token = await new_agent(db, owner)
        async with ScriptedAgent(desk.server.url, token) as chief:
            await chief.next_frame("welcome")
            yield door, chief


async def end_turn(chief: ScriptedAgent, text: str) -> str:
    """The chief takes its next turn and says `text`; what the turn was."""
    turn = await chief.next_frame("turn")
    await chief.send("turn.started", turn_id=turn["turn_id"])
    await chief.send("turn.done", turn_id=turn["turn_id"], text=text)
    return str(turn["text"])


class Waiting:
    """A call of `attention_wait` that goes on, and its answer."""

    def __init__(self, door: SessionDoor, ask_id: int) -> None:
        self._door = door
        self._ask_id = ask_id
        self.scope = trio.CancelScope()
        self.answer: dict[str, Any] = {}

    async def run(self) -> None:
        """Call it."""
        with self.scope:
            self.answer = await self._door.call("attention_wait", ids=[self._ask_id])

    def count(self) -> int:
        """How many calls wait at the server."""
        return self._door.desk.server.node.live.count_waits(self._door.desk.owner.owner_id)


@asynccontextmanager
async def waiting(door: SessionDoor) -> AsyncIterator[Waiting]:
    """A call that waits at the door; it has ended at once when the block has."""
    asked = await door.call("chief_ask", question="Which gate?")
    async with trio.open_nursery() as nursery:
        call = Waiting(door, asked["ask_id"])
        nursery.start_soon(call.run)
        await until(lambda: call.count() == 1)
        yield call
        nursery.cancel_scope.deadline = trio.current_time() + AT_ONCE_SECONDS
    assert not nursery.cancel_scope.cancelled_caught, "it ended at once"
    await until(lambda: call.count() == 0)


@pytest.mark.rule(323)
async def test_the_chief_sees_the_question_and_the_message(
    db: SpiedDatabase, owner: Owner, cluster: Cluster
) -> None:
    """The question is quoted line by line, the message fenced; the route's deadline stays."""
    async with with_chief(db, owner, cluster) as (door, chief):
        async with door.desk.server.client(await door.desk.new_token()) as client:
            body = {"external_id": "m1", "sender": "ada/helper", "body": "Noon?\nOr later?"}
            posted = await client.post("/plugin/v1/messages", json=body)
        message_id = posted.json()["id"]
        await end_turn(chief, "I will see to it.")
        await door.desk.until_delivered(message_id)
        route_id = (await door.call("plugin_message_route", message_id=message_id))["route_id"]
        before = await db.run(owner, look_at_route, route_id)
        question = "Which gate\u2028is ours?\n| Not the message."
        ask_id = (await door.call("chief_ask", question=question, route_id=route_id))["ask_id"]
        lines = (await end_turn(chief, "The red one.")).split("\n")
        for line in ("> Which gate", "> is ours?", "> | Not the message.", "| Or later?"):
            assert line in lines, line
        assert any(f"message {message_id}" in line for line in lines)
        assert any(f"route {route_id}" in line for line in lines)
        told = await door.call("attention_wait", ids=[ask_id])
        assert told["asks"] == [{"ask_id": ask_id, "state": "answered", "answer": "The red one."}]
        after = await db.run(owner, look_at_route, route_id)
        assert (after.state, after.deadline_at) == (before.state, before.deadline_at)
        assert after.deadline_at - after.created_at == timedelta(minutes=30)


@pytest.mark.rule(323)
async def test_the_chiefs_answer_wakes_the_session_that_waits(
    db: SpiedDatabase, owner: Owner, cluster: Cluster
) -> None:
    """It comes as soon as the chief's turn is over."""
    async with with_chief(db, owner, cluster) as (door, chief), waiting(door) as call:
        text = await end_turn(chief, "The red one.")
        assert "> Which gate?" in text
        assert door.session in text
    (told,) = call.answer["asks"]
    assert (told["state"], told["answer"]) == ("answered", "The red one.")


async def test_a_turn_that_fails_ends_the_wait_without_an_answer(
    db: SpiedDatabase, owner: Owner, cluster: Cluster
) -> None:
    """The question is cut off, and asked anew if it matters."""
    async with with_chief(db, owner, cluster) as (door, chief), waiting(door) as call:
        turn = await chief.next_frame("turn")
        await chief.send("turn.started", turn_id=turn["turn_id"])
        await chief.send("turn.failed", turn_id=turn["turn_id"], error="no ink")
    (told,) = call.answer["asks"]
    assert told["state"] == "cut_off"
    assert "answer" not in told


@pytest.mark.rule(323)
async def test_a_question_is_its_own_sessions(at: Setting) -> None:
    """Another session neither waits for it nor asks about the route."""
    message = await at.message()
    route_id = (await at.door.call("plugin_message_route", message_id=message.id))["route_id"]
    asked = await at.door.call("chief_ask", question="Which gate?", route_id=route_id)
    told = await at.door.call("attention_wait", ids=[asked["ask_id"]], wait_seconds=0)
    assert told == {"asks": [{"ask_id": asked["ask_id"], "state": "waiting"}]}
    other = await at.door.call("attention_wait", pane="%2", ids=[asked["ask_id"]])
    assert other["refused"] == "not_found"
    foreign = await at.door.call("chief_ask", pane="%2", question="What?", route_id=route_id)
    assert foreign["refused"] == "not_found"


async def test_what_nobody_asked_is_not_waited_for(at: Setting) -> None:
    """An unknown id is refused at once, whatever stands beside it."""
    asked = await at.door.call("chief_ask", question="Which gate?")
    with trio.fail_after(AT_ONCE_SECONDS):
        told = await at.door.call("attention_wait", ids=[asked["ask_id"], 2**62])
    assert told["refused"] == "not_found"


async def test_a_session_has_ten_questions_at_most(at: Setting) -> None:
    """The next one is refused until one is answered; another session has its own ten."""
    for number in range(10):
        await at.door.call("chief_ask", question=f"Number {number}?")
    told = await at.door.call("chief_ask", question="One more?")
    assert told["refused"] == "too_many_asks"
    assert "ask_id" in await at.door.call("chief_ask", pane="%2", question="Mine?")


async def test_what_a_question_may_be(at: Setting) -> None:
    """1 to 2,000 characters that say something."""
    assert "ask_id" in await at.door.call("chief_ask", question="é" * 2000)
    for question in ("", " \n", "é" * 2001, "a\0b"):
        assert (await at.door.call("chief_ask", question=question))["field"] == "question"


async def test_without_a_chief_nobody_is_asked(
    db: SpiedDatabase, owner: Owner, cluster: Cluster
) -> None:
    """The session is told so."""
    async with mail_desk(db, owner, cluster) as desk, session_door(desk) as door:
        assert (await door.call("chief_ask", question="What?"))["refused"] == "no_chief"


async def test_a_wait_ends_with_its_client(at: Setting) -> None:
    """Nobody waits for a session that hung up."""
    async with waiting(at.door) as call:
        call.scope.cancel()


async def test_a_wait_on_the_librarys_road_ends_with_its_client(at: Setting) -> None:
    """So does one that came by a newer protocol, or a header that is not plain."""
    asked = await at.door.call("chief_ask", question="Which gate?")
    live, owner_id = at.desk.server.node.live, at.desk.owner.owner_id
    params = {"name": "attention_wait", "arguments": {"ids": [asked["ask_id"]]}}
    headers = MCP_HEADERS | {"Muster-Pane": "%1", "Origin": at.desk.server.url}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with at.desk.server.client(at.door.token) as client, trio.open_nursery() as nursery:

        async def ask() -> None:
            await client.post("/mirror/mcp", json=body, headers=headers)

        nursery.start_soon(ask)
        await until(lambda: live.count_waits(owner_id) == 1)
        nursery.cancel_scope.cancel()
    await until(lambda: live.count_waits(owner_id) == 0)


async def test_a_wait_ends_when_the_server_stops(at: Setting) -> None:
    """It answers that the question still waits."""
    async with waiting(at.door) as call:
        await at.desk.server.node.drain()
    assert call.answer["asks"][0]["state"] == "waiting"


async def test_no_wait_begins_at_a_server_that_stops(at: Setting) -> None:
    """A call that comes then is answered as things stand."""
    asked = await at.door.call("chief_ask", question="Which gate?")
    at.desk.server.node.draining = True
    with trio.fail_after(AT_ONCE_SECONDS):
        told = await at.door.call("attention_wait", ids=[asked["ask_id"]])
    assert told["asks"][0]["state"] == "waiting"


async def test_a_wait_ends_with_its_token(at: Setting) -> None:
    """What a retired host waited for is not told to it."""
    async with waiting(at.door) as call:
        await at.desk.server.node.db.run(at.desk.owner, retire_host, RetireHost(name="box"))
    assert call.answer["refused"] == "unauthorized"


async def test_a_wait_ends_with_its_owners_account(at: Setting) -> None:
    """A disabled account is told nothing more."""
    async with waiting(at.door) as call:
        await at.desk.server.node.db.run(at.desk.owner, disable_user, Disable())
    assert call.answer["refused"] == "unauthorized"


async def test_so_many_calls_wait_and_no_more(at: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have a limit of their own, and are no open pages."""
    monkeypatch.setattr(mirrored, "WAITS_MAX", 1)
    async with waiting(at.door) as call:
        assert not at.desk.server.node.live.listens(at.desk.owner.owner_id)
        asked = await at.door.call("chief_ask", question="And which door?")
        told = await at.door.call("attention_wait", ids=[asked["ask_id"]])
        assert told["refused"] == "too_many_waits"
        call.scope.cancel()


async def ask_owner(db: SpiedDatabase, agent: Agent) -> int:
    """An agent asks its owner; the ask's id."""
    command = attention.AskOwner(asked_by=AskedBy.AGENT, question="Noon?", answers=("yes",))
    asked = await db.run(agent, attention.ask, command)
    assert asked is not None
    return asked.id


async def test_a_session_answers_an_ask_of_its_owners(at: Setting) -> None:
    """As the owner, and the audit log tells from which session; it is answered once."""
    ask_id = await ask_owner(at.desk.db, await make_agent(at.desk.db, at.desk.owner, "scout"))
    told = await at.door.call("attention_answer", ask_id=ask_id, text="At one.")
    assert told == {"ask_id": ask_id, "state": "answered"}
    (row,) = await read_audit(at.desk.db, at.desk.owner, "ask.answered")
    assert (row.actor, row.via) == ("owner", f"mcp from box/{at.door.session}")
    again = await at.door.call("attention_answer", ask_id=ask_id, text="At two.")
    assert again["refused"] == "ask_state"
    assert (await at.door.call("attention_answer", ask_id=ask_id, text=" "))["field"] == "answer"


async def test_a_sessions_question_is_no_ask_of_its_owners(at: Setting, db: SpiedDatabase) -> None:
    """The ids of both are one row of numbers; another owner's ask is none, either."""
    stranger = await add_owner(db)
    theirs = await ask_owner(db, await make_chief(db, stranger))
    asked = await at.door.call("chief_ask", question="Which gate?")
    own = await ask_owner(db, await make_agent(db, at.desk.owner, "scout"))
    assert len({theirs, asked["ask_id"], own}) == 3
    for number in (theirs, asked["ask_id"], 2**62):
        told = await at.door.call("attention_answer", ask_id=number, text="Yes.")
        assert told["refused"] == "not_found"
