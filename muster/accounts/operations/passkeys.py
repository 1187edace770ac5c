"""The verbs of passkeys: adding, naming, revoking, and proving who somebody is by one.

The passkey's row is locked while its answer is checked, so of two that are made of one count, the
second is refused by the first one's.
"""

import attrs

from muster.accounts.operations import lock_account
from muster.accounts.passkeys import Site, StoredPasskey, check_answer, check_creation, refused
from muster.accounts.rules.signing import (
    NewPasskey,
    Passkey,
    Ways,
    check_one_less,
    check_one_more,
    check_passkey_name,
)
from muster.errors import Conflict, NotFound
from muster.outcomes import Fact
from muster.pg.database import Transaction
from muster.pg.query import Query

WAYS = Query("""
    select (select count(*) from passkeys
            where owner_id = %(owner_id)s and revoked_at is null) as passkeys,
           password_hash is not null as has_password
    from users where id = %(owner_id)s
""")


async def count_ways(tx: Transaction, _command: None = None) -> Ways:
    """As the owner: how the account may be entered."""
    return await tx.one(WAYS, Ways)


INSERT_PASSKEY = Query("""
    insert into passkeys (owner_id, name, credential_id, public_key, sign_count, created_at)
    values (%(owner_id)s, %(name)s, %(credential_id)s, %(public_key)s, %(sign_count)s, %(now)s)
    on conflict do nothing
    returning id, name, created_at, last_used_at
""")


@attrs.frozen(kw_only=True)
class AddPasskey:
    """Take an answer of a browser's for a new passkey; audit action `passkey.added`."""

    name: str
    site: Site
    challenge: bytes
    answer: str = attrs.field(repr=False)


async def add_passkey(tx: Transaction, command: AddPasskey) -> Passkey:
    """As the owner: add a passkey.

    Raises Invalid for an answer or a name that is not right, Refused when there are too many.
    """
    made = check_creation(command.site, challenge=command.challenge, answer=command.answer)
    await lock_account(tx)
    return await save_passkey(tx, made, name=command.name)


async def save_passkey(tx: Transaction, made: NewPasskey, *, name: str) -> Passkey:
    """As the owner, with the account locked: keep a passkey that is proven."""
    check_passkey_name(name)
    check_one_more(await count_ways(tx))
    passkey = await tx.find(
        INSERT_PASSKEY,
        Passkey,
        name=name,
        credential_id=made.credential_id,
        public_key=made.public_key,
        sign_count=made.sign_count,
    )
    if passkey is None:
        raise Conflict("This passkey is known already.")
    fact = Fact(action="passkey.added", subject=f"passkey:{passkey.id}", data={"name": name})
    await tx.record(fact)
    return passkey


LIST_PASSKEYS = Query("""
    select id, name, created_at, last_used_at from passkeys
    where owner_id = %(owner_id)s and revoked_at is null order by id limit %(limit)s
""")


async def list_passkeys(tx: Transaction, limit: int = 100) -> list[Passkey]:
    """As the owner: the live passkeys, the oldest first."""
    return await tx.all(LIST_PASSKEYS, Passkey, limit=limit)


@attrs.frozen(kw_only=True)
class RevokePasskey:
    """Take a passkey away; audit action `passkey.revoked`."""

    passkey_id: int


REVOKE_PASSKEY = Query("""
    update passkeys set revoked_at = %(now)s
    where owner_id = %(owner_id)s and id = %(passkey_id)s and revoked_at is null
    returning id, name, created_at, last_used_at
""")


async def revoke_passkey(tx: Transaction, command: RevokePasskey) -> Passkey:
    """As the owner: the passkey opens nothing any more.

    The account is locked, so two that take away the last two do not both. Raises NotFound for none
    of the live ones, Refused (`last_way`) when nothing else opens the account.
    """
    await lock_account(tx)
    ways = await count_ways(tx)
    passkey = await tx.find(REVOKE_PASSKEY, Passkey, passkey_id=command.passkey_id)
    if passkey is None:
        raise NotFound("There is no such passkey.")
    check_one_less(ways)
    data = {"name": passkey.name}
    await tx.record(
        Fact(action="passkey.revoked", subject=f"passkey:{passkey.id}", data=data)
    )
    return passkey


@attrs.frozen(kw_only=True)
class Known:
    """By which id a browser is asked for a passkey."""

    credential_id: bytes


KNOWN_IDS = Query("""
    select credential_id from passkeys
    where owner_id = %(owner_id)s and revoked_at is null order by id limit 100
""")
HANDLE = Query("select passkey_handle from users where id = %(owner_id)s")


async def known_ids(tx: Transaction) -> tuple[bytes, ...]:
    """As the owner: the ids of their live passkeys."""
    return tuple(row.credential_id for row in await tx.all(KNOWN_IDS, Known))


async def handle_of(tx: Transaction) -> bytes:
    """As the owner: what an authenticator is told instead of the name."""
    handle = await tx.scalar(HANDLE)
    assert isinstance(handle, bytes)
    return handle


FIND_HOLDER = Query("""
    select p.owner_id from passkeys p join users u on u.id = p.owner_id and u.disabled_at is null
    where p.credential_id = %(credential_id)s and p.revoked_at is null
""")


async def find_holder(tx: Transaction, credential_id: bytes) -> int | None:
    """As System: whose passkey this is; None for none of a live account."""
    owner_id: int | None = await tx.scalar(FIND_HOLDER, credential_id=credential_id)
    return owner_id


LOCK_PASSKEY = Query("""
    select p.id, p.public_key, p.sign_count, u.passkey_handle as handle
    from passkeys p join users u on u.id = p.owner_id and u.disabled_at is null
    where p.owner_id = %(owner_id)s and p.credential_id = %(credential_id)s
      and p.revoked_at is null
    for no key update of p
""")
USE_PASSKEY = Query("""
    update passkeys set sign_count = %(sign_count)s, last_used_at = %(now)s
    where owner_id = %(owner_id)s and id = %(passkey_id)s
""")


@attrs.frozen(kw_only=True)
class Answered:
    """A browser's answer to a challenge."""

    site: Site
    challenge: bytes
    credential_id: bytes
    answer: str = attrs.field(repr=False)


async def prove_passkey(tx: Transaction, command: Answered) -> int:
    """As the owner: check an answer and keep the passkey's count; its id, or Unauthorized."""
    stored = await tx.find(LOCK_PASSKEY, StoredPasskey, credential_id=command.credential_id)
    if stored is None:
        raise refused()
    count = check_answer(
        command.site, challenge=command.challenge, answer=command.answer, stored=stored
    )
    await tx.later(USE_PASSKEY, passkey_id=stored.id, sign_count=count)
    return stored.id
