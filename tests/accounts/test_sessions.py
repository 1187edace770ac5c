"""Browser sessions on the database: what ends them, and what their ends tell."""

from datetime import timedelta

import pytest

from muster.accounts.operations import enable_user
from muster.accounts.operations.sessions import (
    KEPT,
    LIFE,
    LISTED_MAX,
    Opened,
    OpenSession,
    Visitor,
    end_other_sessions,
    end_session,
    knock_session,
    list_sessions,
    note_session_seen,
    open_session,
    sign_out_everywhere,
)
from muster.accounts.rules import Enable
from muster.outcomes import HintKind
from muster.pg.query import Query
from muster.principals import System
from tests.support.barrier import collide
from tests.support.builders import disable, read_audit
from tests.support.cluster import SpiedDatabase
from tests.support.person import Person, add_person, open_for

COUNT = Query("select count(*) from browser_sessions where owner_id = %(owner_id)s")
LEAKED = Query("select count(*) from browser_sessions s where s::text like %(like)s")
SIGNED_OUT_AT = Query("select signed_out_at from users where id = %(owner_id)s")


@pytest.fixture
async def ada(db: SpiedDatabase) -> Person:
    """Somebody."""
    return await add_person(db)


async def knock(db: SpiedDatabase, opened: Opened) -> Visitor | None:
    """Who comes with this session's cookie."""
    async with db.transaction(System(), look=True) as tx:
        return await knock_session(tx, opened.cookie)


async def test_a_cookie_is_known_by_its_digest_alone(db: SpiedDatabase, ada: Person) -> None:
    """The cookie itself stands nowhere, and one that is off by a letter is nobody's."""
    opened = await open_for(db, ada)
    assert await knock(db, opened) is not None
    wrong = Opened(session_id=opened.session_id, cookie=opened.cookie[:-1])
    assert await knock(db, wrong) is None
    async with db.transaction(ada.owner) as tx:
        assert await tx.scalar(LEAKED, like=f"%{opened.cookie[4:20]}%") == 0


async def test_a_session_ends(db: SpiedDatabase, ada: Person) -> None:
    """An ended session's cookie opens nothing; its streams are told, once."""
    opened, other = await open_for(db, ada), await open_for(db, ada)
    db.touched.clear()
    assert await db.run(ada.owner, end_session, opened.session_id)
    assert not await db.run(ada.owner, end_session, opened.session_id)
    assert await knock(db, opened) is None
    assert await knock(db, other) is not None
    assert [(hint.kind, hint.id) for hint in db.touched] == [
        (HintKind.SESSION_CHANGED, opened.session_id)
    ]
    facts = await read_audit(db, ada.owner, "user.signed_out")
    assert [fact.subject for fact in facts] == [f"session:{opened.session_id}"]


async def test_another_owners_session_is_out_of_reach(db: SpiedDatabase, ada: Person) -> None:
    """Nobody ends or prolongs another's session."""
    opened, other = await open_for(db, ada), await add_person(db)
    assert not await db.run(other.owner, end_session, opened.session_id)
    db.clock_offset += timedelta(minutes=2)
    assert not await db.run(other.owner, note_session_seen, opened.session_id)
    assert await db.run(other.owner, end_other_sessions, 0) == 0
    assert await db.run(other.owner, sign_out_everywhere, None) == 0
    assert await knock(db, opened) is not None


async def test_signing_out_everywhere(db: SpiedDatabase, ada: Person) -> None:
    """Every session ends and its streams are told; a later sign-in works."""
    opened = [await open_for(db, ada) for _ in range(3)]
    db.touched.clear()
    assert await db.run(ada.owner, sign_out_everywhere, None) == 3
    assert [await knock(db, one) for one in opened] == [None] * 3
    assert {hint.id for hint in db.touched} == {one.session_id for one in opened}
    async with db.transaction(ada.owner) as tx:
        assert await tx.scalar(SIGNED_OUT_AT) is not None
    (fact,) = await read_audit(db, ada.owner, "user.signed_out_everywhere")
    assert fact.data == {"sessions": 3}
    assert await knock(db, await open_for(db, ada)) is not None


async def test_a_sign_in_while_all_are_signed_out(db: SpiedDatabase, ada: Person) -> None:
    """A sign-in at the same moment either ends with the others or came after them."""
    command = OpenSession(method="password", user_agent="", address="")
    over = 0  # sessions that are over, though no row says so yet
    for _ in range(5):
        opened, count = await collide(
            db,
            (ada.owner, lambda tx: open_session(tx, command)),
            (ada.owner, sign_out_everywhere),
        )
        assert isinstance(opened, Opened)
        assert isinstance(count, int)
        async with db.transaction(ada.owner) as tx:
            live = [one.id for one in await list_sessions(tx)]
        known = await knock(db, opened)
        if known is not None:
            assert live == [opened.session_id]
            await db.run(ada.owner, end_session, opened.session_id)
            over = 0
        else:
            assert count - over in (0, 1)
            over = 1 - (count - over)


async def test_a_disabled_account_has_no_visitors(db: SpiedDatabase, ada: Person) -> None:
    """Disabling an account shuts its sessions at once; enabling it opens those that live on."""
    opened = await open_for(db, ada)
    await disable(db, ada.owner)
    assert await knock(db, opened) is None
    await db.run(ada.owner, enable_user, Enable())
    assert await knock(db, opened) is not None


async def test_a_session_lives_while_it_is_used(db: SpiedDatabase, ada: Person) -> None:
    """Last seen is written once a minute at most, and moves the session's end."""
    opened = await open_for(db, ada)
    assert not await db.run(ada.owner, note_session_seen, opened.session_id)
    db.clock_offset += timedelta(seconds=61)
    assert await db.run(ada.owner, note_session_seen, opened.session_id)
    assert not await db.run(ada.owner, note_session_seen, opened.session_id)
    db.clock_offset += LIFE - timedelta(seconds=5)
    assert await knock(db, opened) is not None
    db.clock_offset += timedelta(seconds=10)
    assert await knock(db, opened) is None


async def test_last_seen_is_not_written_for_one_that_ended(db: SpiedDatabase, ada: Person) -> None:
    """A session that ended is not prolonged by a page that was on its way."""
    opened = await open_for(db, ada)
    await db.run(ada.owner, end_session, opened.session_id)
    db.clock_offset += timedelta(minutes=2)
    assert not await db.run(ada.owner, note_session_seen, opened.session_id)


async def test_old_sessions_go(db: SpiedDatabase, ada: Person) -> None:
    """Sessions that ended long ago are deleted when the owner signs in again."""
    for _ in range(2):
        await open_for(db, ada)
    db.clock_offset += LIFE + KEPT - timedelta(minutes=1)
    await open_for(db, ada)
    async with db.transaction(ada.owner) as tx:
        assert await tx.scalar(COUNT) == 3
    db.clock_offset += timedelta(minutes=2)
    await open_for(db, ada)
    async with db.transaction(ada.owner) as tx:
        assert await tx.scalar(COUNT) == 2


async def test_the_list_has_an_end(db: SpiedDatabase, ada: Person) -> None:
    """Live sessions are listed, those in use last first, up to a limit."""
    first, second = await open_for(db, ada), await open_for(db, ada)
    db.clock_offset += timedelta(minutes=2)
    await db.run(ada.owner, note_session_seen, first.session_id)
    async with db.transaction(ada.owner) as tx:
        found = await list_sessions(tx)
        assert [one.id for one in await list_sessions(tx, limit=1)] == [first.session_id]
    assert [one.id for one in found] == [first.session_id, second.session_id]
    assert len(found) <= LISTED_MAX
