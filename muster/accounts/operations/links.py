"""One-time addresses: `/setup?link=…`, for the first account of a server or a new way to sign in.

A link is good for LIFE and for one use; its sha256 is stored. Without an owner it is for the first
account of a server that has none: adding any account ends those links, in its own transaction, so
of two that open the first account at once one is told that the link is used. A link of an owner's
is ended by the next one.
"""

import secrets
from datetime import datetime, timedelta
from typing import Final

import attrs

from muster.accounts.operations import end_free_links, insert_user, lock_account
from muster.accounts.operations.passkeys import save_passkey
from muster.accounts.operations.sessions import Opened, open_session
from muster.accounts.operations.signing import opening, save_password
from muster.accounts.rules import AddUser, check
from muster.accounts.rules.signing import Browser, NewPasskey, check_time_zone
from muster.errors import Conflict, Invalid, NotFound
from muster.ids import digest
from muster.outcomes import Fact
from muster.pg.database import Transaction
from muster.pg.query import Query

LIFE: Final = timedelta(minutes=15)


@attrs.frozen(kw_only=True)
class NewLink:
    """A link whose text is told once."""

    text: str = attrs.field(repr=False)
    expires_at: datetime


DELETE_OWN_LINKS = Query("delete from setup_links where owner_id = %(owner_id)s")
# Another server may have told a free one a moment ago.
DELETE_EXPIRED_LINKS = Query("""
    delete from setup_links where owner_id is null and expires_at < %(now)s
""")
INSERT_LINK = Query("""
    insert into setup_links (owner_id, sha256, created_at, expires_at)
    values (%(for_owner)s, %(sha256)s, %(now)s, %(expires_at)s)
""")


async def make_link(tx: Transaction, _command: None = None) -> NewLink:
    """As the owner, a link for a way to sign in; as Node, one for the first account."""
    owner_id = getattr(tx.principal, "owner_id", None)
    await tx.execute(DELETE_EXPIRED_LINKS if owner_id is None else DELETE_OWN_LINKS)
    text = secrets.token_urlsafe(32)
    expires_at = tx.now + LIFE
    await tx.execute(INSERT_LINK, for_owner=owner_id, sha256=digest(text), expires_at=expires_at)
    if owner_id is not None:
        await tx.record(Fact(action="user.link_made", subject=f"user:{owner_id}"))
    return NewLink(text=text, expires_at=expires_at)


ANY_USER = Query("select exists (select from users)")


async def has_users(tx: Transaction, _command: None = None) -> bool:
    """As System: whether anybody has an account."""
    return bool(await tx.scalar(ANY_USER))


@attrs.frozen(kw_only=True)
class Link:
    """A link that is good now: for whom, or for the first account (`owner_id` None)."""

    owner_id: int | None
    name: str | None


FIND_LINK = Query("""
    select l.owner_id, u.name
    from setup_links l left join users u on u.id = l.owner_id
    where l.sha256 = %(sha256)s and l.used_at is null and l.expires_at > %(now)s
      and (l.owner_id is null or u.disabled_at is null)
""")


async def get_link(tx: Transaction, text: str) -> Link:
    """As System: what a link is good for; NotFound when it is used, too old, or none of ours."""
    found = await tx.find(FIND_LINK, Link, sha256=digest(text))
    if found is None:
        raise link_gone()
    return found


USE_LINK = Query("""
    update setup_links set used_at = %(now)s
    where sha256 = %(sha256)s and used_at is null and expires_at > %(now)s
      and owner_id is not distinct from %(of_owner)s
    returning id
""")


@attrs.frozen(kw_only=True)
class SetUp:
    """Take the link: a new account's name, a password's hash, a passkey, or both of these."""

    link: str = attrs.field(repr=False)
    password_hash: str | None = attrs.field(repr=False)
    passkey: NewPasskey | None
    passkey_name: str
    time_zone: str
    browser: Browser


@attrs.frozen(kw_only=True)
class FirstAccount:
    """The name of the first account, and what authenticators are told instead of it."""

    name: str
    email: str
    handle: bytes
    set_up: SetUp


async def open_first_account(tx: Transaction, command: FirstAccount) -> Opened:
    """As the owner of a fresh id: add the first account by a link, and sign it in.

    Raises NotFound for a link that is gone, Invalid for a shape.
    """
    adding = AddUser(
        name=command.name, email=command.email, password_hash=command.set_up.password_hash
    )
    check(adding)
    await _use(tx, command.set_up, of_owner=None)
    user = await insert_user(tx, adding, handle=command.handle)
    if user is None:
        raise Conflict(f"There is an account named {command.name} already.", code="name_taken")
    await end_free_links(tx)
    return await _enter(tx, command.set_up)


async def take_link(tx: Transaction, command: SetUp) -> Opened:
    """As the link's owner: add a way to sign in by it, and sign in.

    Raises NotFound for a link that is gone, Invalid for a shape.
    """
    if (await lock_account(tx)).disabled_at is not None:
        raise link_gone()  # since somebody looked at the link
    await _use(tx, command, of_owner=tx.owner_id)
    if command.password_hash is not None:
        await save_password(tx, command.password_hash)
    return await _enter(tx, command)


SET_ZONE = Query("update users set time_zone = %(time_zone)s where id = %(owner_id)s")


async def _use(tx: Transaction, command: SetUp, *, of_owner: int | None) -> None:
    if command.password_hash is None and command.passkey is None:
        raise Invalid("Choose a password, or make a passkey.", field="password")
    check_time_zone(command.time_zone)
    if await tx.scalar(USE_LINK, sha256=digest(command.link), of_owner=of_owner) is None:
        raise link_gone()


async def _enter(tx: Transaction, command: SetUp) -> Opened:
    await tx.execute(SET_ZONE, time_zone=command.time_zone)
    if command.passkey is not None:
        await save_passkey(tx, command.passkey, name=command.passkey_name)
    return await open_session(tx, opening(command.browser, "link"))


def link_gone() -> NotFound:
    """What is said of every link that opens nothing."""
    return NotFound("This link was used, or its 15 minutes are over.", code="link_gone")
