"""What is risky meets the end of its session: it is done before that end, or not at all."""

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio

from muster.accounts.operations import disable_user, lock_account
from muster.accounts.operations.sessions import (
    end_other_sessions,
    end_session,
    sign_out_everywhere,
)
from muster.accounts.operations.stepup import StepUpNeeded, after_step_up
from muster.accounts.rules import Disable
from muster.drafts import operations as drafts
from muster.drafts.operations import Approve, Draft, State
from muster.errors import MusterError
from muster.pg.database import Transaction
from muster.pg.query import Query
from muster.principals import Owner, System
from tests.support.barrier import collide
from tests.support.cluster import SpiedDatabase
from tests.support.person import add_person, open_for
from tests.support.reply_desk import ReplyDesk, open_desk
from tests.support.waiting import until

WINDOW_SECONDS = 12 * 3600
ROUNDS = 6
SOMEBODY_WAITS = Query("""
    select exists (
        select from pg_catalog.pg_locks l
        join pg_catalog.pg_stat_activity s on s.pid = l.pid
        where not l.granted and s.datname = current_database()
    )
""")


@attrs.frozen(kw_only=True)
class Sitting:
    """An owner with a draft to decide on, and the session in which they do."""

    desk: ReplyDesk
    session_id: int
    draft: Draft

    @property
    def owner(self) -> Owner:
        """Who decides."""
        return self.desk.owner

    async def approve(self, tx: Transaction) -> object:
        """Let the draft go, as its card does: behind step-up, in one transaction."""
        guarded = after_step_up(
            drafts.approve, session_id=self.session_id, window_seconds=WINDOW_SECONDS
        )
        return await guarded(tx, Approve(draft_id=self.draft.id))

    async def state(self) -> State:
        """The draft's state now."""
        return (await self.desk.view(self.draft.id)).state


Ending = Callable[[Transaction, Sitting], Awaitable[object]]

ENDINGS: dict[str, Ending] = {
    "this session is revoked": lambda tx, sitting: end_session(tx, sitting.session_id),
    "the other sessions are ended": lambda tx, _: end_other_sessions(tx, 0),
    "sign-out everywhere": lambda tx, _: sign_out_everywhere(tx),
    "the account is disabled": lambda tx, _: disable_user(tx, Disable()),
}


async def sit(db: SpiedDatabase) -> Sitting:
    """Somebody new who has just signed in, with a draft that awaits them."""
    person = await add_person(db)
    desk = await open_desk(db, person.owner)
    opened = await open_for(db, person)
    return Sitting(desk=desk, session_id=opened.session_id, draft=await desk.draft())


async def somebody_waits(db: SpiedDatabase) -> bool:
    """Whether a transaction waits for another's lock."""
    async with db.transaction(System(), look=True) as tx:
        return await tx.scalar(SOMEBODY_WAITS) is True


@pytest.mark.rule(262)
@pytest.mark.parametrize("how", ENDINGS)
async def test_a_decision_that_comes_while_its_session_ends(db: SpiedDatabase, how: str) -> None:
    """A decision waits for an end that is under way, and then decides nothing."""
    sitting = await sit(db)
    refused = trio.Event()

    async def decide() -> None:
        with pytest.raises(StepUpNeeded):
            async with db.transaction(sitting.owner) as tx:
                await sitting.approve(tx)
        refused.set()

    async with trio.open_nursery() as nursery:
        async with db.transaction(sitting.owner) as tx:
            await ENDINGS[how](tx, sitting)
            nursery.start_soon(decide)
            await until(lambda: somebody_waits(db))
        with trio.fail_after(5):
            await refused.wait()
    assert await sitting.state() is State.PENDING


@pytest.mark.rule(262)
@pytest.mark.parametrize("how", ENDINGS)
async def test_a_session_that_ends_while_it_decides(db: SpiedDatabase, how: str) -> None:
    """An end waits for the decision that came first, even one that needs the account's row."""
    sitting = await sit(db)
    ended = trio.Event()

    async def end() -> None:
        async with db.transaction(sitting.owner) as tx:
            await ENDINGS[how](tx, sitting)
        ended.set()

    async with trio.open_nursery() as nursery:
        async with db.transaction(sitting.owner) as tx:
            await sitting.approve(tx)
            nursery.start_soon(end)
            await until(lambda: somebody_waits(db))
            await lock_account(tx)
            assert not ended.is_set()
        with trio.fail_after(5):
            await ended.wait()
    assert await sitting.state() is State.APPROVED
    with pytest.raises(StepUpNeeded):
        async with db.transaction(sitting.owner) as tx:
            await sitting.approve(tx)


@pytest.mark.rule(262)
@pytest.mark.parametrize("how", ENDINGS)
async def test_a_decision_and_an_end_at_one_moment(db: SpiedDatabase, how: str) -> None:
    """Whichever comes first, both end plainly, and a refused decision left the draft as it was."""
    for _ in range(ROUNDS):
        sitting = await sit(db)
        decided, ended = await collide(
            db,
            (sitting.owner, sitting.approve),
            (sitting.owner, lambda tx, at=sitting: ENDINGS[how](tx, at)),  # type: ignore[misc]
        )
        assert not isinstance(ended, MusterError), ended
        if isinstance(decided, MusterError):
            assert isinstance(decided, StepUpNeeded), decided
            assert await sitting.state() is State.PENDING
        else:
            assert await sitting.state() is State.APPROVED
