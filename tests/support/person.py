"""Somebody with an account and a password, as the rooms themselves make one."""

import argon2
import attrs

from muster.accounts.operations import add_user, next_user_id
from muster.accounts.operations.sessions import Opened, OpenSession, open_session
from muster.accounts.rules import AddUser
from muster.pg.database import Database
from muster.principals import Owner, System

PASSWORD = "correct horse battery"
# Cheap parameters: a sign-in compares them as they stand, and writes today's in their place.
_CHEAP = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@attrs.frozen(kw_only=True)
class Person:
    """An account, as its owner acts in a browser."""

    owner: Owner
    name: str


async def add_person(db: Database, *, password: str | None = PASSWORD) -> Person:
    """A new account; without a password nothing opens it yet."""
    async with db.transaction(System()) as tx:
        owner_id = await next_user_id(tx)
    owner = Owner(owner_id=owner_id, via="browser")
    name = f"person-{owner_id}"
    password_hash = None if password is None else _CHEAP.hash(password)
    command = AddUser(name=name, email="", password_hash=password_hash)
    await db.run(owner, add_user, command)
    return Person(owner=owner, name=name)


async def open_for(db: Database, person: Person) -> Opened:
    """A browser session of theirs."""
    command = OpenSession(method="password", user_agent="tests", address="127.0.0.1")
    return await db.run(person.owner, open_session, command)
