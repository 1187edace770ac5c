"""The stand-in of Claude Code is believed in the other tests, so it has some of its own."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.claude_pane import ClaudePane, TmuxServer, open_tmux
from tests.support.waiting import until


@pytest.fixture
async def tmux(tmp_path: Path) -> AsyncIterator[TmuxServer]:
    """A tmux server whose Claude Code calls a hook that keeps what it got."""
    async with open_tmux(tmp_path / "box") as server:
        keep = f"tee -a {tmp_path}/hooks.jsonl > /dev/null; echo >> {tmp_path}/hooks.jsonl"
        hooks = [{"hooks": [{"type": "command", "command": keep}]}]
        events = "SessionStart UserPromptSubmit PreToolUse PermissionRequest PostToolUse Stop"
        config = server.home / ".claude"
        config.mkdir()
        every = dict.fromkeys([*events.split(), "SessionEnd"], hooks)
        (config / "settings.json").write_text(json.dumps({"hooks": every}))
        yield server


def hooked(folder: Path) -> list[dict[str, Any]]:
    """What the hook got."""
    lines = (folder / "hooks.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines if line]


async def paste(tmux: TmuxServer, claude: ClaudePane, text: str) -> None:
    """Paste as the host program does."""
    await tmux.run("set-buffer", "-b", "x", text)
    await tmux.run("paste-buffer", "-p", "-d", "-r", "-b", "x", "-t", claude.pane)


async def test_a_paste_waits_for_enter_and_becomes_a_turn(tmux: TmuxServer, tmp_path: Path) -> None:
    """A paste of lines is kept whole, submitted by Enter, told to the hooks and written down."""
    claude = await tmux.claude()
    await paste(tmux, claude, "one\n\ttwo\n")
    assert (await claude.until("paste"))["text"] == "one\n\ttwo\n"
    assert claude.seen("submitted") == []
    await tmux.run("send-keys", "-t", claude.pane, "Enter")
    await claude.until("submitted", text="one\n\ttwo\n")
    claude.tell(do="stop")
    await claude.until("state", to="idle", count=2)
    told = hooked(tmp_path)
    assert [each["hook_event_name"] for each in told] == [
        "SessionStart", "UserPromptSubmit", "Stop"
    ]  # fmt: skip
    assert told[1]["prompt"] == "one\n\ttwo\n"
    assert told[1]["transcript_path"] == str(claude.transcript)
    records = [json.loads(line) for line in claude.transcript.read_text().splitlines()]
    assert [record["type"] for record in records] == ["user", "assistant"]
    assert records[0]["message"] == {"role": "user", "content": "one\n\ttwo\n"}
    assert records[1]["parentUuid"] == records[0]["uuid"]


async def test_what_is_submitted_while_it_works_is_queued(tmux: TmuxServer) -> None:
    """Enter in a running turn queues, and the turn's end submits what was queued."""
    claude = await tmux.claude()
    claude.tell(do="prompt", text="first")
    await claude.until("state", to="working")
    await paste(tmux, claude, "second")
    await claude.until("paste", state="working")
    await tmux.run("send-keys", "-t", claude.pane, "Enter")
    await claude.until("queued", text="second")
    claude.tell(do="stop")
    await claude.until("submitted", text="second")


async def test_a_permission_prompt_takes_what_is_typed(tmux: TmuxServer) -> None:
    """At a permission prompt a paste goes into the prompt, and Enter says yes."""
    claude = await tmux.claude()
    claude.tell(do="prompt", text="first")
    claude.tell(do="ask")
    await claude.until("state", to="waiting")
    await paste(tmux, claude, "no good")
    await claude.until("into_prompt", text="no good")
    await tmux.run("send-keys", "-t", claude.pane, "Enter")
    await until(lambda: claude.state == "working")
    assert claude.seen("submitted", text="no good") == []


async def test_escape_interrupts_without_a_hook(tmux: TmuxServer, tmp_path: Path) -> None:
    """Escape ends a turn, and nothing tells the hooks."""
    claude = await tmux.claude()
    claude.tell(do="prompt", text="first")
    await claude.until("hook", event="UserPromptSubmit")
    await tmux.run("send-keys", "-t", claude.pane, "Escape")
    await claude.until("key", name="escape")
    assert claude.state == "idle"
    assert "Stop" not in [each["hook_event_name"] for each in hooked(tmp_path)]


async def test_an_ended_session_is_resumed_by_its_id(tmux: TmuxServer, tmp_path: Path) -> None:
    """A resumed session goes on in the same transcript; in another folder there is none."""
    claude = await tmux.claude("--stand-in-turn", "0.01")
    claude.tell(do="prompt", text="first")
    await claude.until("state", to="idle", count=2)
    claude.tell(do="end")
    await claude.until("ended")
    again = await tmux.claude("--resume", claude.session_id)
    again.tell(do="prompt", text="second")
    await again.until("submitted", text="second")
    told = [each for each in hooked(tmp_path) if each["hook_event_name"] == "SessionStart"]
    assert [each["source"] for each in told] == ["startup", "resume"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    refused = await trio.run_process(
        [tmux.program, "--resume", claude.session_id],
        cwd=elsewhere, env=tmux.environ, check=False, capture_stderr=True,
    )  # fmt: skip
    assert refused.returncode == 1
    assert b"No conversation found with session ID" in refused.stderr


async def test_a_closed_pane_ends_the_session_with_its_hook(
    tmux: TmuxServer, tmp_path: Path
) -> None:
    """Killing the pane calls SessionEnd before the program is gone."""
    claude = await tmux.claude()
    await tmux.run("kill-pane", "-t", claude.pane)
    await claude.until("ended", reason="other")
    assert hooked(tmp_path)[-1]["hook_event_name"] == "SessionEnd"
