"""The table of rows, and how they are run."""

from collections.abc import Awaitable, Callable, Sequence

import attrs
import trio

from muster.clients.plugin_test import killing, posting, sending
from muster.clients.plugin_test.stage import Broken, Stage, open_stage

ROW_SECONDS_MAX = 300.0


@attrs.frozen(kw_only=True)
class Row:
    """One duty and how it is tried."""

    name: str
    duty: str
    run: Callable[[Stage], Awaitable[None]]


@attrs.frozen(kw_only=True)
class Found:
    """What came of a row; `broken` says how the duty was not kept."""

    row: Row
    broken: str | None
    notes: tuple[str, ...]
    seconds: float
    last_words: str

    @property
    def passed(self) -> bool:
        """Whether the duty was kept."""
        return self.broken is None


def _row(name: str, duty: str, run: Callable[[Stage], Awaitable[None]]) -> Row:
    return Row(name=name, duty=duty, run=run)


ROWS: tuple[Row, ...] = (
    _row("post", "each message comes once, under one external_id", posting.posts),
    _row("post-lost", "a post whose answer was lost is sent again", posting.answer_lost),
    _row("post-killed", "killed before a post's answer: it is sent again", posting.killed_in_post),
    _row("post-429", "Retry-After of a 429 is obeyed", posting.too_many),
    _row("post-503", "on 5xx the cursor stands still, over a kill too", posting.cursor_still),
    _row("over-size", "a message that is refused holds up no other", posting.over_size),
    _row("token-dead", "a 401 is not knocked at again and again", posting.token_dead),
    _row("send", "an approved reply is sent once, word for word, and reported", sending.sends),
    _row("claim-lost", "after a claim's lost answer the next claim", sending.claim_lost),
    _row("claim-429", "Retry-After at a claim is obeyed", sending.claim_too_many),
    _row("claim-late", "a claim's answer is waited for, its wait and 10 s", sending.claim_late),
    _row("result-lost", "a result whose answer was lost is repeated", sending.result_lost),
    _row("result-503", "a result is repeated after Retry-After", sending.result_later),
    _row("result-409", "a 409 to a result is final", sending.result_conflict),
    _row("offered-twice", "a draft_id is sent once, even offered twice", sending.same_draft_twice),
    *(
        _row(
            f"kill-{int(after * 1000)}ms",
            f"killed {int(after * 1000)} ms after a claim: sent at most once",
            killing.killed_after_claim(after),
        )
        for after in (0.0, 0.003, 0.01, 0.03, 0.1)
    ),
    _row("kill-sent", "killed as the reply is out: sent once", killing.killed_at_send),
    _row("kill-result", "killed as its result arrives: sent once", killing.killed_at_result),
    _row("kill-reported", "killed when it is reported: sent once", killing.killed_after_result),
    _row("stop", "SIGTERM while it waits: ends by itself", killing.stops_idle),
    _row("stop-busy", "SIGTERM with a reply in hand: ends, sent at most once", killing.stops_busy),
)


async def run_rows(
    command: Sequence[str],
    rows: Sequence[Row],
    *,
    patience_seconds: float,
    jobs: int,
    tell: Callable[[Found], None],
) -> list[Found]:
    """Run `rows`, `jobs` at once; what came of each, in their order.

    Raises OSError when `command` can't be started. A row that waits for something ends after
    `patience_seconds`.
    """
    limit = trio.CapacityLimiter(jobs)
    found: dict[str, Found] = {}

    async def run_one(row: Row) -> None:
        async with limit:
            found[row.name] = await _run_row(command, row, patience_seconds=patience_seconds)
            tell(found[row.name])

    try:
        async with trio.open_nursery() as nursery:
            for row in rows:
                nursery.start_soon(run_one, row)
    except* OSError as group:
        raise _first_of(group) from None
    return [found[row.name] for row in rows]


async def _run_row(command: Sequence[str], row: Row, *, patience_seconds: float) -> Found:
    began = trio.current_time()
    async with open_stage(command, patience_seconds=patience_seconds) as stage:
        broken = None
        with trio.move_on_after(ROW_SECONDS_MAX) as bounded:
            try:
                await row.run(stage)
            except Broken as error:
                broken = str(error)
        if bounded.cancelled_caught:
            broken = f"the row did not end within {ROW_SECONDS_MAX:g} s"
        await stage.child.close()
        last_words = await trio.to_thread.run_sync(stage.child.last_words)
    return Found(
        row=row,
        broken=broken,
        notes=tuple(stage.notes),
        seconds=trio.current_time() - began,
        last_words=last_words,
    )


def _first_of(group: BaseExceptionGroup[OSError]) -> OSError:
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    assert isinstance(first, OSError)
    return first
