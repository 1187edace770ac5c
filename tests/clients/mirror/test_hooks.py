"""Sessions as their hooks tell of them; the stand-in of Claude Code calls them, in tmux."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pytest
import trio

from muster.clients.mirror.hook_rules import EVENTS
from muster.clients.mirror.hook_settings import change
from muster.clients.mirror.hooks import HookedSessions, open_sessions
from muster.clients.mirror.model import Focus, FocusSource, Place, ProofSource, SessionState, State
from muster.clients.mirror.spool import has_terminal, read_session, spool_folder
from tests.support.claude_pane import MUSTER, ClaudePane, TmuxServer, open_tmux
from tests.support.waiting import dawdle, until

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@attrs.define
class Box:
    """A machine with tmux, Claude Code with muster's hooks, and what their host program sees."""

    tmux: TmuxServer
    tmux_pid: int
    told: list[Focus] = attrs.field(factory=list)

    @property
    def spool(self) -> Path:
        """Where hooks write."""
        return Path(spool_folder(self.tmux.environ))

    @asynccontextmanager
    async def sessions(self) -> AsyncIterator[HookedSessions]:
        """The sessions, watched."""
        home = self.tmux.home
        async with open_sessions(self.spool, home=home, tell=self.told.append) as sessions:
            yield sessions

    def place(self, claude: ClaudePane) -> Place:
        """Where it is shown."""
        return Place(tmux_pid=self.tmux_pid, pane=claude.pane)


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    """A machine whose Claude Code calls muster's hooks."""
    async with open_tmux(tmp_path / "box") as tmux:
        change(tmux.home / ".claude" / "settings.json", MUSTER, tuple(EVENTS))
        yield Box(tmux, int(await tmux.run("display-message", "-p", "#{pid}")))


async def becomes(sessions: HookedSessions, place: Place, state: State) -> SessionState:
    """Wait until the pane's session does something; it is said by `changes` each time."""
    with trio.fail_after(10):
        while True:
            seen = sessions.state_of(place)
            if seen is not None and seen.state is state:
                return seen
            await sessions.changes.wait()


async def test_a_session_is_followed_through_its_states(box: Box) -> None:
    """A session is idle, working, waiting, working and idle, as soon as its hook said so."""
    async with box.sessions() as sessions:
        claude = await box.tmux.claude()
        place = box.place(claude)
        idle = await becomes(sessions, place, State.IDLE)
        assert idle.claude_session == claude.session_id
        assert idle.cwd == str(claude.cwd)
        claude.tell(do="prompt", text="Mend the fence")
        await becomes(sessions, place, State.WORKING)
        claude.tell(do="ask")
        await becomes(sessions, place, State.WAITING)
        claude.tell(do="grant")
        await becomes(sessions, place, State.WORKING)
        claude.tell(do="stop")
        stopped = await becomes(sessions, place, State.IDLE)
        assert stopped.since > idle.since
        assert all(line["out"] == [""] for line in claude.seen("hook"))
        assert all(line["codes"] == [0] for line in claude.seen("hook"))
        claude.tell(do="end")
        await until(lambda: sessions.state_of(place) is None)


async def test_what_happened_meanwhile_is_known_at_the_start(box: Box) -> None:
    """A program that was down knows at once what each session does, and since when."""
    claude, other = await box.tmux.claude(), await box.tmux.claude()
    claude.tell(do="prompt", text="Mend the fence")
    await claude.until("hook", event="UserPromptSubmit")
    gone = await box.tmux.claude()
    gone.tell(do="end")
    await gone.until("ended")
    async with box.sessions() as sessions:
        working, idle = (sessions.state_of(box.place(each)) for each in (claude, other))
        assert working is not None
        assert working.state is State.WORKING
        submitted = datetime.fromtimestamp(claude.seen("submitted")[0]["at"], UTC)
        assert timedelta() <= working.since - submitted < timedelta(seconds=5)
        assert idle is not None
        assert idle.state is State.IDLE
        assert sessions.state_of(box.place(gone)) is None
        assert sessions.state_of(Place(tmux_pid=box.tmux_pid + 1, pane=claude.pane)) is None


