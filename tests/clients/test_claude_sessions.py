"""Conversations with Claude Code: one session goes on with the next turn, or another begins."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from muster.clients.agent.backend import TurnError
from muster.clients.agent.claude_sessions import open_claude_sessions
from muster.clients.state_folder import StateFolderBusyError
from tests.support.claude_stage import DONE, TEXT, ClaudeStage, Step, set_stage
from tests.support.desk import OpenDesk
from tests.support.waiting import until


@pytest.fixture
async def stage(desk: OpenDesk, tmp_path: Path) -> AsyncIterator[ClaudeStage]:
    """A stand-in that calls the tools of a real muster."""
    async with desk() as at:
        yield set_stage(tmp_path, url=at.server.url, token=at.chief_token)


def flag(seen: dict[str, Any], name: str) -> str | None:
    """The value of an argument of a run."""
    values = [each for each in seen["arguments"] if each.startswith(f"--{name}=")]
    return values[0].partition("=")[2] if values else None


async def test_a_conversation_goes_on_after_a_restart(stage: ClaudeStage) -> None:
    """Turns of one label share a session, each label its own, and a restart changes nothing."""
    async with stage.backend() as backend:
        await stage.turn(backend)
        await stage.turn(backend, conversation="conversation:2", text="other")
    async with stage.backend() as backend:
        await stage.turn(backend, text="again")
        await stage.turn(backend, text="and again")
    first, other, again, last = stage.seen
    assert (first["earlier"], other["earlier"]) == ("", "")
    assert again["earlier"] == TEXT
    assert last["earlier"] == f"{TEXT}again"
    assert first["folder"] == again["folder"] != other["folder"]


@pytest.mark.parametrize("ending", ["fails", "is cancelled"])
async def test_a_turn_that_was_not_completed_leaves_no_trace(
    stage: ClaudeStage, ending: str
) -> None:
    """The next turn goes on from the last complete one."""
    bad: list[Step] = [{"exit": 1}] if ending == "fails" else [{"hang": False}]
    stage.plan([DONE], bad, [DONE])
    async with stage.backend() as backend:
        await stage.turn(backend, text="one")
        async with trio.open_nursery() as nursery:

            async def work() -> None:
                try:
                    await stage.turn(backend, text="two")
                except TurnError:
                    return

            nursery.start_soon(work)
            await until(lambda: len(stage.seen) == 2)
            if ending == "is cancelled":
                nursery.cancel_scope.cancel()
        await stage.turn(backend, text="three")
    assert stage.seen[2]["earlier"] == "one"
    assert flag(stage.seen[2], "resume") == flag(stage.seen[0], "session-id")


async def test_a_session_that_is_gone_begins_anew(stage: ClaudeStage) -> None:
    """A session that the program no longer has is replaced, and the turn is done."""
    async with stage.backend() as backend:
        await stage.turn(backend)
        (stage.folder / ".claude").rename(stage.folder / "elsewhere")
        assert await stage.turn(backend, text="again") == "Done."
        await stage.turn(backend, text="third")
    _, refused, fresh, third = stage.seen
    assert flag(refused, "resume") is not None
    assert flag(fresh, "resume") is None
    assert (fresh["text"], third["earlier"]) == ("again", "again")


async def test_a_session_that_is_too_long_begins_anew(stage: ClaudeStage) -> None:
    """A turn whose session has grown too long is done in a new one, with what both took."""
    too_long: Step = {"error": "Prompt is too long"}
    stage.plan([DONE], [too_long], [DONE])
    async with stage.backend() as backend:
        await stage.turn(backend)
        assert await stage.turn(backend) == "Done."
    assert flag(stage.seen[2], "resume") is None


async def test_a_new_session_that_is_too_long_fails_the_turn(stage: ClaudeStage) -> None:
    """A turn that is too long by itself is tried in a new session once, and then it has failed."""
    stage.plan([DONE], [{"error": "Prompt is too long"}])
    async with stage.backend() as backend:
        await stage.turn(backend)
        with pytest.raises(TurnError, match="Prompt is too long"):
            await stage.turn(backend)
    assert len(stage.seen) == 3


async def test_nothing_is_repeated_after_a_tool_was_called(stage: ClaudeStage) -> None:
    """A run that called a tool is not repeated; the next turn begins a new session."""
    stage.plan([DONE], [{"call": "mcp__muster__x"}, {"error": "Prompt is too long"}], [DONE])
    async with stage.backend() as backend:
        await stage.turn(backend)
        with pytest.raises(TurnError, match="Prompt is too long"):
            await stage.turn(backend)
        assert len(stage.seen) == 2
        await stage.turn(backend)
    assert flag(stage.seen[2], "resume") is None


async def test_a_conversation_is_bounded(stage: ClaudeStage) -> None:
    """After so many turns a new session begins."""
    async with stage.backend() as opened:
        sessions = attrs.evolve(opened.sessions, turns_max=2)
        backend = attrs.evolve(opened, sessions=sessions)
        for _ in range(5):
            await stage.turn(backend)
    resumed = [flag(seen, "resume") is not None for seen in stage.seen]
    assert resumed == [False, True, False, True, False]


async def test_only_so_many_conversations_are_remembered(tmp_path: Path) -> None:
    """Of more labels than there is room for, those that were used least recently leave."""
    async with open_claude_sessions(tmp_path) as opened:
        sessions = attrs.evolve(opened, labels_max=2)
        for label in ("a", "b"):
            await sessions.keep(label, f"session-{label}", resumed=False)
        await sessions.keep("a", "session-a2", resumed=True)
        await sessions.keep("c", "session-c", resumed=False)
        assert [await sessions.find(label) for label in "abc"] == ["session-a2", None, "session-c"]


async def test_one_runner_holds_the_state(stage: ClaudeStage) -> None:
    """A second runner on the same state folder is refused."""
    async with stage.backend():
        with pytest.raises(StateFolderBusyError):
            async with stage.backend():
                raise AssertionError
