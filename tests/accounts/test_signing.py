"""Signing in by a password on the database: what is counted, compared, kept and raced."""

import threading
from datetime import timedelta

import argon2
import pytest
import trio

from muster.accounts import actor as accounts
from muster.accounts import passwords
from muster.accounts.operations.attempts import BeginAttempt, begin_attempt
from muster.accounts.operations.sessions import (
    Visitor,
    knock_session,
    list_sessions,
    sign_out_everywhere,
)
from muster.accounts.operations.signing import read_hash
from muster.accounts.operations.stepup import (
    StepUpNeeded,
    after_step_up,
    confirm_fresh,
)
from muster.accounts.rules.attempts import ACCOUNT_FAILURES_MAX, ADDRESS_FAILURES_MAX, account_key
from muster.accounts.rules.signing import Browser
from muster.errors import MusterError, TooMany, Unauthorized
from muster.outcomes import HintKind
from muster.pg.query import Query
from muster.principals import Node, System
from tests.support.barrier import collide
from tests.support.builders import disable, read_audit
from tests.support.cluster import SpiedDatabase
from tests.support.person import PASSWORD, Person, add_person, open_for

WINDOW_SECONDS = 12 * 60 * 60
FAILED = Query("select count(*) from sign_in_attempts where account = %(account)s and failed")
ALL = Query("select count(*) from sign_in_attempts where account = %(account)s")


@pytest.fixture
async def ada(db: SpiedDatabase) -> Person:
    """Somebody with a password."""
    return await add_person(db)


def browser_of(person: Person) -> Browser:
    """A browser at an address of this person's own."""
    return Browser(user_agent="tests", address=f"2001:db8:0:{person.owner.owner_id:x}::1")


async def enter(db: SpiedDatabase, person: Person, password: str = PASSWORD) -> Visitor:
    """Sign in, and knock with the cookie."""
    opened = await accounts.sign_in_with_password(
        db, name=person.name, password=password, browser=browser_of(person)
    )
    async with db.transaction(System(), look=True) as tx:
        visitor = await knock_session(tx, opened.cookie)
    assert visitor is not None
    return visitor


async def count(db: SpiedDatabase, query: Query, person: Person) -> int:
    """How many attempts there are."""
    async with db.transaction(Node()) as tx:
        found: int = await tx.scalar(query, account=account_key(person.name))
    return found


async def test_signing_in_leaves_its_marks(db: SpiedDatabase, ada: Person) -> None:
    """A sign-in is a session, a fact, and an attempt that counts against nobody."""
    visitor = await enter(db, ada)
    assert (visitor.name, visitor.owner_id) == (ada.name, ada.owner.owner_id)
    assert visitor.signed_in_at == visitor.last_seen_at
    (fact,) = await read_audit(db, ada.owner, "user.signed_in")
    assert (fact.data, fact.via) == ({"method": "password"}, "browser")
    assert (await count(db, ALL, ada), await count(db, FAILED, ada)) == (1, 0)


