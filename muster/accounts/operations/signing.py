"""Signing in and stepping up, once the proof is there: who comes in, and what is written.

A password is compared before, outside any transaction (`accounts.actor`); what was compared comes
along, so a password that was changed meanwhile opens nothing.
"""

import attrs

from muster.accounts.operations import lock_account
from muster.accounts.operations.attempts import succeed
from muster.accounts.operations.passkeys import Answered, prove_passkey
from muster.accounts.operations.sessions import (
    Opened,
    OpenSession,
    end_other_sessions,
    open_session,
    refresh_session,
)
from muster.accounts.rules.signing import Browser
from muster.errors import Unauthorized
from muster.outcomes import Fact
from muster.pg.database import Transaction
from muster.pg.query import Query

READ_HASH = Query("""
    select password_hash from users where id = %(owner_id)s and disabled_at is null
""")


async def read_hash(tx: Transaction) -> str | None:
    """As the owner: the hash of the password; None without one, or for nobody's account."""
    password_hash: str | None = await tx.scalar(READ_HASH)
    return password_hash


SET_HASH = Query("update users set password_hash = %(new_hash)s where id = %(owner_id)s")


@attrs.frozen(kw_only=True)
class ProvenPassword:
    """A password that was compared with `password_hash` and is right."""

    password_hash: str = attrs.field(repr=False)
    rehashed: str | None = attrs.field(repr=False)
    attempt_id: int


async def accept_password(tx: Transaction, proven: ProvenPassword) -> None:
    """As the owner: what was compared is still the password of a live account, or Unauthorized."""
    await lock_account(tx)
    if await read_hash(tx) != proven.password_hash:
        raise wrong()
    if proven.rehashed is not None:
        await tx.later(SET_HASH, new_hash=proven.rehashed)
    await succeed(tx, proven.attempt_id)


@attrs.frozen(kw_only=True)
class SignInByPassword:
    """Open a session for a password that is right."""

    proven: ProvenPassword
    browser: Browser


async def sign_in_by_password(tx: Transaction, command: SignInByPassword) -> Opened:
    """As the owner: open a session."""
    await accept_password(tx, command.proven)
    return await open_session(tx, opening(command.browser, "password"))


@attrs.frozen(kw_only=True)
class SignInByPasskey:
    """Open a session for a passkey's answer."""

    answered: Answered
    attempt_id: int
    browser: Browser


async def sign_in_by_passkey(tx: Transaction, command: SignInByPasskey) -> Opened:
    """As the owner: check the answer and open a session, or raise Unauthorized."""
    await lock_account(tx)
    await prove_passkey(tx, command.answered)
    await succeed(tx, command.attempt_id)
    return await open_session(tx, opening(command.browser, "passkey"))


@attrs.frozen(kw_only=True)
class StepUp:
    """Make a session fresh by a password or a passkey's answer."""

    session_id: int
    proof: ProvenPassword | SignInByPasskey


async def step_up(tx: Transaction, command: StepUp) -> None:
    """As the owner: the session was signed in just now, or Unauthorized."""
    match command.proof:
        case ProvenPassword():
            await accept_password(tx, command.proof)
            method = "password"
        case SignInByPasskey():
            await lock_account(tx)
            await prove_passkey(tx, command.proof.answered)
            await succeed(tx, command.proof.attempt_id)
            method = "passkey"
    await refresh_session(tx, command.session_id, method=method)


@attrs.frozen(kw_only=True)
class SetPassword:
    """Change the password, which was hashed before; audit action `user.password_set`."""

    password_hash: str = attrs.field(repr=False)
    session_id: int


async def set_password(tx: Transaction, command: SetPassword) -> int:
    """As the owner: set a new password and end every other session; how many there were."""
    await lock_account(tx)
    await save_password(tx, command.password_hash)
    return await end_other_sessions(tx, command.session_id)


async def save_password(tx: Transaction, password_hash: str) -> None:
    """As the owner, with the account locked: keep a new password."""
    await tx.execute(SET_HASH, new_hash=password_hash)
    await tx.record(Fact(action="user.password_set", subject=f"user:{tx.owner_id}"))


SET_TIME_ZONE = Query("update users set time_zone = %(time_zone)s where id = %(owner_id)s")


async def set_time_zone(tx: Transaction, time_zone: str) -> None:
    """As the owner: show times in this zone; the name was checked before (`rules.signing`)."""
    await tx.execute(SET_TIME_ZONE, time_zone=time_zone)
    data = {"time_zone": time_zone}
    await tx.record(Fact(action="user.time_zone_set", subject=f"user:{tx.owner_id}", data=data))


def opening(browser: Browser, method: str) -> OpenSession:
    """The command for a session in this browser."""
    return OpenSession(
        method=method,
        user_agent=browser.user_agent,
        address=browser.address,
        former_session_id=browser.former_session_id,
    )


def wrong() -> Unauthorized:
    """What is said of every name and password that open no account, whatever the reason."""
    return Unauthorized("This name and password open no account here.", code="sign_in_refused")
