"""A person's own tokens on the database: names, ends, and what two do at once."""

from datetime import timedelta

import pytest

from muster.credentials.operations import knock
from muster.credentials.operations.personal import add_personal, list_personal, revoke_personal
from muster.credentials.rules import (
    EXPIRY_SECONDS_MAX,
    AddPersonal,
    Knock,
    Known,
    ListPersonal,
    RevokePersonal,
    Scope,
)
from muster.errors import Conflict, Invalid, NotFound
from muster.ids import CredentialKind, digest
from muster.principals import Owner, System
from tests.support.barrier import collide
from tests.support.builders import read_audit
from tests.support.cluster import SpiedDatabase, add_owner

LAPTOP = AddPersonal(name="laptop")


async def ask(db: SpiedDatabase, token: str) -> Known | None:
    """Knock with a token."""
    return await db.run(System(), knock, Knock(sha256=digest(token)))


async def test_a_token_is_known_with_its_scope(db: SpiedDatabase, owner: Owner) -> None:
    """The knock tells the owner, the name and the scope; the log says who made it, not its text."""
    token, text = await db.run(owner, add_personal, AddPersonal(name="laptop", scope=Scope.READ))
    known = await ask(db, text)
    assert known is not None
    assert (known.owner_id, known.kind, known.holder_id, known.holder_name, known.scope) == (
        owner.owner_id,
        CredentialKind.PERSONAL,
        token.id,
        "laptop",
        Scope.READ,
    )
    (fact,) = await read_audit(db, owner, "token.added")
    assert fact.data == {"name": "laptop", "scope": "read"}


@pytest.mark.parametrize("seconds", [0, -1, EXPIRY_SECONDS_MAX + 1])
async def test_how_long_a_token_may_last(db: SpiedDatabase, owner: Owner, seconds: int) -> None:
    """A token lasts from a second to ten years, or until it is revoked."""
    command = AddPersonal(name="laptop", expires_seconds=seconds)
    with pytest.raises(Invalid) as caught:
        await db.run(owner, add_personal, command)
    assert caught.value.field == "expires"


async def test_a_token_expires(db: SpiedDatabase, owner: Owner) -> None:
    """An expired token is unknown; it stands in the list, and keeps its name, until revoked."""
    brief = AddPersonal(name="laptop", expires_seconds=60)
    _, text = await db.run(owner, add_personal, brief)
    db.clock_offset += timedelta(seconds=59)
    assert await ask(db, text) is not None
    db.clock_offset += timedelta(seconds=2)
    assert await ask(db, text) is None
    with pytest.raises(Conflict):
        await db.run(owner, add_personal, LAPTOP)
    await db.run(owner, revoke_personal, RevokePersonal(name="laptop"))
    _, again = await db.run(owner, add_personal, LAPTOP)
    assert await ask(db, again) is not None
    assert len(await db.run(owner, list_personal, ListPersonal())) == 1
    assert len(await db.run(owner, list_personal, ListPersonal(ended_too=True))) == 2


async def test_two_that_take_one_name(db: SpiedDatabase, owner: Owner) -> None:
    """Of two that make a token of one name at once, one does."""
    outcomes = await collide(
        db,
        (owner, lambda tx: add_personal(tx, LAPTOP)),
        (owner, lambda tx: add_personal(tx, LAPTOP)),
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict", "tuple"]


async def test_two_that_revoke_one(db: SpiedDatabase, owner: Owner) -> None:
    """Of two that revoke one token at once, one finds it gone; the log has one end."""
    _, text = await db.run(owner, add_personal, LAPTOP)
    command = RevokePersonal(name="laptop")
    outcomes = await collide(
        db,
        (owner, lambda tx: revoke_personal(tx, command)),
        (owner, lambda tx: revoke_personal(tx, command)),
    )
    kinds = sorted(type(outcome).__name__ for outcome in outcomes)
    assert kinds == ["NotFound", "PersonalToken"]
    assert await ask(db, text) is None
    assert len(await read_audit(db, owner, "token.revoked")) == 1


async def test_others_tokens_are_out_of_reach(db: SpiedDatabase, owner: Owner) -> None:
    """Nobody lists or revokes another's token, and each owner has names of their own."""
    _, text = await db.run(owner, add_personal, LAPTOP)
    other = await add_owner(db)
    assert await db.run(other, list_personal, ListPersonal(ended_too=True)) == []
    with pytest.raises(NotFound):
        await db.run(other, revoke_personal, RevokePersonal(name="laptop"))
    await db.run(other, add_personal, LAPTOP)
    assert await ask(db, text) is not None