async def test_every_name_costs_one_hash(
    db: SpiedDatabase, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown name, a wrong password, a disabled and a passwordless account cost the same."""
    gone, keyless = await add_person(db), await add_person(db, password=None)
    await disable(db, gone.owner)
    compared: list[str] = []
    compare = passwords._compare

    def counted(password_hash: str, encoded: bytes) -> bool:
        compared.append(password_hash)
        return compare(password_hash, encoded)

    monkeypatch.setattr(passwords, "_compare", counted)
    sentences = set()
    for name, password in (
        (ada.name, "wrong-password"),
        ("nobody-here", PASSWORD),
        (gone.name, PASSWORD),
        (keyless.name, PASSWORD),
        (ada.name, "x" * 5000),
    ):
        with pytest.raises(Unauthorized) as caught:
            await accounts.sign_in_with_password(
                db, name=name, password=password, browser=browser_of(ada)
            )
        sentences.add((caught.value.sentence, caught.value.code))
    assert len(sentences) == 1
    assert len(compared) == 5
    assert compared[1:4] == [passwords.NOBODYS] * 3


async def test_two_hashes_at_once_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many sign in at a moment, two passwords are compared at once."""
    lock, running, most = threading.Lock(), 0, 0
    compare = passwords._compare

    def watched(password_hash: str, encoded: bytes) -> bool:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        right = compare(password_hash, encoded)
        with lock:
            running -= 1
        return right

    monkeypatch.setattr(passwords, "_compare", watched)
    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(passwords.verify_password, None, PASSWORD)
    assert most == 2


def test_the_hash_of_nobody_costs_what_others_do() -> None:
    """The hash that stands for no account has today's parameters, so comparing it takes as long."""
    assert not argon2.PasswordHasher().check_needs_rehash(passwords.NOBODYS)


async def test_an_old_hash_is_renewed(db: SpiedDatabase, ada: Person) -> None:
    """A hash of other parameters is replaced at a sign-in, and the password stays the same."""
    async with db.transaction(ada.owner) as tx:
        old = await read_hash(tx)
    await enter(db, ada)
    async with db.transaction(ada.owner) as tx:
        new = await read_hash(tx)
    assert old is not None
    assert new is not None
    assert argon2.PasswordHasher().check_needs_rehash(old)
    assert not argon2.PasswordHasher().check_needs_rehash(new)
    await enter(db, ada)
    async with db.transaction(ada.owner) as tx:
        assert await read_hash(tx) == new


async def test_a_password_that_was_changed_meanwhile(
    db: SpiedDatabase, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password that was right when it was compared opens nothing once it was changed."""
    visitor = await enter(db, ada)
    verify = passwords.verify_password

    async def slow(password_hash: str | None, text: str) -> passwords.Verdict:
        verdict = await verify(password_hash, text)
        await accounts.change_password(
            db, visitor, password="another password", window_seconds=WINDOW_SECONDS
        )
        return verdict

    monkeypatch.setattr(accounts, "verify_password", slow)
    with pytest.raises(Unauthorized):
        await enter(db, ada)


async def test_a_disabled_account_is_shut_meanwhile(
    db: SpiedDatabase, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An account that is disabled while its password is compared is not entered."""
    verify = passwords.verify_password

    async def slow(password_hash: str | None, text: str) -> passwords.Verdict:
        verdict = await verify(password_hash, text)
        await disable(db, ada.owner)
        return verdict

    monkeypatch.setattr(accounts, "verify_password", slow)
    with pytest.raises(Unauthorized):
        await enter(db, ada)


async def test_the_window_slides(db: SpiedDatabase, ada: Person) -> None:
    """As failures leave the window, as many attempts are free again; a refused one is no row."""
    attempt = BeginAttempt(account=account_key(ada.name), address=browser_of(ada).address)
    for _ in range(ACCOUNT_FAILURES_MAX):
        await db.run(Node(), begin_attempt, attempt)
        db.clock_offset += timedelta(seconds=60)
    for _ in range(3):
        with pytest.raises(TooMany) as caught:
            await db.run(Node(), begin_attempt, attempt)
    assert 299 <= caught.value.retry_after_seconds <= 300
    assert await count(db, FAILED, ada) == ACCOUNT_FAILURES_MAX
    db.clock_offset += timedelta(seconds=caught.value.retry_after_seconds)
    await db.run(Node(), begin_attempt, attempt)
    with pytest.raises(TooMany):
        await db.run(Node(), begin_attempt, attempt)


async def test_an_address_is_limited_over_all_names(db: SpiedDatabase, ada: Person) -> None:
    """An address that tries many names is stopped; another address is not."""
    address = browser_of(ada).address
    for number in range(ADDRESS_FAILURES_MAX):
        attempt = BeginAttempt(account=account_key(f"{ada.name}-{number}"), address=address)
        await db.run(Node(), begin_attempt, attempt)
    fresh = account_key(f"{ada.name}-fresh")
    with pytest.raises(TooMany):
        await db.run(Node(), begin_attempt, BeginAttempt(account=fresh, address=address))
    other = f"2001:db8:1:{ada.owner.owner_id:x}::1"
    await db.run(Node(), begin_attempt, BeginAttempt(account=fresh, address=other))


async def test_a_name_is_counted_as_it_is_looked_up(db: SpiedDatabase, ada: Person) -> None:
    """A name that is typed with NULs among its letters has no attempts of its own."""
    for number in range(ACCOUNT_FAILURES_MAX):
        typed = ada.name[:3] + "\0" * number + ada.name[3:] + "\0" * number
        with pytest.raises(Unauthorized):
            await accounts.sign_in_with_password(
                db, name=typed, password="wrong", browser=browser_of(ada)
            )
    assert await count(db, FAILED, ada) == ACCOUNT_FAILURES_MAX
    with pytest.raises(TooMany):
        await accounts.sign_in_with_password(
            db, name=f"\0{ada.name}", password=PASSWORD, browser=browser_of(ada)
        )


async def test_two_attempts_at_the_limit(db: SpiedDatabase, ada: Person) -> None:
    """Of two attempts at once where one is left, one is taken."""
    attempt = BeginAttempt(account=account_key(ada.name), address=browser_of(ada).address)
    for _ in range(ACCOUNT_FAILURES_MAX - 1):
        await db.run(Node(), begin_attempt, attempt)
    outcomes = await collide(
        db,
        (Node(), lambda tx: begin_attempt(tx, attempt)),
        (Node(), lambda tx: begin_attempt(tx, attempt)),
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["TooMany", "int"]


async def test_guesses_that_come_at_once_are_counted(db: SpiedDatabase, ada: Person) -> None:
    """Of many guesses at one moment no more are compared than are allowed."""
    outcomes: list[MusterError] = []

    async def guess(number: int) -> None:
        try:
            await enter(db, ada, f"wrong-password-{number}")
        except MusterError as error:
            outcomes.append(error)

    async with trio.open_nursery() as nursery:
        for number in range(ACCOUNT_FAILURES_MAX + 4):
            nursery.start_soon(guess, number)
    refused = [type(outcome) for outcome in outcomes]
    assert refused.count(Unauthorized) == ACCOUNT_FAILURES_MAX
    assert refused.count(TooMany) == 4


@pytest.mark.rule(262)
async def test_stepping_up(db: SpiedDatabase, ada: Person) -> None:
    """What is risky is refused when the sign-in is old; proving anew makes the session fresh."""
    visitor = await enter(db, ada)
    guarded = after_step_up(
        confirm_fresh, session_id=visitor.session_id, window_seconds=WINDOW_SECONDS
    )
    await db.run(ada.owner, guarded, None)
    db.clock_offset += timedelta(hours=12)
    with pytest.raises(StepUpNeeded) as caught:
        await db.run(ada.owner, guarded, None)
    assert caught.value.code == "step_up_needed"
    address = browser_of(ada).address
    with pytest.raises(Unauthorized):
        await accounts.step_up_with_password(db, visitor, password="wrong", address=address)
    with pytest.raises(StepUpNeeded):
        await db.run(ada.owner, guarded, None)
    await accounts.step_up_with_password(db, visitor, password=PASSWORD, address=address)
    await db.run(ada.owner, guarded, None)
    facts = await read_audit(db, ada.owner, "user.stepped_up")
    assert [fact.subject for fact in facts] == [f"session:{visitor.session_id}"]


@pytest.mark.rule(262)
async def test_a_fresh_session_of_another_is_not_ones_own(db: SpiedDatabase, ada: Person) -> None:
    """A step-up counts for its own session and owner alone."""
    other = await add_person(db)
    theirs = await open_for(db, other)
    guarded = after_step_up(
        confirm_fresh, session_id=theirs.session_id, window_seconds=WINDOW_SECONDS
    )
    await db.run(other.owner, guarded, None)
    with pytest.raises(StepUpNeeded):
        await db.run(ada.owner, guarded, None)


@pytest.mark.rule(262)
async def test_an_ended_session_steps_up_no_more(db: SpiedDatabase, ada: Person) -> None:
    """A session that ended, or whose account was disabled, does nothing risky."""
    visitor = await enter(db, ada)
    guarded = after_step_up(
        confirm_fresh, session_id=visitor.session_id, window_seconds=WINDOW_SECONDS
    )
    second = await add_person(db)
    opened = await open_for(db, second)
    await disable(db, second.owner)
    shut = after_step_up(confirm_fresh, session_id=opened.session_id, window_seconds=WINDOW_SECONDS)
    with pytest.raises(StepUpNeeded):
        await db.run(second.owner, shut, None)
    await accounts.sign_in_with_password(
        db,
        name=ada.name,
        password=PASSWORD,
        browser=Browser(user_agent="", address="", former_session_id=visitor.session_id),
    )
    with pytest.raises(StepUpNeeded):
        await db.run(ada.owner, guarded, None)
    with pytest.raises(Unauthorized):
        await accounts.step_up_with_password(db, visitor, password=PASSWORD, address="")


async def test_a_new_password_ends_other_sessions(db: SpiedDatabase, ada: Person) -> None:
    """Changing the password keeps this session and ends the others, whose streams are told."""
    visitor, other = await enter(db, ada), await open_for(db, ada)
    db.touched.clear()
    changed = await accounts.change_password(
        db, visitor, password="a new password", window_seconds=WINDOW_SECONDS
    )
    assert changed == 1
    assert [(hint.kind, hint.id) for hint in db.touched] == [
        (HintKind.SESSION_CHANGED, other.session_id)
    ]
    async with db.transaction(ada.owner) as tx:
        assert [one.id for one in await list_sessions(tx)] == [visitor.session_id]
    with pytest.raises(Unauthorized):
        await enter(db, ada)
    await enter(db, ada, "a new password")


async def test_a_session_that_ends_meanwhile_changes_no_password(
    db: SpiedDatabase, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signing out everywhere while a new password is being hashed comes before it."""
    visitor = await enter(db, ada)

    async def hash_slowly(password: str) -> str:
        await db.run(ada.owner, sign_out_everywhere, None)
        return await passwords.hash_password(password)

    monkeypatch.setattr(accounts, "hash_password", hash_slowly)
    with pytest.raises(StepUpNeeded):
        await accounts.change_password(
            db, visitor, password="a new password", window_seconds=WINDOW_SECONDS
        )
    await enter(db, ada)
