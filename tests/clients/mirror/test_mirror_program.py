"""The real `muster mirror`, with the real hooks: what only the whole of it can show."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.support.bodies import BODIES, as_typed
from tests.support.mirror_program import MirrorProgram, open_program, program
from tests.support.waiting import until

__all__ = ["program"]


async def test_every_text_arrives_whole_and_is_proven_by_the_sessions_own_hook(
    program: MirrorProgram,
) -> None:
    """One after the other, hard texts arrive byte for byte less their controls, each proven."""
    with program.running():
        claude = await program.tmux.claude("--stand-in-turn", "0.1")
        for number, body in enumerate(BODIES.values(), start=1):
            await until(lambda: claude.state == "idle")
            await program.door.until_shown(claude, seconds=20)
            await program.door.paste(claude, body, send_id=number)
            done = await program.door.until("paste.done", send_id=number, seconds=20)
            assert (done["outcome"], done["detail"]) == ("pasted", "")
    wanted = [as_typed(body) for body in BODIES.values()]
    assert [line["text"] for line in claude.seen("paste")] == wanted
    assert [line["text"] for line in claude.seen("submitted")] == wanted
    assert claude.seen("typed") == []


async def test_hosts_whose_windows_have_one_title_are_told_apart_by_their_own_sockets(
    tmp_path: Path,
) -> None:
    """Two machines with the same titles and numbers of panes type only what is theirs."""
    async with open_program(tmp_path / "a") as one, open_program(tmp_path / "b") as other:
        with one.running(), other.running():
            mine = await one.tmux.claude()
            beside = await one.tmux.claude(split=mine.pane)
            theirs = await other.tmux.claude()
            shown = await one.door.until_shown(mine, seconds=20)
            shown_beside = await one.door.until_shown(beside, seconds=20)
            shown_theirs = await other.door.until_shown(theirs, seconds=20)
            assert mine.pane == theirs.pane
            assert {each["title"] for each in (shown, shown_beside, shown_theirs)} == {"main:1"}
            assert (shown["active"], shown_beside["active"]) == (False, True)
            # What is another machine's is not here, though the pane's number is.
            await other.door.paste(mine, "yours", send_id=1)
            refused = await other.door.until("paste.done", send_id=1, seconds=20)
            await one.door.paste(mine, "mine", send_id=1)
            done = await one.door.until("paste.done", send_id=1, seconds=20)
    assert (refused["outcome"], done["outcome"]) == ("not_begun", "pasted")
    assert refused["detail"].startswith("moved: ")
    assert [line["text"] for line in mine.seen("submitted")] == ["mine"]
    assert theirs.seen("paste") == beside.seen("paste") == []


async def test_a_restarted_tmux_is_found_again_and_typed_into(program: MirrorProgram) -> None:
    """Windows go with tmux and come with the next one; what was meant for the old stays away."""
    tmux = program.tmux
    with program.running():
        old = await tmux.claude()
        await program.door.until_shown(old, seconds=20)
        tmux.stop()
        await until(lambda: program.door.seen("windows")[-1]["windows"] == [], 20)
        await tmux.run(
            "-f", "/dev/null", "new-session", "-d", "-s", "main", "-c", str(tmux.home),
            "exec sleep 3600",
        )  # fmt: skip
        new = await tmux.claude()
        await program.door.until_shown(new, seconds=20)
        assert new.pane == old.pane
        await program.door.paste(old, "late", send_id=1)
        late = await program.door.until("paste.done", send_id=1, seconds=20)
        await program.door.until_shown(new, seconds=20)
        await program.door.paste(new, "hello", send_id=2)
        done = await program.door.until("paste.done", send_id=2, seconds=20)
    assert (late["outcome"], done["outcome"]) == ("not_begun", "pasted")
    assert [line["text"] for line in new.seen("submitted")] == ["hello"]
    assert len(program.door.sockets) == 1


async def test_a_record_that_can_no_more_be_written_ends_it_to_be_begun_anew(
    program: MirrorProgram,
) -> None:
    """It exits 1, which its unit restarts, not 78, which is for settings; nothing was typed."""
    with program.running():
        claude = await program.tmux.claude()
        await program.door.until_shown(claude, seconds=20)
        with closing(sqlite3.connect(program.journal)) as taken:
            taken.execute("begin exclusive")
            await program.door.paste(claude, "hello", send_id=1)
            assert await program.gone() == 1
    assert "cannot be used" in program.told
    assert "Traceback" not in program.told
    assert claude.seen("paste") == []


async def test_resumes_are_offered_only_by_a_host_that_may_type(program: MirrorProgram) -> None:
    """Without --interactive the host says that it resumes nothing, whatever else it was told."""
    program.arguments = ["--resume-spawn"]
    with program.running():
        alone = await program.door.until("hello", connection=1, seconds=20)
    program.arguments = ["--resume-spawn", "--interactive"]
    with program.running():
        both = await program.door.until("hello", connection=2, seconds=20)
    assert (alone["interactive"], alone["resume_spawn"]) == (False, False)
    assert (both["interactive"], both["resume_spawn"]) == (True, True)
