"""Each verb of signing in that writes, cancelled at every step: wholly there or wholly not."""

import json
from collections.abc import Awaitable, Callable

import attrs
import pytest

from actors.testing import cancel_at_every_step
from muster.accounts import actor as accounts
from muster.accounts.operations import links
from muster.accounts.operations.attempts import BeginAttempt, begin_attempt
from muster.accounts.operations.passkeys import RevokePasskey, list_passkeys, revoke_passkey
from muster.accounts.operations.sessions import (
    end_other_sessions,
    end_session,
    list_sessions,
    sign_out_everywhere,
)
from muster.accounts.operations.signing import SetPassword, set_password, set_time_zone
from muster.accounts.rules.attempts import account_key
from muster.accounts.rules.signing import Browser
from muster.credentials.operations.personal import add_personal, list_personal, revoke_personal
from muster.credentials.rules import AddPersonal, ListPersonal, RevokePersonal
from muster.pg.query import Query
from muster.principals import Node
from tests.support.authenticator import Authenticator
from tests.support.builders import read_audit
from tests.support.cluster import SpiedDatabase
from tests.support.person import Person, add_person, open_for

PUBLIC_URL = "https://muster.example.test"
FACTS = Query("select count(*) from audit where owner_id = %(owner_id)s")
ATTEMPTS = Query("select count(*) from sign_in_attempts where account = %(account)s")


@attrs.frozen(kw_only=True)
class Verb:
    """What prepares a run, what is done, how many facts it leaves, and that it is done."""

    prepare: Callable[[SpiedDatabase, Person], Awaitable[int]]
    act: Callable[[SpiedDatabase, Person, int], Awaitable[object]]
    done: Callable[[SpiedDatabase, Person, int], Awaitable[bool]]
    facts: int


async def _session(db: SpiedDatabase, person: Person) -> int:
    return (await open_for(db, person)).session_id


async def _nothing(db: SpiedDatabase, person: Person) -> int:
    return 0


async def _token(db: SpiedDatabase, person: Person) -> int:
    async with db.transaction(person.owner) as tx:
        for token in await list_personal(tx, ListPersonal()):
            await revoke_personal(tx, RevokePersonal(name=token.name))
        await add_personal(tx, AddPersonal(name="laptop"))
    return 0


async def _no_token(db: SpiedDatabase, person: Person) -> int:
    async with db.transaction(person.owner) as tx:
        for token in await list_personal(tx, ListPersonal()):
            await revoke_personal(tx, RevokePersonal(name=token.name))
    return 0


async def _passkey(db: SpiedDatabase, person: Person) -> int:
    link = (await db.run(person.owner, links.make_link, None)).text
    question = await accounts.ask_to_set_up(
        db, link=link, name="", public_url=PUBLIC_URL, address=f"key-{person.name}"
    )
    key = Authenticator(origin=PUBLIC_URL)
    sent = accounts.SettingUp(
        link=link,
        name="",
        email="",
        password="",
        answer=key.make(json.loads(question.options)),
        passkey_name="laptop",
        cookie=question.cookie,
        time_zone="UTC",
        browser=Browser(user_agent="", address=""),
    )
    await accounts.set_up(db, sent, public_url=PUBLIC_URL)
    async with db.transaction(person.owner) as tx:
        return (await list_passkeys(tx))[-1].id


async def _live_sessions(db: SpiedDatabase, person: Person) -> set[int]:
    async with db.transaction(person.owner) as tx:
        return {one.id for one in await list_sessions(tx)}


async def _is_over(db: SpiedDatabase, person: Person, session_id: int) -> bool:
    return session_id not in await _live_sessions(db, person)


async def _has_token(db: SpiedDatabase, person: Person, _given: int) -> bool:
    async with db.transaction(person.owner) as tx:
        return [one.name for one in await list_personal(tx, ListPersonal())] == ["laptop"]


async def _lacks_token(db: SpiedDatabase, person: Person, given: int) -> bool:
    return not await _has_token(db, person, given)


async def _lacks_passkey(db: SpiedDatabase, person: Person, passkey_id: int) -> bool:
    async with db.transaction(person.owner) as tx:
        return passkey_id not in {one.id for one in await list_passkeys(tx)}


