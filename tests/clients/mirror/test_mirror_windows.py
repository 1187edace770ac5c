"""What a host says of its tmux windows, beside a real tmux."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from muster.clients.mirror.tmux import Tmux, TmuxAbsentError, TmuxError, read_panes
from tests.support.claude_pane import open_tmux
from tests.support.mirror_stage import MirrorStage, mirror
from tests.support.waiting import dawdle, until

__all__ = ["mirror"]

ODD = "a!b%21c #{pane_id} 'd' \"e\" \\ $ é 日本 ~"


async def test_titles_labels_and_folders_may_hold_anything(
    mirror: MirrorStage, tmp_path: Path
) -> None:
    """Separators, quotes, formats and line ends in names are read as they are."""
    odd = tmp_path / "o!d\nd%25\t#{x}"
    odd.mkdir()
    run = mirror.tmux.run
    told = await run(
        "new-window",
        "-d",
        "-P",
        "-F",
        "#{pane_id} #{window_id}",
        "-c",
        str(odd).replace("#", "##"),
        "exec sleep 60",
    )
    pane, window = told.split()
    await run("rename-window", "-t", window, ODD.replace("#", "##"))
    await run("set-option", "-w", "-t", window, "@muster_label", "two\nlines\t!")
    await run("rename-session", "m%21!!x")
    async with mirror.running():
        listed = await until(lambda: mirror.door.pane(pane))
        frame = mirror.door.seen("windows")[-1]
    mine = next(each for each in frame["windows"] if each["window"] == window)
    assert listed["cwd"] == str(odd)
    assert (listed["state"], listed["claude_session"]) == ("unknown", None)
    assert mine["label"] == "two lines !"
    assert mine["title"] == "m%21!!x:1"


async def test_a_title_is_the_place_in_tmux_and_a_label_what_somebody_named_it(
    mirror: MirrorStage,
) -> None:
    """A window that tmux names by itself has no label, whatever title its program set."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        told = await mirror.tmux.run("display-message", "-p", "-t", claude.pane, "#{pane_title}")
        assert told == "* stand-in"
        shown = mirror.door.pane(claude.pane)
        assert (shown["title"], shown["label"]) == ("main:1", None)
        await mirror.tmux.run("rename-window", "-t", claude.window, ODD.replace("#", "##"))
        named = await until(lambda: mirror.door.pane(claude.pane)["label"])
        assert named.replace("\\\\", "\\") == ODD
        await mirror.tmux.run("set-option", "-w", "-t", claude.window, "@muster_label", "mine")
        await until(lambda: mirror.door.pane(claude.pane)["label"] == "mine")
        await mirror.tmux.run("move-window", "-s", claude.window, "-t", "main:7")
        await until(lambda: mirror.door.pane(claude.pane)["title"] == "main:7")


async def test_a_session_is_shown_from_its_beginning_to_its_end(mirror: MirrorStage) -> None:
    """The list follows a session through idle, working, waiting and its end, with its times."""
    async with mirror.running():
        claude = await mirror.claude()
        idle = await mirror.door.until_shown(claude)
        began = datetime.fromtimestamp(claude.seen("state", to="idle")[0]["at"], UTC)
        claude.tell(do="prompt", text="go")
        working = await mirror.door.until_shown(claude, "working")
        claude.tell(do="ask")
        await mirror.door.until_shown(claude, "waiting")
        claude.tell(do="grant")
        claude.tell(do="stop")
        again = await mirror.door.until_shown(claude)
        claude.tell(do="end")
        await until(lambda: not mirror.door.pane(claude.pane).get("claude_session"))
    since = datetime.fromisoformat(idle["idle_since"])
    assert timedelta(0) <= since - began < timedelta(seconds=1.5)
    assert (idle["window"], idle["active"], idle["cwd"]) == (claude.window, True, str(claude.cwd))
    assert working["idle_since"] is None
    assert datetime.fromisoformat(again["idle_since"]) > since


async def test_a_screen_that_moves_begins_idle_anew(mirror: MirrorStage) -> None:
    """Somebody who types into an idle session makes it idle since then, not since its hook."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        before = datetime.now(UTC)
        await mirror.tmux.run("send-keys", "-t", claude.pane, "-l", "half a thought")
        await claude.until("typed")

        def moved() -> bool:
            pane = mirror.door.pane(claude.pane)
            since = pane["idle_since"]
            return since is not None and datetime.fromisoformat(since) >= before

        await until(moved)


async def test_an_idle_hook_without_a_still_screen_is_unknown(mirror: MirrorStage) -> None:
    """A session that says idle while its screen moves is unknown, not idle."""
    async with mirror.running():
        claude = await mirror.idle_claude("--stand-in-spin")
        mirror.sessions.deaf = True
        claude.tell(do="prompt", text="go")
        await mirror.door.until_shown(claude, "unknown")


async def test_panes_beside_each_other_have_states_of_their_own(mirror: MirrorStage) -> None:
    """A pane that prints all the time does not keep its neighbour from being idle."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        other = await mirror.claude("--stand-in-spin", split=claude.pane)
        other.tell(do="prompt", text="go")
        await mirror.door.until_shown(other, "working")
        idle = await mirror.door.until_shown(claude)
        panes = {
            pane["pane"] for window in mirror.door.seen("windows")[-1]["windows"]
            for pane in window["panes"] if window["window"] == claude.window
        }  # fmt: skip
        await mirror.door.paste(claude, "hello", send_id=1)
        await mirror.door.until("paste.done", send_id=1, outcome="pasted")
    assert idle["window"] == mirror.door.pane(other.pane)["window"] == claude.window
    assert panes == {claude.pane, other.pane}
    assert other.seen("paste") == []


