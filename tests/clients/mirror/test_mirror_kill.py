"""The real host program, killed at each step of a paste: no text is ever typed twice."""

import signal

import pytest

from tests.support.claude_pane import ClaudePane
from tests.support.mirror_program import MirrorProgram, program

__all__ = ["program"]

STEPS = [
    ("before", "load-buffer", 1),
    ("after", "load-buffer", 1),
    ("before", "list-panes -t", 2),
    ("after", "list-panes -t", 2),
    ("before", "if-shell", 1),
    ("after", "if-shell", 1),
    ("before", "send-keys", 1),
    ("after", "send-keys", 1),
]


async def offered_again(
    program: MirrorProgram, claude: ClaudePane, *, begun: bool = True
) -> tuple[str, str]:
    """Start the program anew and offer the send again; how it ended at last, and why.

    What was begun is answered from the journal, whatever the session does by then. What was not is
    typed, as the server does it: into a session that the new program itself says is idle, and again
    if its pane turned it away.
    """
    program.door.frames.clear()
    number = len(program.door.sockets) + 1
    with program.running():
        await program.door.until("hello", connection=number, seconds=20)
        if begun:
            return await offer(program, claude)
        while True:
            await program.door.until_shown(claude, seconds=20)
            outcome, detail = await offer(program, claude)
            if outcome != "not_begun":
                return outcome, detail


async def offer(program: MirrorProgram, claude: ClaudePane) -> tuple[str, str]:
    """Offer the send; how this offer ended, and why."""
    offers = len(program.door.seen("paste.done"))
    await program.door.paste(claude, "once", send_id=5)
    await program.door.until_count("paste.done", offers + 1, seconds=20)
    done = program.door.seen("paste.done")[offers]
    return str(done["outcome"]), str(done["detail"])


@pytest.mark.parametrize(
    ("when", "words", "count"), STEPS, ids=[f"{when} {words}" for when, words, _ in STEPS]
)
async def test_a_kill_at_any_step_never_types_twice(
    program: MirrorProgram, when: str, words: str, count: int
) -> None:
    """Killed at this step and offered the send again, the program types it at most once."""
    with program.running():
        claude = await program.tmux.claude()
        await program.door.until_shown(claude, seconds=20)
        program.trap(when, words, count)
        await program.door.paste(claude, "once", send_id=5)
        assert await program.gone() == -signal.SIGKILL
    outcome, detail = await offered_again(program, claude, begun=words != "load-buffer")
    pasted = len(claude.seen("paste"))
    if words == "load-buffer":
        # Nothing was begun, so the server's next offer is typed.
        assert (outcome, detail, pasted) == ("pasted", "", 1)
    elif (when, words) == ("after", "send-keys"):
        # All was typed, and the session itself shows it.
        assert (outcome, detail, pasted) == ("pasted", "", 1)
    else:
        reached = words == "send-keys" or (when, words) == ("after", "if-shell")
        assert (outcome, pasted) == ("unconfirmed", int(reached))
        assert detail.startswith("The host program ended in the middle")
    assert [line["name"] for line in claude.seen("key")] in ([], ["enter"])


async def test_a_kill_in_the_wait_for_proof_ends_proven(program: MirrorProgram) -> None:
    """Killed after Enter, the program finds the proof in what the session's hook left."""
    with program.running():
        claude = await program.tmux.claude()
        await program.door.until_shown(claude, seconds=20)
        await program.door.paste(claude, "once", send_id=5)
        await claude.until("submitted", text="once")
        await program.kill()
    assert await offered_again(program, claude) == ("pasted", "")
    assert len(claude.seen("paste")) == 1


async def test_a_kill_before_the_end_was_acknowledged_tells_it_again(
    program: MirrorProgram,
) -> None:
    """An end that the server never acknowledged is told after the restart, without being asked."""
    program.door.acknowledges = lambda frame: frame["type"] != "paste.done"
    with program.running():
        claude = await program.tmux.claude()
        await program.door.until_shown(claude, seconds=20)
        await program.door.paste(claude, "once", send_id=5)
        await program.door.until("paste.done", send_id=5)
        await program.kill()
    program.door.frames.clear()
    with program.running():
        done = await program.door.until("paste.done", send_id=5, seconds=20)
    assert done["outcome"] == "pasted"
    assert len(claude.seen("paste")) == 1


async def test_two_programs_of_one_tmux_never_run_together(program: MirrorProgram) -> None:
    """A second program of the same state folder exits 7 and says who runs."""
    with program.running():
        await program.door.until("windows", seconds=20)
        first = program.process
        with program.running():
            assert await program.gone() == 7
        program.process = first
    assert "in use by process" in program.told


@pytest.mark.parametrize(("code", "exit_code", "word"), [(4401, 5, "token"), (4409, 7, "Another")])
async def test_what_no_retry_mends_ends_the_program_with_a_sentence(
    program: MirrorProgram, code: int, exit_code: int, word: str
) -> None:
    """A bad token exits 5 and another program in its place 7, each with a sentence."""
    with program.running():
        await program.door.until("windows", seconds=20)
        await program.door.close(code)
        assert await program.gone() == exit_code
    assert word in program.told
    assert "Traceback" not in program.told


async def test_a_stop_ends_it_well(program: MirrorProgram) -> None:
    """SIGTERM ends the program with 0."""
    with program.running() as process:
        await program.door.until("windows", seconds=20)
        process.terminate()
        assert await program.gone() == 0
