"""A model as the chief of a real server: messages in, drafts filed, tokens counted."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from muster.chief.tools import ROUTING, TOOLS
from muster.clients.agent.conversations import open_conversations
from muster.clients.agent.gateway import Gateway
from muster.clients.agent.tool_loop import ModelBackend
from muster.drafts.operations import ListDrafts, list_drafts
from muster.drafts.rules import State as DraftState
from muster.messages.rules import State
from tests.support.builders import read_audit
from tests.support.desk import Desk, OpenDesk
from tests.support.model_protocols import ANTHROPIC, OPENAI, OVERLOADED, Says
from tests.support.model_server import (
    KEY,
    Asked,
    Hangs,
    ModelServer,
    Reads,
    Refuses,
    model_server,
    tool_names,
)
from tests.support.model_stage import new_model, no_delay

BOTH = pytest.mark.parametrize("path", [OPENAI, ANTHROPIC])


@attrs.frozen(kw_only=True)
class Manned:
    """A desk whose chief is a model."""

    desk: Desk
    server: ModelServer

    async def drafts(self) -> list[tuple[int, str, DraftState]]:
        """The drafts there are: message, text, state."""
        views = await self.desk.db.run(self.desk.owner, list_drafts, ListDrafts())
        return [(view.message_id, view.body, view.state) for view in views]

    async def usage(self, message_id: int) -> object:
        """The tokens in the audit row of the message's turn."""
        rows = await read_audit(self.desk.db, self.desk.owner, "plugin.delivered")
        (row,) = [row for row in rows if row.subject == f"message:{message_id}"]
        return row.data.get("usage")


@asynccontextmanager
async def manned(
    open_desk: OpenDesk, path: str, folder: Path, **settings: str
) -> AsyncIterator[Manned]:
    """A real server, a real runner with a model backend, and a played provider."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(model_server())
        desk = await stack.enter_async_context(open_desk(**settings))
        model = await stack.enter_async_context(aclosing(new_model(path, server.url)))
        conversations = await stack.enter_async_context(open_conversations(folder))
        connected = trio.Event()
        gateway = Gateway(
            url=desk.server.url,
            token=desk.chief_token,
            backend=ModelBackend(model=model, conversations=conversations, delay=no_delay),
            report=lambda event, _facts: connected.set() if event == "connected" else None,
        )
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(gateway.run)
        # A message that is posted while the chief is away waits for a claim.
        with trio.fail_after(10):
            await connected.wait()
        yield Manned(desk=desk, server=server)
        nursery.cancel_scope.cancel()


@BOTH
async def test_a_message_becomes_a_draft(desk: OpenDesk, path: str, tmp_path: Path) -> None:
    """The model reads the fenced message, calls reply_draft, and the draft waits for the owner."""
    async with manned(desk, path, tmp_path) as at:
        at.server.plays(
            drafting("See host.local"),
            Refuses(status=529, body=OVERLOADED[path]),
            drafting("Noon works."),
            Says(text="Drafted."),
        )
        message_id = await at.desk.post()
        await at.desk.reaches(message_id, State.DELIVERED)
        assert await at.drafts() == [(message_id, "Noon works.", DraftState.PENDING)]
        chiefs = [tool.name for tool in TOOLS if tool not in ROUTING]
        assert [tool_names(asked) for asked in at.server.asked] == [chiefs] * 4
        assert f"[message_id {message_id}] from Ada" in str(at.server.asked[0].body)
        # The refusal of the first draft is what the model could mend.
        assert "host.local" in str(at.server.asked[2].body)
        assert "refused" in str(at.server.asked[2].body)
        usage = await at.usage(message_id)
        assert isinstance(usage, dict)
        counts = [usage[name] for name in ("calls", "input_tokens", "output_tokens")]
        assert counts == [3, 300, 30]


@BOTH
async def test_a_model_finds_no_way_to_act_but_its_tools(
    desk: OpenDesk, path: str, tmp_path: Path
) -> None:
    """A model that was talked into a shell, a file and an approval finds no such tool."""
    ran = tmp_path / "ran"
    wishes: list[tuple[str, dict[str, object]]] = [
        ("bash", {"command": f"touch {ran}"}),
        ("write_file", {"path": str(ran), "text": "here"}),
        ("muster", {"arguments": ["drafts", "approve", "1"]}),
        ("drafts_approve", {"draft_id": 1}),
    ]
    async with manned(desk, path, tmp_path / "state") as at:
        at.server.plays(drafting("Noon."), Says(calls=wishes))
        message_id = await at.desk.post()
        await at.desk.reaches(message_id, State.DELIVERED)
        told = str(at.server.asked[-1].body)
        assert told.count("There is no tool") == len(wishes)
        assert not ran.exists()
        assert [state for _, _, state in await at.drafts()] == [DraftState.PENDING]
        assert "MUSTER_" not in told
        assert at.desk.chief_token not in told


@BOTH
async def test_a_turn_over_its_deadline_leaves_the_model(
    desk: OpenDesk, path: str, tmp_path: Path
) -> None:
    """When the turn's time is over its model call ends, and the message is unconfirmed."""
    async with manned(desk, path, tmp_path, MUSTER_TURN_DEADLINE="2s") as at:
        at.server.plays(Hangs(says=Says(text="Let me think"), events=4))
        message_id = await at.desk.post()
        with trio.fail_after(20):
            await at.server.gone.wait()
        await at.desk.reaches(message_id, State.UNCONFIRMED)
        # The runner serves on, and knows that it failed before.
        second = await at.desk.post("m2")
        await at.desk.reaches(second, State.DELIVERED)
        assert "This turn did not end well" in str(at.server.asked[-1].body)


def drafting(body: str) -> Reads:
    """The model drafts this reply to the message that the turn names."""

    def answer(asked: Asked) -> Says:
        message_id = int(re.findall(r"Message id: (\d+)", str(asked.body))[-1])
        call = ("reply_draft", {"message_id": message_id, "body": body})
        return Says(text="Ada asks for lunch.", calls=[call])

    return Reads(answer=answer)


@asynccontextmanager
async def runner(at: Desk, server: ModelServer, folder: Path) -> AsyncIterator[None]:
    """`muster agent run --backend openai` as a program of its own, killed at the end."""
    process = await trio.lowlevel.open_process(
        [
            *(sys.executable, "-m", "muster", "agent", "run", "--backend", "openai", "--json"),
            *("--model", "gpt-test", "--base-url", f"{server.url}/v1", "--state", str(folder)),
        ],
        env={
            "PATH": os.environ["PATH"],
            "MUSTER_URL": at.server.url,
            "MUSTER_AGENT_TOKEN": at.chief_token,
            "OPENAI_API_KEY": KEY,
        },
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        with trio.fail_after(30):
            assert b"connected" in await process.stdout.receive_some()
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()


async def test_the_program_remembers_after_a_kill(desk: OpenDesk, tmp_path: Path) -> None:
    """A runner that was killed goes on in the conversation that it had."""
    async with model_server() as server, desk() as at:
        server.plays(Says(text="It was about lunch."))
        for external_id in ("m1", "m2"):
            async with runner(at, server, tmp_path):
                message_id = await at.post(external_id)
                await at.reaches(message_id, State.DELIVERED)
        roles = [message["role"] for message in server.asked[1].body["messages"]]
        assert roles == ["system", "user", "assistant", "user"]
        assert "It was about lunch." in str(server.asked[1].body)
