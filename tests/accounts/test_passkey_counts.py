"""What strangers try from one's address keeps nobody from their passkey."""

import json

import attrs
import pytest

from muster.accounts import actor as accounts
from muster.accounts.operations.attempts import BeginAttempt, begin_attempt
from muster.accounts.operations.challenges import LIVE_AN_ADDRESS_MAX
from muster.accounts.operations.sessions import Opened
from muster.accounts.rules.attempts import ACCOUNT_FAILURES_MAX, ADDRESS_FAILURES_MAX, account_key
from muster.errors import TooMany, Unauthorized
from muster.principals import Node
from tests.support.authenticator import RIGHT, Faults
from tests.support.cluster import SpiedDatabase
from tests.support.passkey_desk import PUBLIC_URL, Desk, open_desk, visitor_of
from tests.support.person import add_person, open_for


@pytest.fixture
async def desk(db: SpiedDatabase) -> Desk:
    """A desk whose authenticator has a passkey."""
    desk = await open_desk(db)
    await desk.make()
    return desk


async def shut(desk: Desk) -> None:
    """Let strangers at the desk's address, a proxy's, use up what it may try and ask."""
    for number in range(ADDRESS_FAILURES_MAX):
        guess = BeginAttempt(account=account_key(f"guess-{number}"), address=desk.address)
        await desk.db.run(Node(), begin_attempt, guess)
    for _ in range(LIVE_AN_ADDRESS_MAX):
        await desk.ask()


async def step_up_by(desk: Desk, faults: Faults = RIGHT) -> None:
    """Prove anew who they are, by their passkey."""
    question = await accounts.ask_to_step_up(
        desk.db, desk.visitor, public_url=PUBLIC_URL, address=desk.address
    )
    await accounts.step_up_with_passkey(
        desk.db,
        desk.visitor,
        public_url=PUBLIC_URL,
        answer=desk.key.use(json.loads(question.options), faults),
        cookie=question.cookie,
        browser=desk.browser,
    )


async def test_strangers_shut_no_session_out_of_its_step_up(desk: Desk) -> None:
    """What others try from a proxy's address keeps nobody from confirming; one's own tries do."""
    await shut(desk)
    await step_up_by(desk)
    for _ in range(ACCOUNT_FAILURES_MAX):
        with pytest.raises(Unauthorized):
            await step_up_by(desk, Faults(other_key=True))
    with pytest.raises(TooMany):
        await step_up_by(desk)


async def test_strangers_shut_no_passkey_out_of_a_known_browser(desk: Desk) -> None:
    """A browser that was signed in once asks and answers on its own count, others by address."""
    opened = await open_for(desk.db, desk.person)
    other = await open_for(desk.db, await add_person(desk.db))

    async def enter(known_by: str, *, asks_by: str) -> Opened:
        question = await accounts.ask_to_sign_in(
            desk.db, public_url=PUBLIC_URL, address=desk.address, known_by=asks_by
        )
        return await accounts.sign_in_with_passkey(
            desk.db,
            public_url=PUBLIC_URL,
            answer=desk.key.use(json.loads(question.options)),
            cookie=question.cookie,
            browser=attrs.evolve(desk.browser, known_by=known_by),
        )

    await shut(desk)
    for unknown in ("", "x" * 43):
        with pytest.raises(TooMany):
            await enter(unknown, asks_by=unknown)
        with pytest.raises(TooMany):
            await enter(unknown, asks_by=opened.cookie)
    with pytest.raises(TooMany):
        await enter(other.cookie, asks_by=other.cookie)  # known, and not as whose passkey it is
    entered = await enter(opened.cookie, asks_by=opened.cookie)
    assert (await visitor_of(desk.db, entered)).name == desk.person.name