VERBS = {
    "end a session": Verb(
        prepare=_session,
        act=lambda db, person, given: db.run(person.owner, end_session, given),
        done=_is_over,
        facts=1,
    ),
    "end the others": Verb(
        prepare=_session,
        act=lambda db, person, _given: db.run(person.owner, end_other_sessions, 0),
        done=_is_over,
        facts=1,
    ),
    "sign out everywhere": Verb(
        prepare=_session,
        act=lambda db, person, _given: db.run(person.owner, sign_out_everywhere, None),
        done=_is_over,
        facts=2,
    ),
    "set a password": Verb(
        prepare=_session,
        act=lambda db, person, _given: db.run(
            person.owner, set_password, SetPassword(password_hash="new", session_id=0)
        ),
        done=_is_over,
        facts=2,
    ),
    "revoke a passkey": Verb(
        prepare=_passkey,
        act=lambda db, person, given: db.run(
            person.owner, revoke_passkey, RevokePasskey(passkey_id=given)
        ),
        done=_lacks_passkey,
        facts=1,
    ),
    "add a token": Verb(
        prepare=_no_token,
        act=lambda db, person, _given: db.run(
            person.owner, add_personal, AddPersonal(name="laptop")
        ),
        done=_has_token,
        facts=1,
    ),
    "revoke a token": Verb(
        prepare=_token,
        act=lambda db, person, _given: db.run(
            person.owner, revoke_personal, RevokePersonal(name="laptop")
        ),
        done=_lacks_token,
        facts=1,
    ),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_cancelled_at_every_step(db: SpiedDatabase, verb: str) -> None:
    """What was cancelled is done with all its facts, or not at all and without one."""
    person, how = await add_person(db), VERBS[verb]
    given = before = 0

    async def prepare() -> None:
        nonlocal given, before
        await db.run(person.owner, sign_out_everywhere, None)
        given = await how.prepare(db, person)
        before = await _facts(db, person)

    async def check(completed: bool) -> None:
        done = await how.done(db, person, given)
        assert done or not completed
        left = await _facts(db, person) - before
        assert left == (how.facts if done else 0)
        await prepare()

    await prepare()
    assert await cancel_at_every_step(lambda: how.act(db, person, given), check) > 3


async def _facts(db: SpiedDatabase, person: Person) -> int:
    async with db.transaction(person.owner) as tx:
        found: int = await tx.scalar(FACTS)
    return found


async def test_an_attempt_is_counted_or_not(db: SpiedDatabase) -> None:
    """An attempt whose counting was cancelled is a row or none, and the locks are free."""
    person = await add_person(db)
    numbers = iter(range(1000))

    async def attempt() -> None:
        key = account_key(f"{person.name}-{next(numbers)}")
        await db.run(Node(), begin_attempt, BeginAttempt(account=key, address=person.name))

    runs = 0

    async def check(_completed: bool) -> None:
        nonlocal runs
        key = account_key(f"{person.name}-{runs}")
        runs += 1
        async with db.transaction(Node()) as tx:
            assert await tx.scalar(ATTEMPTS, account=key) in (0, 1)

    assert await cancel_at_every_step(attempt, check) > 3


async def test_a_sign_in_that_is_cut_off_leaves_all_or_nothing(db: SpiedDatabase) -> None:
    """A link that was taken has its password, its session and its facts; else it is still good."""
    person = await add_person(db)
    link, taken = "", 0

    async def prepare() -> None:
        nonlocal link
        link = (await db.run(person.owner, links.make_link, None)).text

    async def act() -> None:
        command = links.SetUp(
            link=link,
            password_hash="hash",
            passkey=None,
            passkey_name="",
            time_zone="UTC",
            browser=Browser(user_agent="", address=""),
        )
        await db.run(person.owner, links.take_link, command)

    async def check(completed: bool) -> None:
        nonlocal taken
        sessions = len(await _live_sessions(db, person))
        facts = len(await read_audit(db, person.owner, "user.password_set"))
        assert sessions == facts - taken
        assert sessions >= int(completed)
        taken = facts
        await db.run(person.owner, sign_out_everywhere, None)
        await prepare()

    await prepare()
    assert await cancel_at_every_step(act, check) > 3


async def test_a_time_zone_is_set_whole(db: SpiedDatabase) -> None:
    """A time zone that was set stands in the log."""
    person = await add_person(db)
    await db.run(person.owner, set_time_zone, "Europe/Berlin")
    (fact,) = await read_audit(db, person.owner, "user.time_zone_set")
    assert fact.data == {"time_zone": "Europe/Berlin"}