async def test_a_killed_session_is_gone_at_once(box: Box) -> None:
    """A session whose process died without a word is not shown, and that is said."""
    async with box.sessions() as sessions:
        claude = await box.tmux.claude()
        await becomes(sessions, box.place(claude), State.IDLE)
        await sessions.changes.wait()
        os.kill(claude.seen("started")[0]["pid"], signal.SIGKILL)
        with trio.fail_after(10):
            await sessions.changes.wait()
        assert sessions.state_of(box.place(claude)) is None
        assert not sessions.is_running(claude.session_id)


async def test_a_suspended_session_is_not_idle(box: Box) -> None:
    """While a session is stopped its shell has the terminal; in the foreground it is idle again."""
    session = "11111111-2222-4333-8444-555555555555"
    async with box.sessions() as sessions:
        pane = await box.tmux.run("new-window", "-d", "-P", "-F", "#{pane_id}", "exec bash -i")
        run = f"{box.tmux.program} --session-id {session}"
        await box.tmux.run("send-keys", "-t", pane, run, "Enter")
        claude = box.tmux.known(session, pane=pane)
        place = box.place(claude)
        await becomes(sessions, place, State.IDLE)
        kept = read_session(str(box.spool), session)
        assert kept is not None
        shell = kept._replace(
            process=int(await box.tmux.run("display-message", "-p", "-t", pane, "#{pane_pid}"))
        )
        # Both run; one of them is in the background.
        assert has_terminal(kept)
        assert not has_terminal(shell)
        os.kill(kept.process, signal.SIGTSTP)
        await becomes(sessions, place, State.UNKNOWN)
        await until(lambda: has_terminal(shell))
        assert not has_terminal(kept)
        await box.tmux.run("send-keys", "-t", pane, "fg", "Enter")
        await becomes(sessions, place, State.IDLE)


async def test_a_session_whose_editor_is_open_is_not_idle(box: Box) -> None:
    """While an editor that the session started has the terminal, what is pasted would go there."""
    async with box.sessions() as sessions:
        claude = await box.tmux.claude()
        await becomes(sessions, box.place(claude), State.IDLE)
        claude.tell(do="edit", seconds=4)
        await becomes(sessions, box.place(claude), State.UNKNOWN)
        await becomes(sessions, box.place(claude), State.IDLE)


async def test_the_next_session_in_a_pane_takes_its_place(box: Box) -> None:
    """A pane shows the session that began there last: after /clear it has another id."""
    other = "11111111-2222-4333-8444-555555555555"
    async with box.sessions() as sessions:
        claude = await box.tmux.claude()
        place = box.place(claude)
        await becomes(sessions, place, State.IDLE)
        claude.tell(do="hook", event="SessionEnd", members={"reason": "clear"})
        claude.tell(
            do="hook", event="SessionStart", members={"source": "clear", "session_id": other}
        )
        await until(lambda: (state := sessions.state_of(place)) and state.claude_session == other)


async def test_a_hook_without_a_terminal_of_its_own_leaves_nothing(box: Box) -> None:
    """A `claude -p` that a session started in its pane is not taken for that pane's session."""
    async with box.sessions() as sessions:
        claude = await box.tmux.claude()
        await becomes(sessions, box.place(claude), State.IDLE)
        environ = {
            **box.tmux.environ, "TMUX": f"x,{box.tmux_pid},0", "TMUX_PANE": claude.pane
        }  # fmt: skip
        told = b'{"session_id": "11111111-2222-4333-8444-555555555555", "prompt": "x"}'
        hook = [*MUSTER.split(), "mirror", "hook", "Stop"]
        await trio.run_process(hook, stdin=told, env=environ)
        await sessions.catch_up()
        state = sessions.state_of(box.place(claude))
        assert state is not None
        assert state.claude_session == claude.session_id