async def test_no_tmux_is_told_apart_from_one_that_says_no(tmp_path: Path) -> None:
    """A server that is not there, and a program that is not, are absent."""
    tmux = Tmux(socket=str(tmp_path / "none"))
    with pytest.raises(TmuxAbsentError, match=r"error connecting|no server"):
        await tmux.panes()
    with pytest.raises(TmuxAbsentError, match="cannot be run"):
        await Tmux(program="no-such-tmux").panes()


async def test_a_restart_of_tmux_is_survived_and_its_panes_are_others(
    mirror: MirrorStage,
) -> None:
    """After a restart of tmux a pane of the same number is another place."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        old = (await mirror.host.tmux.panes())[-1].place
        await mirror.tmux.run("kill-server")
        await until(lambda: mirror.door.seen("windows")[-1]["windows"] == [])
        mirror.sessions.known.clear()
        for _ in range(2):
            await mirror.tmux.run("-f", "/dev/null", "new-session", "-d", "exec sleep 60")
        await until(lambda: mirror.door.pane(claude.pane))
        new = (await mirror.host.tmux.panes())[-1].place
    assert mirror.door.pane(claude.pane)["claude_session"] is None
    assert new.pane == old.pane
    assert new.tmux_pid != old.tmux_pid


async def test_a_linked_window_is_listed_once(mirror: MirrorStage) -> None:
    """A window that two tmux sessions show is one window."""
    await mirror.tmux.run("new-session", "-d", "-t", "main", "-s", "second")
    panes = await mirror.host.tmux.panes()
    assert len(panes) == len({pane.place.pane for pane in panes}) == 1


async def test_changes_are_said_at_most_five_times_a_second(mirror: MirrorStage) -> None:
    """A burst of changes is one list every fifth of a second."""
    async with mirror.running():
        claude = await mirror.idle_claude()
        began, before = trio.current_time(), len(mirror.door.seen("windows"))
        for number in range(40):
            await mirror.tmux.run("rename-window", "-t", claude.window, f"name-{number}")
            mirror.sessions.changes.set()
        await until(lambda: mirror.door.pane(claude.pane)["label"] == "name-39")
        spent = trio.current_time() - began
    assert 1 <= len(mirror.door.seen("windows")) - before <= spent * 5 + 1


async def test_nothing_is_said_while_nothing_changes(mirror: MirrorStage) -> None:
    """A look that finds what the last one found is not told."""
    async with mirror.running():
        await mirror.idle_claude()
        count = len(mirror.door.seen("windows"))
        for _ in range(3):
            mirror.sessions.changes.set()
            await dawdle(0.25, because="no list comes, and nothing tells of that")
        assert len(mirror.door.seen("windows")) == count


@pytest.mark.parametrize("said", ["x", "1!@0!%0!", "a!@0!%0!2!1!1!3!m!0!n!t!l!f!\n", "!" * 13])
def test_a_listing_that_can_not_be_read_is_an_error(said: str) -> None:
    """What is no listing is an error, not a crash and not an empty list."""
    with pytest.raises(TmuxError, match="can't be read"):
        read_panes(said)


async def test_a_tmux_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that does not end is cut off, and one that prints without an end is too."""
    monkeypatch.setattr("muster.clients.mirror.tmux.CALL_SECONDS", 0.3)
    program = tmp_path / "tmux"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    with pytest.raises(TmuxError, match="took longer"):
        await Tmux(program=str(program)).panes()
    monkeypatch.setattr("muster.clients.mirror.tmux.CALL_SECONDS", 20)
    program.write_text("#!/bin/sh\nexec yes\n")
    with pytest.raises(TmuxError, match="too much"):
        await Tmux(program=str(program)).panes()


async def test_a_socket_is_chosen_by_path(tmp_path: Path) -> None:
    """Each tmux server is asked by its own socket."""
    async with open_tmux(tmp_path / "one") as one, open_tmux(tmp_path / "two") as two:
        pids = [
            (await Tmux(socket=str(server.socket)).panes())[0].place.tmux_pid
            for server in (one, two)
        ]
        assert pids == [
            int(await server.run("display-message", "-p", "#{pid}")) for server in (one, two)
        ]
    assert pids[0] != pids[1]
