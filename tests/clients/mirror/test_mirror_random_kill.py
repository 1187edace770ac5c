"""The real host program, killed at random moments of a paste, again and again: never typed twice.

test_mirror_kill.py kills it at each step; this one asks the moments between.

    python -m tests --long -n 0 --log-cli-level INFO tests/clients/mirror/test_mirror_random_kill.py
"""

import logging
import random
from collections import Counter

import pytest

from tests.support.claude_pane import ClaudePane
from tests.support.mirror_program import MirrorProgram, program
from tests.support.waiting import dawdle, until

__all__ = ["program"]

_LOG = logging.getLogger(__name__)

KILLS = 100
KILL_SECONDS_MAX = 0.6
"""From the order to Enter and its proof it takes about half a second."""

SEED = 20


async def shown(program: MirrorProgram, claude: ClaudePane, connection: int) -> None:
    """Wait until the program of this connection says that the session is idle."""
    await program.door.until("hello", connection=connection, seconds=20)
    await until(lambda: claude.state == "idle", 20)
    await program.door.until_shown(claude, seconds=30)


async def ended(program: MirrorProgram, claude: ClaudePane, number: int) -> str:
    """Offer the send until it has an end, as muster does with what was not begun."""
    connection = len(program.door.sockets)
    while True:
        await shown(program, claude, connection)
        said = len(program.door.seen("paste.done", connection=connection, send_id=number))
        await program.door.paste(claude, f"send {number}", send_id=number)

        def answered(said: int = said) -> str | None:
            done = program.door.seen("paste.done", connection=connection, send_id=number)
            return done[-1]["outcome"] if len(done) > said else None

        outcome = str(await until(answered, 30))
        if outcome != "not_begun":
            return outcome


@pytest.mark.long
async def test_a_kill_at_any_moment_never_types_twice(program: MirrorProgram) -> None:
    """Offered again after each kill, every text comes to an end, and reaches the session once."""
    chance = random.Random(SEED)
    claude = await program.tmux.claude("--stand-in-turn", "0.1")
    ends: Counter[str] = Counter()
    for number in range(1, KILLS + 1):
        with program.running():
            connection = len(program.door.sockets) + 1
            await shown(program, claude, connection)
            await program.door.paste(claude, f"send {number}", send_id=number)
            moment = KILL_SECONDS_MAX * chance.random() ** 2
            await dawdle(moment, because="any moment of the paste is what is asked for")
            await program.kill()
        before = len(claude.seen("paste", text=f"send {number}"))
        with program.running():
            await program.door.until("hello", connection=connection + 1, seconds=20)
            outcome = await ended(program, claude, number)
        ends[f"{outcome}, {'typed' if before else 'not typed'} before the kill"] += 1
        pasted = len(claude.seen("paste", text=f"send {number}"))
        assert pasted <= 1, (number, moment)
        assert pasted == 1 or outcome == "unconfirmed", (number, moment)
        if outcome == "unconfirmed":
            # A person looks, and sends off what stands in the prompt line.
            claude.tell(do="prompt", text="")
        else:
            assert len(claude.seen("submitted", text=f"send {number}")) == 1, (number, moment)
    for told, count in sorted(ends.items()):
        _LOG.info("%d %s", count, told)
