"""Accounts on the database: adding, finding, disabling, and what races."""

import argon2
import pytest

from muster.accounts.operations import (
    add_user,
    disable_user,
    enable_user,
    find_user,
    list_users,
    next_user_id,
)
from muster.accounts.passwords import hash_password
from muster.accounts.rules import AddUser, Disable, Enable, FindUser, ListUsers, User
from muster.errors import Conflict, Invalid
from muster.outcomes import HintKind
from muster.pg.audit import list_audit
from muster.principals import Owner, System
from tests.support.barrier import collide
from tests.support.cluster import SpiedDatabase


async def new_owner(db: SpiedDatabase) -> Owner:
    """A principal for an account that is not there yet."""
    async with db.transaction(System()) as tx:
        return Owner(owner_id=await next_user_id(tx), via="cli")


def adding(name: str) -> AddUser:
    """The command for an account of that name."""
    return AddUser(name=name, email=f"{name}@example.test", password_hash="hash")


async def added(db: SpiedDatabase) -> tuple[Owner, User]:
    """A fresh account with a name of its own."""
    owner = await new_owner(db)
    return owner, await db.run(owner, add_user, adding(f"acc-{owner.owner_id}"))


async def test_an_account_is_added_and_found(db: SpiedDatabase) -> None:
    """A new account is found by its name, listed, and in its own audit log."""
    owner, user = await added(db)
    assert user.id == owner.owner_id
    found = await db.run(System(), find_user, FindUser(name=user.name))
    assert found is not None
    assert (found.id, found.name) == (user.id, user.name)
    assert user in await db.run(System(), list_users, ListUsers())
    assert len(await db.run(System(), list_users, ListUsers(limit=1))) == 1
    async with db.transaction(owner) as tx:
        (row,) = await list_audit(tx)
    assert (row.action, row.subject, row.via) == ("user.added", f"user:{user.id}", "cli")


async def test_an_unknown_name_is_nobody(db: SpiedDatabase) -> None:
    """Looking up a name that nobody has answers None."""
    assert await db.run(System(), find_user, FindUser(name="nobody-here")) is None


async def test_a_name_is_taken_once(db: SpiedDatabase) -> None:
    """A second account of one name is a conflict, though its owner can't see the first."""
    _, user = await added(db)
    with pytest.raises(Conflict) as caught:
        await db.run(await new_owner(db), add_user, adding(user.name))
    assert caught.value.code == "name_taken"


async def test_two_that_add_one_name(db: SpiedDatabase) -> None:
    """Of two that add one name at the same time one gets it and one is told that it is taken."""
    first, second = await new_owner(db), await new_owner(db)
    command = adding(f"race-{first.owner_id}")
    outcomes = await collide(
        db,
        (first, lambda tx: add_user(tx, command)),
        (second, lambda tx: add_user(tx, command)),
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict", "User"]


async def test_a_bad_name_reaches_no_row(db: SpiedDatabase) -> None:
    """A name that breaks the rule is refused before anything is written."""
    with pytest.raises(Invalid):
        await db.run(await new_owner(db), add_user, adding("Ada"))


@pytest.mark.rule(21)
async def test_disable_and_enable(db: SpiedDatabase) -> None:
    """Disabling shuts an account and enabling opens it; each tells the servers and the log once."""
    owner, user = await added(db)
    db.published.clear()
    disabled = await db.run(owner, disable_user, Disable())
    assert disabled.disabled_at is not None
    assert await db.run(owner, disable_user, Disable()) == disabled
    assert await db.run(owner, enable_user, Enable()) == user
    assert [hint.kind for hint in db.published] == [HintKind.USER_CHANGED] * 2
    async with db.transaction(owner) as tx:
        actions = [row.action for row in await list_audit(tx)]
    assert actions == ["user.enabled", "user.disabled", "user.added"]


async def test_an_account_is_not_added_as_somebody_else(db: SpiedDatabase) -> None:
    """Adding an account twice under one id changes nothing of the first."""
    owner, user = await added(db)
    with pytest.raises(Conflict):
        await db.run(owner, add_user, adding(f"other-{owner.owner_id}"))
    found = await db.run(System(), find_user, FindUser(name=user.name))
    assert found is not None
    assert found.id == user.id


async def test_passwords_are_argon2id() -> None:
    """A password is kept as an argon2id hash that the same password alone verifies."""
    hashed = await hash_password("correct horse ")
    assert hashed.startswith("$argon2id$")
    assert argon2.PasswordHasher().verify(hashed, "correct horse ")
    with pytest.raises(argon2.exceptions.VerifyMismatchError):
        argon2.PasswordHasher().verify(hashed, "correct horse")


@pytest.mark.parametrize("password", ["", "1234567", "x" * 1025, "12345678\ud800"])
async def test_bad_passwords(password: str) -> None:
    """A password of less than 8 or more than 1024 characters, or of no text, is refused."""
    with pytest.raises(Invalid) as caught:
        await hash_password(password)
    assert caught.value.field == "password"


@pytest.mark.parametrize("password", ["12345678", "é" * 1024])
async def test_passwords_at_the_edge(password: str) -> None:
    """8 and 1024 characters, counted as code points, are taken."""
    assert await hash_password(password)
