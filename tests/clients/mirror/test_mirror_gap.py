"""How long after a session left idle a paste may still begin, measured: many tries, any moment.

A session leaves idle (its owner submits a prompt, or it asks for permission) about when a text is
offered for it: before, while the host program looks, in the step of the paste, before Enter, after.
What counts is the session's own ledger: when it left idle, when the first byte of a paste came.

    python -m tests --long -n 0 --log-cli-level INFO tests/clients/mirror/test_mirror_gap.py

prints what was measured. Of the four sessions two have a window each, and two share one, so that
the work of one prints beside the other: there tmux can't tell that a pane is silent.
"""

import logging
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import attrs
import pytest
import trio

from tests.support.claude_pane import ClaudePane
from tests.support.mirror_program import MirrorProgram, program
from tests.support.waiting import dawdle, until

__all__ = ["program"]

_LOG = logging.getLogger(__name__)

TRIES = 500
LATE_SECONDS_MAX = 0.1
QUIET = timedelta(seconds=1.5)
"""So long a session is idle before a try: more than a second, as muster waits 30."""

SEED = 20


@attrs.frozen(kw_only=True)
class Try:
    """One text that was offered about when its session left idle."""

    number: int
    claude: ClaudePane
    leaves_by: str
    outcome: str
    detail: str

    @property
    def text(self) -> str:
        """What was sent."""
        return text_of(self.number)

    @property
    def late_seconds(self) -> float | None:
        """How long after the session left idle the paste began; None when it began in time."""
        (paste,) = self.claude.seen("paste", text=self.text)
        left: float | None = None
        began: float | None = None
        for line in self.claude.ledger:
            if line["mono"] > paste["mono"]:
                break
            if line["what"] == "state":
                left = None if line["to"] == "idle" else line["mono"]
            elif line["what"] == "paste_began":
                began = line["mono"]
        assert began is not None
        return None if left is None else began - left

    @property
    def pasted_count(self) -> int:
        """How often it reached the session."""
        return len(self.claude.seen("paste", text=self.text))

    @property
    def submitted_count(self) -> int:
        """How often the session took it as a prompt."""
        return sum(self.text in line["text"] for line in self.claude.seen("submitted"))


def text_of(number: int) -> str:
    """A text of its own; long enough to be proven behind what stands in the prompt line."""
    return f"try {number:04d}: do what is asked for here and then say so"


async def idle(program: MirrorProgram, claude: ClaudePane) -> None:
    """Wait until the program says that the session is idle, for a while by now."""
    await until(lambda: claude.state == "idle", 60)

    def quiet() -> bool:
        pane = program.door.pane(claude.pane)
        since = pane.get("idle_since")
        return (
            pane.get("state") == "idle" == claude.state
            and since is not None
            and datetime.now(UTC) - datetime.fromisoformat(since) >= QUIET
        )

    await until(quiet, 60)


async def one_try(
    program: MirrorProgram, claude: ClaudePane, number: int, chance: random.Random
) -> Try:
    """Offer a text, and let the session leave idle about then; wait until all is over."""
    await idle(program, claude)
    leaves_by = chance.choice(["prompt", "prompt", "prompt", "ask"])
    order = {"do": leaves_by, **({"text": f"mine {number}"} if leaves_by == "prompt" else {})}
    because = "a moment in the middle of a paste is what is looked for"
    if number % 2:
        # At tmux's own door, where the gap is: most moments before and after it miss it.
        program.race(claude, chance.choice([0, 0, 0.001, 0.003]), **order)
        offset = 0.0
    else:
        offset = chance.uniform(-0.1, 0.15) if chance.random() < 0.8 else chance.uniform(0.15, 0.8)
    if offset < 0:
        claude.tell(**order)
        await dawdle(-offset, because=because)
    await program.door.paste(claude, text_of(number), send_id=number, proof_seconds=3)
    if offset > 0:
        await dawdle(offset, because=because)
        claude.tell(**order)
    done = await program.door.until("paste.done", send_id=number, seconds=60)
    assert program.end_race(claude) or done["outcome"] == "not_begun", done
    if leaves_by == "ask":
        claude.tell(do="grant")
        claude.tell(do="stop")
    if done["outcome"] == "unconfirmed":
        # A person looks, as muster asks one to before it sends more, and sends off what is there.
        claude.tell(do="prompt", text="")
    return Try(
        number=number, claude=claude, leaves_by=leaves_by,
        outcome=done["outcome"], detail=done["detail"],
    )  # fmt: skip


def facts(tries: list[Try]) -> Iterator[str]:
    """What was measured, a line each."""
    ends = Counter((each.leaves_by, each.outcome) for each in tries)
    for (leaves_by, outcome), count in sorted(ends.items()):
        yield f"left idle by {leaves_by}: {count} {outcome}"
    late = sorted(
        (each.late_seconds * 1000, each.outcome)
        for each in tries
        if each.pasted_count and each.late_seconds is not None
    )
    told = Counter(outcome for _, outcome in late)
    yield f"{len(late)} of {len(tries)} began after their session had left idle: {dict(told)}"
    if late:
        milliseconds = [each for each, _ in late]
        middle, most = milliseconds[len(late) // 2], milliseconds[-1]
        yield f"they were late by {middle:.1f} ms in the middle, {most:.1f} ms at most"
    reasons = Counter(each.detail for each in tries if each.detail)
    yield from (f"{count} x {reason}" for reason, count in reasons.most_common())


@pytest.mark.long
async def test_no_paste_begins_long_after_its_session_left_idle(program: MirrorProgram) -> None:
    """None begins 100 ms late, and whatever the moment: proven, unconfirmed or not begun, once."""
    tries: list[Try] = []

    async def some(claude: ClaudePane, first: int) -> None:
        chance = random.Random(f"{SEED} {first}")
        numbers = range(first, TRIES + 1, 4)
        tries.extend([await one_try(program, claude, number, chance) for number in numbers])

    with program.running():
        turns = ("--stand-in-turn", "0.3")
        claudes = [await program.tmux.claude(*turns) for _ in range(3)]
        claudes.append(await program.tmux.claude(*turns, split=claudes[-1].pane))
        async with trio.open_nursery() as nursery:
            for first, claude in enumerate(claudes, start=1):
                nursery.start_soon(some, claude, first)
        for claude in claudes:
            await until(lambda claude=claude: claude.state == "idle", 20)  # type: ignore[misc]
    for line in facts(tries):
        _LOG.info(line)
    assert len(tries) == TRIES
    for each in tries:
        assert each.pasted_count == (each.outcome != "not_begun"), each
        assert each.submitted_count <= 1, each
        assert each.submitted_count == 1 or each.outcome != "pasted", each
        if each.pasted_count and each.late_seconds is not None:
            assert each.late_seconds <= LATE_SECONDS_MAX, each
    answered = [line for claude in claudes for line in claude.seen("key", state="waiting")]
    assert answered == [], "an Enter said yes to a permission prompt"
