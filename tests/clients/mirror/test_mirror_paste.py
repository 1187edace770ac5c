"""A text that muster sends into a session: typed once, as it is, into that session alone."""

import os
import signal
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.support.bodies import BODIES, as_typed
from tests.support.mirror_stage import MirrorStage, mirror
from tests.support.waiting import dawdle, until

__all__ = ["mirror"]


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
async def test_a_text_arrives_as_it_is_without_its_controls(mirror: MirrorStage, body: str) -> None:
    """Whatever the text holds, the session gets its bytes in one paste, less the controls."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        await mirror.door.paste(claude, body, send_id=7)
        done = await mirror.door.until("paste.done", send_id=7)
    assert (done["outcome"], done["detail"]) == ("pasted", "")
    assert [line["text"] for line in claude.seen("paste")] == [as_typed(body)]
    assert [line["text"] for line in claude.seen("submitted")] == [as_typed(body)]
    assert claude.seen("typed") == []
    assert [line["name"] for line in claude.seen("key")] == ["enter"]


async def test_one_send_is_pasted_once_however_often_it_is_asked(mirror: MirrorStage) -> None:
    """The same send again, while it is in hand or after, is answered from the journal."""
    async with mirror.running():
        claude = await mirror.idle_claude("--stand-in-turn", "0.2")
        for _ in range(3):
            await mirror.door.paste(claude, "once", send_id=1)
        await mirror.door.until("paste.done", send_id=1)
        await mirror.door.until_shown(claude)
        count = len(mirror.door.seen("paste.done"))
        await mirror.door.paste(claude, "once", send_id=1)
        await mirror.door.until_count("paste.done", count + 1)
        await mirror.door.until_shown(claude)
        # Another send of the same words is another send.
        await mirror.door.paste(claude, "once", send_id=2)
        await mirror.door.until("paste.done", send_id=2)
    assert {frame["outcome"] for frame in mirror.door.seen("paste.done")} == {"pasted"}
    assert len(claude.seen("paste")) == 2


async def test_a_send_that_began_nowhere_may_come_again(mirror: MirrorStage) -> None:
    """A send that found the session at work was not begun, and is pasted when it comes again."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        claude.tell(do="prompt", text="mine")
        await claude.until("submitted", text="mine")
        await mirror.door.paste(claude, "yours", send_id=4)
        busy = await mirror.door.until("paste.done", send_id=4)
        await mirror.door.until_shown(claude, "working")
        claude.tell(do="stop")
        await mirror.door.until_shown(claude)
        await mirror.door.paste(claude, "yours", send_id=4)
        await mirror.door.until("paste.done", send_id=4, outcome="pasted")
    assert busy["outcome"] == "not_begun"
    assert busy["detail"] == "busy: the session is working."
    assert [line["text"] for line in claude.seen("paste")] == ["yours"]


async def test_a_permission_prompt_is_never_typed_into(mirror: MirrorStage) -> None:
    """A session that asks for permission is waiting, and a paste into it is not begun."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        claude.tell(do="ask")
        await claude.until("state", to="waiting")
        await mirror.door.paste(claude, "yes", send_id=5)
        done = await mirror.door.until("paste.done", send_id=5)
    assert done["detail"] == "busy: the session is waiting."
    assert claude.seen("paste") == claude.seen("key") == []


async def test_a_session_that_left_idle_unheard_is_seen_by_its_screen(
    mirror: MirrorStage,
) -> None:
    """A screen that is not as it was when the session fell idle keeps a text away."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        mirror.sessions.deaf = True
        claude.tell(do="prompt", text="mine")
        await claude.until("state", to="working")
        await mirror.door.paste(claude, "yours", send_id=6)
        done = await mirror.door.until("paste.done", send_id=6)
    assert done["outcome"] == "not_begun"
    assert done["detail"].startswith("busy: the pane")
    assert claude.seen("paste") == []


