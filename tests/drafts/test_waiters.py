"""Parked claims: who is woken, in which order, and what a claim that leaves hands on."""

from contextlib import ExitStack

import pytest
import trio

from actors.testing import cancel_at_every_step
from muster.drafts.actor import Waiters, claim
from muster.drafts.operations import get_draft
from muster.drafts.rules import State
from muster.errors import Unauthorized
from muster.principals import Owner, Plugin
from tests.support.builders import make_chief, make_draft, make_message, make_plugin
from tests.support.cluster import SpiedDatabase
from tests.support.waiting import until

SOMEBODY = Plugin(owner_id=1, plugin_id=7, name="mail", credential_id=1)
OTHER = Plugin(owner_id=2, plugin_id=8, name="mail", credential_id=2)


async def allowed() -> None:
    """The credential is good."""


async def test_one_wake_is_one_waiter_the_longest_waiting_first() -> None:
    """Each wake goes to the waiter that was there first and was not woken yet."""
    waiters = Waiters()
    with ExitStack() as stack:
        parked = [stack.enter_context(waiters.parked(SOMEBODY, wait_seconds=25)) for _ in range(3)]
        other = stack.enter_context(waiters.parked(OTHER, wait_seconds=25))
        waiters.wake(SOMEBODY.plugin_id)
        assert [each.bell.is_set() for each in parked] == [True, False, False]
        waiters.wake(SOMEBODY.plugin_id)
        assert [each.bell.is_set() for each in parked] == [True, True, False]
        assert not other.bell.is_set()


async def test_a_waiter_that_leaves_unseeing_hands_its_wake_on() -> None:
    """A wake that its waiter did not look for goes to the next one."""
    waiters = Waiters()
    with ExitStack() as stack:
        with waiters.parked(SOMEBODY, wait_seconds=25):
            second = stack.enter_context(waiters.parked(SOMEBODY, wait_seconds=25))
            waiters.wake(SOMEBODY.plugin_id)
            assert not second.bell.is_set()
        assert second.bell.is_set()


async def test_nothing_is_kept_for_nobody() -> None:
    """A plugin without parked claims takes no room, and waking it is no error."""
    waiters = Waiters()
    with waiters.parked(SOMEBODY, wait_seconds=25):
        assert waiters.plugin_ids() == [SOMEBODY.plugin_id]
    assert waiters.plugin_ids() == []
    waiters.wake(SOMEBODY.plugin_id)


@pytest.mark.rule(63, 84)
async def test_one_approval_answers_exactly_one_of_many_claims(
    db: SpiedDatabase, owner: Owner
) -> None:
    """Ten parked claims, one approved reply: one gets it, the others wait on."""
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    message = await make_message(db, plugin, delivered_to=chief)
    waiters, answers = Waiters(), []

    async def one() -> None:
        answers.append(await claim(db, waiters, plugin, wait_seconds=25, prove=allowed))
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(one)
        await until(lambda: len(waiters.parked_for(plugin.plugin_id)) == 10)
        draft = await make_draft(db, chief, message, approved_by=owner)
        waiters.wake(plugin.plugin_id)
    assert [each.draft_id for each in answers if each is not None] == [draft.id]


@pytest.mark.rule(65)
async def test_a_claim_without_a_reply_ends_at_its_wait(db: SpiedDatabase, owner: Owner) -> None:
    """The wait is at most 2% shorter than asked for, and never longer."""
    plugin = await make_plugin(db, owner)
    begun = trio.current_time()
    assert await claim(db, Waiters(), plugin, wait_seconds=0.5, prove=allowed) is None
    assert 0.49 <= trio.current_time() - begun < 2.0


@pytest.mark.rule(61)
@pytest.mark.parametrize("asked", [25, 26, 3600, 10**400])
async def test_a_larger_wait_counts_as_25(asked: int) -> None:
    """Whatever is asked for, the wait ends within 25 seconds."""
    with Waiters().parked(SOMEBODY, wait_seconds=asked) as waiter:
        assert 24.4 < waiter.deadline - trio.current_time() <= 25


async def test_an_approval_between_look_and_wait_is_not_missed(
    db: SpiedDatabase, owner: Owner
) -> None:
    """A wake that comes during the first look leads to a second one, also with no wait at all."""
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    message = await make_message(db, plugin, delivered_to=chief)
    waiters = Waiters()
    with waiters.parked(plugin, wait_seconds=25) as first:
        await make_draft(db, chief, message, approved_by=owner)
        first.woken = True  # it leaves with a wake in hand
        async with trio.open_nursery() as nursery:
            found = []

            async def second() -> None:
                found.append(await claim(db, waiters, plugin, wait_seconds=25, prove=allowed))

            nursery.start_soon(second)
    assert found[0] is not None


async def test_doubt_ends_a_parked_claim_whose_credential_is_gone(
    db: SpiedDatabase, owner: Owner
) -> None:
    """A claim that is doubted knocks again, and ends when the door says no."""
    plugin, waiters = await make_plugin(db, owner), Waiters()

    async def refused() -> None:
        raise Unauthorized("gone")

    async with trio.open_nursery() as nursery:

        async def park() -> None:
            with pytest.raises(Unauthorized):
                await claim(db, waiters, plugin, wait_seconds=25, prove=refused)

        nursery.start_soon(park)
        await until(lambda: waiters.plugin_ids() != [])
        waiters.doubt(owner_id=owner.owner_id)


async def test_doubt_of_all_does_not_fall_on_the_database_at_once(
    db: SpiedDatabase, owner: Owner
) -> None:
    """Claims that all have to prove themselves do so one after the other, 500 a second."""
    plugin, waiters = await make_plugin(db, owner), Waiters()
    proven: list[float] = []

    async def prove() -> None:
        proven.append(trio.current_time())

    async def park() -> None:
        await claim(db, waiters, plugin, wait_seconds=25, prove=prove)

    async with trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(park)
        await until(lambda: len(waiters.parked_for(plugin.plugin_id)) == 200)
        waiters.doubt_all()
        await until(lambda: len(proven) == 200)
        nursery.cancel_scope.cancel()
    # Spread at random over 0.4 s; in one moment it would be some milliseconds.
    assert max(proven) - min(proven) > 0.2


@pytest.mark.rule(97)
async def test_a_claim_cancelled_anywhere_leaves_a_whole_lease_or_none(
    db: SpiedDatabase, owner: Owner
) -> None:
    """Wherever its client leaves, the draft is either unclaimed or leased in full."""
    plugin, chief = await make_plugin(db, owner), await make_chief(db, owner)
    waiters, drafts = Waiters(), []

    async def prepare() -> None:
        message = await make_message(db, plugin, delivered_to=chief)
        drafts.append((await make_draft(db, chief, message, approved_by=owner)).id)

    async def operation() -> None:
        await claim(db, waiters, plugin, wait_seconds=0, prove=allowed)

    async def check(completed: bool) -> None:
        assert waiters.plugin_ids() == []
        view = await db.run(owner, get_draft, drafts[-1])
        assert view.state is State.APPROVED
        assert (view.claimed_at is None) == (view.lease_expires_at is None)
        assert view.claimed_at is not None or not completed
        if view.claimed_at is not None:
            await prepare()

    await prepare()
    await cancel_at_every_step(operation, check)