async def test_a_prompt_proves_a_text_once(box: Box) -> None:
    """A prompt proves its text by the hook, whatever became of its white space, and only once."""
    async with box.sessions() as sessions:
        claude = await box.tmux.claude()
        before = datetime.now(UTC)
        claude.tell(do="prompt", text=" a\n    b ")
        with trio.fail_after(10):
            proof = await sessions.proven(claude.session_id, "a\n\tb\n", before)
        assert proof.source is ProofSource.HOOK
        assert before <= proof.at <= datetime.now(UTC)
        await claude.until("hook", event="UserPromptSubmit")
        await until(claude.transcript.exists)
        with trio.move_on_after(0.5) as late:
            await sessions.proven(claude.session_id, "a\n\tb\n", before)
        assert late.cancelled_caught
        with trio.move_on_after(0.3) as never:
            await sessions.proven(claude.session_id, "other", LONG_AGO)
        assert never.cancelled_caught


async def test_a_transcript_proves_what_no_hook_told(box: Box) -> None:
    """A queued prompt, one behind a draft and one before more are proven; older ones are not."""
    text = "Please mend the fence, and the gate next to it as well."
    async with box.sessions() as sessions:
        claude = await box.tmux.claude()
        claude.tell(do="prompt", text=text)
        await claude.until("hook", event="UserPromptSubmit")
        since = datetime.now(UTC)
        claude.tell(do="prompt", text=f"my draft {text}")
        await claude.until("queued")
        with trio.fail_after(10):
            proof = await sessions.proven(claude.session_id, text, since)
        assert proof.source is ProofSource.TRANSCRIPT
        assert proof.at > since - timedelta(milliseconds=1)
        before = datetime.now(UTC)
        claude.tell(do="prompt", text=f"{text} and mine")
        await claude.until("queued", count=2)
        with trio.fail_after(10):
            assert (await sessions.proven(claude.session_id, text, before)).at > proof.at
        with trio.move_on_after(0.3) as never:
            await sessions.proven(claude.session_id, "draft", since)
        assert never.cancelled_caught


async def test_titles_are_told_once_each(box: Box) -> None:
    """The prompt's first line is told, then the session's name; no title is told twice."""
    async with box.sessions():
        claude = await box.tmux.claude()
        claude.tell(do="prompt", text="\n Mend the fence \nand more")
        await until(lambda: len(box.told) == 1)
        claude.tell(do="write", record={"type": "ai-title", "aiTitle": "Fences"})
        claude.tell(do="stop")
        await until(lambda: len(box.told) == 2)
        claude.tell(do="write", record={"type": "ai-title", "aiTitle": "Fences"})
        claude.tell(do="tool", name="Bash")
        await claude.until("hook", event="PostToolUse")
        await dawdle(0.3, because="that nothing is told has no event")
    assert [(each.title, each.source) for each in box.told] == [
        ("Mend the fence", FocusSource.PROMPT),
        ("Fences", FocusSource.SUMMARY),
    ]
    assert {each.claude_session for each in box.told} == {claude.session_id}
    assert {each.cwd for each in box.told} == {str(claude.cwd)}


async def test_two_programs_hear_the_same_hooks(box: Box) -> None:
    """Each of two host programs hears at once, and one that is gone is no hindrance."""
    async with box.sessions() as first, box.sessions() as second:
        claude = await box.tmux.claude()
        await becomes(first, box.place(claude), State.IDLE)
        await becomes(second, box.place(claude), State.IDLE)
        left = [each.name for each in box.spool.iterdir() if each.name.startswith("wake-")]
        assert len(left) == 2
    assert not [each for each in box.spool.iterdir() if each.name.startswith("wake-")]