async def test_tmux_itself_sees_output_that_left_the_cursor_where_it_was(
    mirror: MirrorStage, tmp_path: Path
) -> None:
    """In a silent window whatever is printed after the last look keeps the text away."""
    tmux, got = mirror.host.tmux, tmp_path / "got"
    # Draws as Claude Code does: a word elsewhere on the screen, and the cursor back in its place.
    program = (
        f"stty -echo; echo ready; read go; printf '\\0337\\033[9;1Hbusy\\0338'; exec cat > {got}"
    )
    where = await mirror.tmux.run("new-window", "-d", "-P", "-F", "#{pane_id}", program)
    shows = partial(mirror.tmux.run_now, "capture-pane", "-p", "-t", where)
    await until(lambda: "ready" in shows())
    pane, _ = await tmux.look_at(where)
    await until(lambda: datetime.now(UTC) > pane.look.activity + timedelta(seconds=1))
    await mirror.tmux.run("send-keys", "-t", where, "Enter")
    await until(lambda: "busy" in shows())
    after, _ = await tmux.look_at(where)
    assert after.look.mark == pane.look.mark
    await tmux.load("yours", "yours\n")
    assert not await tmux.paste("yours", pane, silent=True)
    assert await tmux.paste("yours", pane, silent=False)
    await until(lambda: got.read_text() == "yours\n")


async def test_an_editor_that_opened_right_after_the_paste_gets_no_enter(
    mirror: MirrorStage,
) -> None:
    """Enter stays away from a session that lost its terminal; the send is unconfirmed."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        await mirror.door.paste(claude, "late", send_id=8, proof_seconds=0.5)
        await claude.until("paste")
        mirror.sessions.without_terminal = True
        done = await mirror.door.until("paste.done", send_id=8)
    assert done["outcome"] == "unconfirmed"
    assert "lost its terminal" in done["detail"]
    assert claude.seen("key") == []


async def test_a_permission_prompt_gets_no_enter_though_its_hook_is_slow(
    mirror: MirrorStage,
) -> None:
    """A screen that shows nothing of the paste is given the time of a hook before Enter."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        await mirror.door.paste(claude, "late", send_id=8, proof_seconds=0.5)
        await claude.until("paste")
        mirror.sessions.deaf = True
        await dawdle(0.1, because="the screen with the paste has been looked at by then")
        claude.tell(do="ask")
        await claude.until("state", to="waiting")
        await dawdle(1.5, because="so long a hook may take to be heard")
        mirror.sessions.deaf = False
        done = await mirror.door.until("paste.done", send_id=8)
    assert (done["outcome"], claude.seen("key")) == ("unconfirmed", [])
    assert "permission prompt" in done["detail"]


async def test_a_session_that_reads_late_gets_its_enter_by_itself(mirror: MirrorStage) -> None:
    """Enter waits until the paste is seen: in one read with it, it would be a line of the text."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        process = claude.seen("started")[0]["pid"]
        os.kill(process, signal.SIGSTOP)
        await mirror.door.paste(claude, "slow", send_id=8)
        await dawdle(1, because="the session is slow to read what was typed")
        os.kill(process, signal.SIGCONT)
        done = await mirror.door.until("paste.done", send_id=8)
    assert (done["outcome"], claude.seen("typed")) == ("pasted", [])
    assert [line["text"] for line in claude.seen("submitted")] == ["slow"]


async def test_what_somebody_types_behind_the_paste_is_not_sent_off(mirror: MirrorStage) -> None:
    """While a person types in an idle session Enter stays away, and the send is unconfirmed."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        await mirror.door.paste(claude, "yours", send_id=8, proof_seconds=0.5)
        await claude.until("paste")
        while not mirror.door.seen("paste.done", send_id=8):
            await mirror.tmux.run("send-keys", "-t", claude.pane, "x")
    (done,) = mirror.door.seen("paste.done", send_id=8)
    assert (done["outcome"], claude.seen("key")) == ("unconfirmed", [])
    assert "typed behind" in done["detail"]


