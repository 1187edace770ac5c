"""Ended sessions begin anew in a window of their own, within what this host allows."""

import json
import os
import shlex
import sys
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pytest
import trio

from muster.clients.mirror.hook_rules import EVENTS
from muster.clients.mirror.hook_settings import change
from muster.clients.mirror.model import Outcome
from muster.clients.mirror.resume import LIMITS_NAME, Resumer, Start, is_of, why_not
from muster.clients.mirror.spool import spool_folder
from muster.clients.mirror.tmux import Tmux
from tests.support.claude_pane import MUSTER, ClaudePane, TmuxServer, open_tmux
from tests.support.waiting import until

SESSION = "11111111-2222-4333-8444-555555555555"
RUNS = "The session is running on this host."
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@attrs.define
class Host:
    """A machine with an ended session, and what starts it anew."""

    tmux: TmuxServer
    folder: Path
    ended: ClaudePane

    @property
    def resumer(self) -> Resumer:
        """As a program that has just been started."""
        return Resumer(
            tmux=Tmux(socket=str(self.tmux.socket)),
            spool=Path(spool_folder(self.tmux.environ)),
            home=self.tmux.home,
            folder=self.folder,
            claude=(str(self.tmux.program),),
        )

    async def refusal(self, session: str | None = None) -> str:
        """Why it is not started; no window came."""
        before = await self.windows()
        resumed = await self.resumer.resume(session or self.ended.session_id)
        assert resumed.outcome is Outcome.REFUSED
        assert resumed.window is None
        assert await self.windows() == before
        return resumed.detail

    async def windows(self) -> list[str]:
        """The windows of the session for resumes."""
        names = await self.tmux.run("list-windows", "-a", "-F", "#{session_name} #{window_name}")
        return [name for name in names.splitlines() if name.startswith("muster-resume ")]


async def end_one(tmux: TmuxServer, cwd: Path | None = None) -> ClaudePane:
    """A session that ran and ended."""
    claude = await tmux.claude("--stand-in-turn", "0.01", cwd=cwd)
    claude.tell(do="prompt", text="Hello")
    await claude.until("state", to="idle", count=2)
    claude.tell(do="end")
    await claude.gone()
    return claude


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    """A machine whose Claude Code calls muster's hooks."""
    async with open_tmux(tmp_path / "box") as tmux:
        change(tmux.home / ".claude" / "settings.json", MUSTER, tuple(EVENTS))
        folder = tmp_path / "state"
        folder.mkdir()
        yield Host(tmux, folder, await end_one(tmux))


@pytest.mark.rule(386, 387, 388)
async def test_an_ended_session_begins_anew_once(host: Host) -> None:
    """It runs `claude --resume ID` in its folder, in a named window; a second start is refused."""
    resumed = await host.resumer.resume(host.ended.session_id)
    assert resumed.outcome is Outcome.STARTED
    again = host.tmux.known(host.ended.session_id)
    began = await again.until("started", count=2)
    assert began["arguments"][-2:] == ["--resume", host.ended.session_id]
    assert began["cwd"] == str(host.ended.cwd)
    assert await host.windows() == [f"muster-resume resume-{host.ended.session_id[:8]}"]
    window = await host.tmux.run("list-windows", "-t", "muster-resume", "-F", "#{window_id}")
    assert resumed.window == window
    await until(lambda: again.state == "idle")
    assert "running" in await host.refusal()
    again.tell(do="end")
    await again.gone(count=2)
    assert "10 minutes" in await host.refusal()


@pytest.mark.rule(386)
async def test_a_folder_of_any_name_is_only_a_folder(host: Host, tmp_path: Path) -> None:
    """Signs that tmux or a shell would read are part of the folder's name, and run nothing."""
    strange = tmp_path / "a '#(touch pwned) $(touch pwned);b #{pane_id}"
    strange.mkdir()
    claude = await end_one(host.tmux, cwd=strange)
    resumed = await host.resumer.resume(claude.session_id)
    assert resumed.outcome is Outcome.STARTED, resumed.detail
    again = host.tmux.known(claude.session_id)
    assert (await again.until("started", count=2))["cwd"] == str(strange)
    assert not await trio.to_thread.run_sync(lambda: list(tmp_path.rglob("pwned")))
    assert not (host.tmux.home / "pwned").exists()


@pytest.mark.rule(386)
async def test_a_session_without_its_one_transcript_stays_ended(host: Host) -> None:
    """No transcript, two of them, one in the wrong place or without a folder: all are refused."""
    assert "no id" in await host.refusal("../x")
    assert "no transcript" in await host.refusal(SESSION)
    projects = host.ended.transcript.parent.parent
    other = projects / "-other"
    other.mkdir()
    misplaced = other / f"{SESSION}.jsonl"
    misplaced.write_text(host.ended.transcript.read_text())
    assert "filed under" in await host.refusal(SESSION)
    misplaced.write_text("{}\n")
    assert "filed under" in await host.refusal(SESSION)
    (other / host.ended.transcript.name).write_text("")
    assert "2 transcripts" in await host.refusal()


