"""Strangers who guess an owner's password keep no browser out that the owner has used."""

from datetime import timedelta

import attrs
import pytest

from muster.accounts import actor as accounts
from muster.accounts.operations.attempts import BeginAttempt, begin_attempt
from muster.accounts.operations.sessions import (
    Opened,
    Visitor,
    end_session,
    knock_session,
    sign_out_everywhere,
)
from muster.accounts.rules.attempts import ACCOUNT_FAILURES_MAX, WINDOW, account_key, session_keys
from muster.accounts.rules.signing import Browser
from muster.errors import TooMany, Unauthorized
from muster.principals import Node, System
from tests.support.cluster import SpiedDatabase
from tests.support.desk import OpenDesk
from tests.support.person import PASSWORD, Person, add_person, open_for
from tests.support.visitor import page_client


@pytest.fixture
async def ada(db: SpiedDatabase) -> Person:
    """Somebody with a password."""
    return await add_person(db)


def browser_of(person: Person, known_by: str = "") -> Browser:
    """A browser at an address of this person's own."""
    address = f"2001:db8:7:{person.owner.owner_id:x}::1"
    return Browser(user_agent="tests", address=address, known_by=known_by)


async def enter(
    db: SpiedDatabase, ada: Person, password: str = PASSWORD, *, known_by: str = ""
) -> Opened:
    """Sign in by this name and password."""
    return await accounts.sign_in_with_password(
        db, name=ada.name, password=password, browser=browser_of(ada, known_by)
    )


async def shut(db: SpiedDatabase, ada: Person) -> None:
    """Guess until nobody may try this name."""
    guess = BeginAttempt(account=account_key(ada.name), address=browser_of(ada).address)
    for _ in range(ACCOUNT_FAILURES_MAX):
        await db.run(Node(), begin_attempt, guess)


async def visitor_of(db: SpiedDatabase, opened: Opened) -> Visitor:
    """Who comes with this session's cookie."""
    async with db.transaction(System(), look=True) as tx:
        visitor = await knock_session(tx, opened.cookie)
    assert visitor is not None
    return visitor


async def test_a_browser_that_was_here_is_not_kept_out(db: SpiedDatabase, ada: Person) -> None:
    """While a name is shut, its owner signs in where they signed in once, also after signing out.

    Where they never did they wait, and a cookie of another account is no help.
    """
    opened = await enter(db, ada)
    other = await add_person(db)
    theirs = await open_for(db, other)
    await shut(db, ada)
    for known_by in ("", "x" * 43, theirs.cookie):
        with pytest.raises(TooMany):
            await enter(db, ada, known_by=known_by)
    await enter(db, ada, known_by=opened.cookie)
    await db.run(ada.owner, end_session, opened.session_id)
    await enter(db, ada, known_by=opened.cookie)
    await db.run(ada.owner, sign_out_everywhere, None)
    await enter(db, ada, known_by=opened.cookie)


async def test_a_known_browser_has_a_count_of_its_own(db: SpiedDatabase, ada: Person) -> None:
    """Its guesses are limited as a name's are, and are counted against nobody else."""
    opened, second = await enter(db, ada), await enter(db, ada)
    for _ in range(ACCOUNT_FAILURES_MAX):
        with pytest.raises(Unauthorized):
            await enter(db, ada, "wrong", known_by=opened.cookie)
    with pytest.raises(TooMany):
        await enter(db, ada, known_by=opened.cookie)
    await enter(db, ada, known_by=second.cookie)
    await enter(db, ada)
    db.clock_offset += WINDOW
    await enter(db, ada, known_by=opened.cookie)


async def test_a_session_steps_up_while_its_name_is_shut(db: SpiedDatabase, ada: Person) -> None:
    """Strangers' guesses keep nobody from proving anew who they are; the session's own do."""
    visitor = await visitor_of(db, await enter(db, ada))
    address = browser_of(ada).address
    await shut(db, ada)
    await accounts.step_up_with_password(db, visitor, password=PASSWORD, address=address)
    for _ in range(ACCOUNT_FAILURES_MAX):
        with pytest.raises(Unauthorized):
            await accounts.step_up_with_password(db, visitor, password="wrong", address=address)
    elsewhere = attrs.evolve(browser_of(ada), address="192.0.2.9").address
    with pytest.raises(TooMany):
        await accounts.step_up_with_password(db, visitor, password=PASSWORD, address=elsewhere)
    db.clock_offset += WINDOW + timedelta(seconds=1)
    await accounts.step_up_with_password(db, visitor, password=PASSWORD, address=address)


@pytest.mark.parametrize("typed", ["session 7", "\0session 7", "\0\0session 7"])
async def test_no_name_reaches_the_count_of_a_browser(db: SpiedDatabase, typed: str) -> None:
    """Whatever a stranger types for a name, no known browser is counted by it."""
    account, _ = session_keys(7)
    assert account_key(typed.replace("\0", "")) != account


async def test_the_pages_keep_a_browser_known(desk: OpenDesk) -> None:
    """The cookie stays when its browser signs out, opens nothing, and lets its owner in."""
    async with desk() as at:
        ada = await add_person(at.db)
        form = {"name": ada.name, "password": PASSWORD}
        async with page_client(at.server) as client:
            first = await client.post("/sign-in", data=form)
            known = first.cookies["muster_known"]
            assert first.status_code == 303
            await client.post("/sign-out", data={})
            assert (await client.get("/settings")).headers["location"].startswith("/sign-in")
            await shut(at.db, ada)
            assert client.cookies["muster_known"] == known
            assert (await client.post("/sign-in", data=form)).status_code == 303
        async with page_client(at.server) as stranger:
            assert (await stranger.post("/sign-in", data=form)).status_code == 429
            nobody = {"name": "nobody-at-all", "password": "x"}
            stranger.cookies.set("muster_known", known)
            assert (await stranger.post("/sign-in", data=nobody)).status_code == 401
