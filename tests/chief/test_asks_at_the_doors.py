"""Asks and settles by the agents' tools and sockets, and what a running server asks by itself."""

from datetime import timedelta

import pytest

from muster.agents.operations import retire_agent
from muster.agents.rules import RetireAgent
from muster.attention import operations as attention
from muster.attention.operations import AskedBy, AskView, State
from muster.chief.operations.asks import AnswerAsk, answer_ask
from muster.chief.turns import By
from muster.chief.words import Say, say
from muster.principals import Owner
from tests.support.builders import (
    get_message,
    make_agent,
    make_chief,
    make_message,
    make_plugin,
    new_agent,
    read_audit,
)
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.desk import Desk, OpenDesk
from tests.support.server import ScriptedAgent, call_mcp, call_tool, running_server
from tests.support.waiting import until


async def asks_of(at: Desk) -> list[AskView]:
    """The owner's open asks, newest first."""
    return await at.db.run(at.owner, attention.list_asks, attention.ListAsks())


async def answer(at: Desk, ask_id: int, text: str) -> None:
    """Answer as the owner, with the hints of it reaching the server."""
    command = AnswerAsk(ask_id=ask_id, text=text)
    await at.server.node.db.run(at.owner, answer_ask, command)


async def test_an_agent_asks_and_is_told_the_answer(desk: OpenDesk) -> None:
    """Any agent asks by its tool, and the owner's answer reaches it as a turn, plugins or not."""
    async with desk(MUSTER_PLUGINS="0") as at:
        agent_id, token = await new_agent(at.db, at.owner, "scout", chief=False)
        told = (await call_mcp(at.server, token, "tools/list", {}))["tools"]
        (tool,) = [each for each in told if each["name"] == "attention_ask"]
        assert tool["inputSchema"]["required"] == ["question"]
        asked = await call_tool(
            at.server, token, "attention_ask", question="Which?\nA or B", answers=["A", "B"]
        )
        result = asked["structuredContent"]
        assert result["status"] == "open"
        (view,) = await asks_of(at)
        assert (view.id, view.agent_id, view.asked_by) == (
            result["ask_id"],
            agent_id,
            AskedBy.AGENT,
        )
        async with ScriptedAgent(at.server.url, token) as agent:
            await agent.next_frame("welcome")
            await answer(at, view.id, "B")
            turn = await agent.next_frame("turn")
            assert f"your owner answered your ask {view.id}" in turn["text"]
            assert turn["text"].endswith("The answer:\nB")
            await agent.send("turn.done", turn_id=turn["turn_id"], text="")
        await answer(at, view.id, "B")  # a double click says nothing twice
        assert len(await read_audit(at.db, at.owner, "conversation.said")) == 1


