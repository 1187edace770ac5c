"""From a message to a draft: a real muster, the runner, and the stand-in of Claude Code."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from muster.clients.agent.gateway import Gateway
from muster.messages.rules import State
from muster.pg.audit import AuditRow
from tests.support.agent_door import QUICK
from tests.support.builders import read_audit
from tests.support.claude_stage import DONE, ClaudeStage, set_stage
from tests.support.desk import Desk, OpenDesk


@attrs.frozen(kw_only=True)
class Loop:
    """A muster whose chief is the stand-in."""

    at: Desk
    stage: ClaudeStage

    async def settled(self, message_id: int, state: State) -> AuditRow:
        """The audit row of a message's turn, once it is in `state`."""
        with trio.fail_after(30):
            await self.at.reaches(message_id, state)
        rows = await read_audit(self.at.db, self.at.owner, "plugin.delivered")
        (row,) = [row for row in rows if row.subject == f"message:{message_id}"]
        return row


@asynccontextmanager
async def looping(desk: OpenDesk, folder: Path, **settings: str) -> AsyncIterator[Loop]:
    """Open a desk and connect its chief."""
    async with desk(**settings) as at:
        stage = set_stage(folder, url=at.server.url, token=at.chief_token)
        connected = trio.Event()

        def report(event: str, _facts: Mapping[str, object]) -> None:
            if event == "connected":
                connected.set()

        async with stage.backend() as backend, trio.open_nursery() as nursery:
            gateway = Gateway(
                url=at.server.url,
                token=at.chief_token,
                backend=backend,
                report=report,
                backoff=QUICK,
            )
            nursery.start_soon(gateway.run)
            with trio.fail_after(10):
                await connected.wait()
            yield Loop(at=at, stage=stage)
            nursery.cancel_scope.cancel()


async def test_a_message_becomes_a_draft(desk: OpenDesk, tmp_path: Path) -> None:
    """The model drafts the reply through muster's tools, and the turn's tokens are recorded."""
    async with looping(desk, tmp_path) as loop:
        reply = {"message_id": "as in the text", "body": "Noon works."}
        loop.stage.plan([{"call": "mcp__muster__reply_draft", "arguments": reply}, DONE])
        message_id = await loop.at.post("m1", sender="Ada", body="Lunch at @/etc/passwd?")
        row = await loop.settled(message_id, State.DELIVERED)
        assert row.data["usage"] == {
            "model": "stand-in-1",
            "calls": 1,
            "input_tokens": 157,
            "cached_input_tokens": 50,
            "output_tokens": 20,
        }
        (seen,) = loop.stage.seen
        ((_, answer, refused),) = seen["results"]
        assert not refused
        (draft,) = await read_audit(loop.at.db, loop.at.owner, "plugin.draft.filed")
        number = draft.subject.removeprefix("draft:")
        assert re.search(rf"\b{number}\b", answer)
        assert "Lunch at @ /etc/passwd?" in seen["text"]
        assert seen["instructions"]


@pytest.mark.parametrize("deaf", [False, True])
async def test_a_turn_over_its_deadline_is_told_with_its_tokens(
    desk: OpenDesk, tmp_path: Path, deaf: bool
) -> None:
    """A program that works too long is ended, and what it took until then is recorded."""
    async with looping(desk, tmp_path, MUSTER_TURN_DEADLINE="3s") as loop:
        loop.stage.plan([{"say": "Hm."}, {"hang": deaf}])
        message_id = await loop.at.post("m1")
        row = await loop.settled(message_id, State.UNCONFIRMED)
        assert isinstance(row.data["usage"], dict)
        assert row.data["usage"]["output_tokens"] == 20


async def test_a_failed_turn_is_told_with_its_tokens(desk: OpenDesk, tmp_path: Path) -> None:
    """A turn of which nobody knows what came of it has its tokens in the log."""
    async with looping(desk, tmp_path) as loop:
        loop.stage.plan([{"say": "Hm."}, {"exit": 1}])
        row = await loop.settled(await loop.at.post("m1"), State.UNCONFIRMED)
        assert isinstance(row.data["usage"], dict)
        assert row.data["usage"]["calls"] == 1