async def test_a_permission_prompt_right_after_the_paste_gets_no_enter(
    mirror: MirrorStage,
) -> None:
    """Enter stays away from a permission prompt that opened meanwhile; the send is unconfirmed."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        await mirror.door.paste(claude, "late", send_id=8, proof_seconds=0.5)
        await claude.until("paste")
        claude.tell(do="ask")
        done = await mirror.door.until("paste.done", send_id=8)
    assert done["outcome"] == "unconfirmed"
    assert "permission prompt" in done["detail"]
    assert claude.seen("key") == []


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"claude_session": "00000000-0000-4000-8000-000000000000"}, "moved: "),
        ({"window": "@999"}, "moved: "),
        ({"pane": "%999"}, "gone: "),
        ({"sha256": "0" * 64}, "damaged: "),
    ],
)
async def test_what_is_not_as_it_was_asked_is_not_begun(
    mirror: MirrorStage, changes: dict[str, object], detail: str
) -> None:
    """A pane that is gone or shows another session, or another text, keeps the send from it."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        await mirror.door.paste(claude, "hello", send_id=3, **changes)
        done = await mirror.door.until("paste.done", send_id=3)
    assert done["outcome"] == "not_begun"
    assert done["detail"].startswith(detail)
    assert claude.seen("paste") == claude.seen("key") == []


async def test_a_text_of_nothing_is_not_begun(mirror: MirrorStage) -> None:
    """A text that holds only controls and white space is not typed: its Enter would stand alone."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        await mirror.door.paste(claude, "\r\n \x1b", send_id=3)
        done = await mirror.door.until("paste.done", send_id=3)
    assert done["detail"].startswith("damaged: ")
    assert claude.seen("key") == []


async def test_without_interactive_nothing_is_typed(mirror: MirrorStage) -> None:
    """A host that was not started with --interactive types nothing, and says why."""
    mirror.interactive = False
    async with mirror.running():
        claude = await mirror.idle_claude()
        await mirror.door.paste(claude, "hello", send_id=3)
        done = await mirror.door.until("paste.done", send_id=3)
    assert mirror.door.seen("hello")[0]["interactive"] is False
    assert done["detail"].startswith("read_only: ")
    assert claude.seen("paste") == []


async def test_a_text_that_is_too_long_is_not_begun(mirror: MirrorStage) -> None:
    """A text of more than 96 KiB is not typed."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        await mirror.door.paste(claude, "x" * (96 * 1024 + 1), send_id=3)
        done = await mirror.door.until("paste.done", send_id=3)
    assert done["detail"].startswith("too_long: ")


async def test_somebody_who_scrolls_keeps_a_text_away(mirror: MirrorStage) -> None:
    """A pane in copy mode, whose keys reach no session, gets no text."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        await mirror.tmux.run("copy-mode", "-t", claude.pane)
        await mirror.door.paste(claude, "hello", send_id=3)
        done = await mirror.door.until("paste.done", send_id=3)
    assert done["detail"].startswith("busy: keys do not reach")
    assert claude.seen("paste") == []


async def test_synchronised_panes_get_no_text(mirror: MirrorStage) -> None:
    """Where keys reach several panes at once, nothing is typed."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        await mirror.tmux.run("set-option", "-w", "-t", claude.window, "synchronize-panes", "on")
        await mirror.door.paste(claude, "hello", send_id=3)
        done = await mirror.door.until("paste.done", send_id=3)
    assert done["detail"].startswith("busy: keys do not reach")


async def test_no_proof_is_unconfirmed(mirror: MirrorStage) -> None:
    """A text that the session does not show within the time for proof is unconfirmed."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        mirror.sessions.proves = False
        await mirror.door.paste(claude, "hello", send_id=3, proof_seconds=0.3)
        done = await mirror.door.until("paste.done", send_id=3)
    assert done["outcome"] == "unconfirmed"
