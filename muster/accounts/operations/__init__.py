"""The verbs of accounts, with their SQL; those of browser sessions stand beside it.

An account is written by its own owner, as everything is. So a new one takes two steps:
muster_system draws the id, and the insert runs as the owner of that id. An id that is drawn and
never used is a gap in the numbers, nothing more.
"""

import secrets
from typing import Final

from muster.accounts.rules import (
    AddUser,
    Command,
    Disable,
    Enable,
    FindUser,
    ListUsers,
    User,
    UserRef,
    check,
    decide,
)
from muster.errors import Conflict
from muster.outcomes import Fact, Unchanged
from muster.pg.database import Transaction
from muster.pg.query import Query

HANDLE_BYTES: Final = 32

NEXT_USER_ID = Query("select nextval('users_id_seq')")


async def next_user_id(tx: Transaction) -> int:
    """As System: draw the id for a new account."""
    drawn = await tx.scalar(NEXT_USER_ID)
    assert isinstance(drawn, int)
    return drawn


# Two that add one name: the second waits for the first to commit and then inserts nothing.
INSERT_USER = Query("""
    insert into users (id, name, email, password_hash, created_at, passkey_handle)
    values (%(owner_id)s, %(name)s, %(email)s, %(password_hash)s, %(now)s, %(handle)s)
    on conflict do nothing
    returning id, name, email, created_at, disabled_at
""")


async def add_user(tx: Transaction, command: AddUser) -> User:
    """As the owner of a fresh id: open the account; links for a first account end.

    Raises Invalid when the name or address has no such shape, Conflict when the name is taken.
    """
    check(command)
    user = await insert_user(tx, command, handle=secrets.token_bytes(HANDLE_BYTES))
    if user is None:
        raise Conflict(f"There is an account named {command.name} already.", code="name_taken")
    await end_free_links(tx)
    return user


async def insert_user(tx: Transaction, command: AddUser, *, handle: bytes) -> User | None:
    """As the owner of a fresh id: write the account's row; None when the name is taken."""
    user = await tx.find(
        INSERT_USER,
        User,
        name=command.name,
        email=command.email,
        password_hash=command.password_hash,
        handle=handle,
    )
    if user is not None:
        fact = Fact(action="user.added", subject=f"user:{user.id}", data={"name": user.name})
        await tx.record(fact)
    return user


# Whoever opens the first account by a link waits here for whoever adds one at the same time.
END_FREE_LINKS = Query("""
    update setup_links set used_at = %(now)s where owner_id is null and used_at is null
""")


async def end_free_links(tx: Transaction) -> None:
    """There is an account now: no link opens a first one any more."""
    await tx.execute(END_FREE_LINKS)


FIND_USER = Query("select id, name from users where name = %(name)s")


async def find_user(tx: Transaction, command: FindUser) -> UserRef | None:
    """As System: the account of that name, disabled or not."""
    return await tx.find(FIND_USER, UserRef, name=command.name)


FIND_LIVE_USER = Query("""
    select id, name from users where name = %(name)s and disabled_at is null
""")


async def find_live_user(tx: Transaction, command: FindUser) -> UserRef | None:
    """As System: the account of that name, unless it is disabled."""
    return await tx.find(FIND_LIVE_USER, UserRef, name=command.name)


LIST_USERS = Query("""
    select id, name, email, created_at, disabled_at from users order by name limit %(limit)s
""")


async def list_users(tx: Transaction, command: ListUsers) -> list[User]:
    """As System: every account, by name."""
    return await tx.all(LIST_USERS, User, limit=command.limit)


LOCK_ACCOUNT = Query("""
    select id, name, email, created_at, disabled_at from users
    where id = %(owner_id)s for no key update
""")


async def lock_account(tx: Transaction) -> User:
    """The owner's own row, locked: what may exist once for an owner is decided behind it."""
    return await tx.one(LOCK_ACCOUNT, User)


UPDATE_DISABLED = Query("update users set disabled_at = %(disabled_at)s where id = %(owner_id)s")


async def disable_user(tx: Transaction, command: Disable) -> User:
    """As the owner: shut every door to the account's tokens (plugins: the answer 401)."""
    return await _apply(tx, command)


async def enable_user(tx: Transaction, command: Enable) -> User:
    """As the owner: open the doors again, to the same tokens."""
    return await _apply(tx, command)


async def _apply(tx: Transaction, command: Command) -> User:
    outcome = decide(await lock_account(tx), command, tx.now)
    if isinstance(outcome, Unchanged):
        return outcome.row
    return await tx.save(UPDATE_DISABLED, outcome)