async def test_the_chief_asks_about_its_message_and_withdraws(desk: OpenDesk) -> None:
    """The chief's ask is the chief's and may name the message of its turn, and no other."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        turn = await agent.next_frame("turn")
        asked = await call_tool(
            at.server, at.chief_token, "attention_ask", question="Go?", message_id=message_id
        )
        (view,) = await asks_of(at)
        assert (view.asked_by, view.message_id, view.plugin_message_id) == (
            AskedBy.CHIEF,
            message_id,
            None,
        )
        _, other = await new_agent(at.db, at.owner, "other", chief=False)
        refused = [
            await call_tool(at.server, other, "attention_ask", question="?", message_id=message_id),
            await call_tool(at.server, at.chief_token, "attention_ask", question="?", task_id=9),
            await call_tool(at.server, other, "attention_cancel", ask_id=view.id),
        ]
        for result in refused:
            assert result["structuredContent"]["refused"] == "not_found"
        ask_id = asked["structuredContent"]["ask_id"]
        for _ in range(2):
            told = await call_tool(at.server, at.chief_token, "attention_cancel", ask_id=ask_id)
            assert told["structuredContent"] == {"ask_id": ask_id, "status": "cancelled"}
        assert await asks_of(at) == []
        await agent.send("turn.done", turn_id=turn["turn_id"], text="")


async def test_words_in_the_chiefs_chat_settle_its_asks(desk: OpenDesk) -> None:
    """What the owner writes to the chief answers what it has open, in the same transaction."""
    async with desk() as at:
        await call_tool(at.server, at.chief_token, "attention_ask", question="Go?")
        (view,) = await asks_of(at)
        words = Say(agent_id=at.chief_id, text="Go at noon.", by=By.OWNER)
        await at.db.run(at.owner, say, words)
        shown = await at.db.run(at.owner, attention.get_ask, view.id)
        assert (shown.state, shown.answer, shown.answered_via) == (
            State.ANSWERED,
            "Go at noon.",
            "chat",
        )


async def test_an_answer_to_an_agent_that_is_gone_is_only_written_down(desk: OpenDesk) -> None:
    """The ask of an agent that was retired may still be answered; nobody is told."""
    async with desk() as at:
        gone = await make_agent(at.db, at.owner)
        command = attention.AskOwner(asked_by=AskedBy.AGENT, question="Which?")
        asked = await at.db.run(gone, attention.ask, command)
        assert asked is not None
        await at.db.run(at.owner, retire_agent, RetireAgent(name=gone.name))
        await answer(at, asked.id, "this one")
        assert await read_audit(at.db, at.owner, "conversation.said") == []


@pytest.mark.rule(295, 296)
async def test_the_chief_settles_by_its_tool(desk: OpenDesk) -> None:
    """In the turn of a message the chief settles it, and is told the reason that counts."""
    async with desk() as at, at.agent() as agent:
        await agent.next_frame("welcome")
        message_id = await at.post()
        turn = await agent.next_frame("turn")
        assert "plugin_message_settle" in turn["text"].split("<<<")[0]
        for reason in ("a notice", "another"):
            told = await call_tool(
                at.server,
                at.chief_token,
                "plugin_message_settle",
                message_id=message_id,
                reason=reason,
            )
            assert told["structuredContent"] == {
                "message_id": message_id,
                "settle_reason": "a notice",
            }
        refused = await call_tool(
            at.server, at.chief_token, "plugin_message_settle", message_id=999, reason="x"
        )
        assert refused["structuredContent"]["error"] == (
            "999 is not a plugin message delivered to you."
        )
        await agent.send("turn.done", turn_id=turn["turn_id"], text="")


@pytest.mark.rule(297)
async def test_a_running_server_asks_by_itself(
    db: SpiedDatabase, owner: Owner, cluster: Cluster
) -> None:
    """A server that starts asks about agent-mail that waits, and lets it be settled."""
    plugin, chief = await make_plugin(db, owner, "agent-mail"), await make_chief(db, owner)
    message = await make_message(db, plugin, delivered_to=chief)
    db.clock_offset = timedelta(minutes=15)
    async with running_server(db, cluster.app_url) as server:

        async def asked() -> bool:
            return bool(await db.run(owner, attention.list_asks, attention.ListAsks()))

        await until(asked)
        (view,) = await db.run(owner, attention.list_asks, attention.ListAsks())
        command = AnswerAsk(ask_id=view.id, text="No action needed")
        await server.node.db.run(owner, answer_ask, command)
    assert (await get_message(db, owner, message.id)).settle_reason == "No action needed"


@pytest.mark.rule(304)
async def test_a_server_at_the_limit_says_so_in_one_line(
    db: SpiedDatabase, owner: Owner, cluster: Cluster
) -> None:
    """With 50 asks open a round raises none and leaves one line in the log."""
    plugin, chief = await make_plugin(db, owner, "agent-mail"), await make_chief(db, owner)
    for number in range(50):
        question = attention.AskOwner(asked_by=AskedBy.CHIEF, question=f"{number}?")
        await db.run(chief, attention.ask, question)
    for _ in range(2):
        await make_message(db, plugin, delivered_to=chief)
    db.clock_offset = timedelta(minutes=15)
    async with running_server(db, cluster.app_url) as server:

        def told() -> list[str]:
            reports = server.node.log.recent()
            return [report.path for report in reports if "messages wait" in (report.reason or "")]

        await until(lambda: bool(told()))
        assert told() == ["root/sweeps/unrouted"]
    assert len(await db.run(owner, attention.list_asks, attention.ListAsks())) == 50