@pytest.mark.rule(386)
async def test_a_session_whose_folder_is_gone_stays_ended(host: Host, tmp_path: Path) -> None:
    """The directory that the transcript records must still be there."""
    gone = tmp_path / "gone"
    gone.mkdir()
    claude = await end_one(host.tmux, cwd=gone)
    gone.rmdir()
    assert "gone" in await host.refusal(claude.session_id)


@pytest.mark.rule(386)
async def test_a_session_that_runs_is_not_run_twice(host: Host, tmp_path: Path) -> None:
    """Its hooks' word, a process that names it, and a pane that was begun with it each suffice."""
    session = str(uuid.uuid4())
    living = await host.tmux.claude(session_id=session)
    living.tell(do="prompt", text="Hello")
    await until(living.transcript.exists)
    assert await host.refusal(session) == RUNS
    path = host.ended.transcript.with_name(f"{SESSION}.jsonl")
    path.write_text(host.ended.transcript.read_text())
    elsewhere = [sys.executable, "-c", "import time; time.sleep(60)", f"--resume={SESSION}"]
    child = await trio.lowlevel.open_process(elsewhere)
    assert await host.refusal(SESSION) == RUNS
    child.kill()
    await child.wait()
    process = shlex.join(["sh", "-c", "sleep 60; :", "claude", f"--resume={SESSION}"])
    pane = await host.tmux.run("new-window", "-d", "-P", "-F", "#{pane_id}", f"exec {process}")
    await host.tmux.run("respawn-pane", "-k", "-t", pane, f"{process}")
    assert await host.refusal(SESSION) == RUNS
    await host.tmux.run("respawn-pane", "-k", "-t", pane, f"sleep 60 # {SESSION}")
    assert await host.refusal(SESSION) == RUNS


@pytest.mark.rule(386)
async def test_a_claude_that_no_hook_told_of_keeps_its_folders_sessions_ended(
    host: Host, tmp_path: Path
) -> None:
    """It may run the session; one whose session is known, or that works elsewhere, does not."""
    await host.tmux.claude()
    for folder, name, refused in (
        (tmp_path, "claude", False),
        (host.ended.cwd, "claudette", False),
        (host.ended.cwd, "/opt/bin/claude", True),
        (host.ended.cwd, "/lib/node_modules/@anthropic-ai/claude-code/cli.js", True),
    ):
        process = await trio.lowlevel.open_process([name, "60"], executable="sleep", cwd=folder)
        try:
            assert is_of(process.pid, frozenset({os.getpid()}))
            if refused:
                assert "may be running" in await host.refusal()
            else:
                assert not await trio.to_thread.run_sync(host.resumer._may_run, str(host.ended.cwd))
        finally:
            process.kill()
            await process.wait()
    assert (await host.resumer.resume(host.ended.session_id)).outcome is Outcome.STARTED


@pytest.mark.rule(386)
async def test_limits_outlast_the_program_and_their_file(host: Host) -> None:
    """Six starts an hour are counted on disk; a file that can't be read allows none."""
    limits = host.folder / LIMITS_NAME
    starts = [{"session": f"s{n}", "at": datetime.now(UTC).isoformat()} for n in range(6)]
    limits.write_text(json.dumps(starts))
    assert "6 sessions" in await host.refusal()
    for broken in ("", "{", "[1]", '[{"session": "x", "at": "2026-11-30T10:00:00"}]'):
        limits.write_text(broken)
        assert LIMITS_NAME in await host.refusal()
    limits.unlink()
    limits.mkdir()
    assert "can't be kept" in await host.refusal()


@pytest.mark.rule(386)
@pytest.mark.parametrize(
    ("starts", "allowed"),
    [
        ([], True),
        ([("a", 9.9)], False),
        ([("a", 10)], True),
        ([("b", 1)], True),
        ([("b", 1)] * 5, True),
        ([("b", 1)] * 6, False),
        ([("b", 60)] * 6, True),
        ([("b", -5)] * 6, False),
        ([("a", -5)], False),
    ],
)
def test_the_limits_of_a_host(starts: list[tuple[str, float]], allowed: bool) -> None:
    """A session starts once in 10 minutes, a host 6 in an hour, also when its clock went back."""
    made = [Start(session=name, at=NOW - timedelta(minutes=ago)) for name, ago in starts]
    assert (why_not(made, "a", NOW) is None) is allowed
