"""What is risky meets the end of its session: it is done before that end, or not at all."""

import json
from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio

from muster.accounts import actor as accounts
from muster.accounts.operations import disable_user, lock_account
from muster.accounts.operations.passkeys import Answered
from muster.accounts.operations.sessions import (
    end_other_sessions,
    end_session,
    sign_out_everywhere,
)
from muster.accounts.operations.signing import SignInByPasskey, StepUp, step_up
from muster.accounts.operations.stepup import StepUpNeeded, after_step_up
from muster.accounts.passkeys import challenge_of, site_of
from muster.accounts.rules import Disable
from muster.drafts import operations as drafts
from muster.drafts.operations import Approve, Draft, State
from muster.errors import MusterError, Unauthorized
from muster.pg.database import Transaction
from muster.principals import Owner
from tests.support import passkey_desk
from tests.support.barrier import collide, somebody_waits
from tests.support.cluster import SpiedDatabase
from tests.support.person import add_person, open_for
from tests.support.reply_desk import ReplyDesk, open_desk
from tests.support.waiting import until

WINDOW_SECONDS = 12 * 3600
ROUNDS = 6


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


async def test_a_confirmation_that_meets_the_end_of_its_account(db: SpiedDatabase) -> None:
    """A passkey's step-up waits for whoever holds the account, and sees what they did."""
    desk = await passkey_desk.open_desk(db)
    await desk.make()
    question = await accounts.ask_to_step_up(
        db, desk.visitor, public_url=passkey_desk.PUBLIC_URL, address=desk.address
    )
    answered = Answered(
        site=site_of(passkey_desk.PUBLIC_URL),
        challenge=challenge_of(question.cookie),
        credential_id=desk.key.credential_id,
        answer=desk.key.use(json.loads(question.options)),
    )
    proof = SignInByPasskey(answered=answered, attempt_id=0, browser=desk.browser)
    command = StepUp(session_id=desk.visitor.session_id, proof=proof)
    refused = trio.Event()

    async def confirm() -> None:
        with pytest.raises(Unauthorized):
            await db.run(desk.person.owner, step_up, command)
        refused.set()

    async with trio.open_nursery() as nursery:
        async with db.transaction(desk.person.owner) as tx:
            await lock_account(tx)
            nursery.start_soon(confirm)
            await until(lambda: somebody_waits(db))
            await disable_user(tx, Disable())
        with trio.fail_after(5):
            await refused.wait()
