"""The rows of attempts to sign in (`rules.attempts`).

Two that try at the limit at once take the locks of the account and of the address, in this order,
so the second counts the first. Old rows go with the new ones: no sweep is needed for them.
"""

from datetime import datetime

import attrs

from muster.accounts.rules.attempts import (
    ACCOUNT_FAILURES_MAX,
    ADDRESS_FAILURES_MAX,
    WINDOW,
    address_key,
    session_keys,
    wait_seconds,
)
from muster.errors import TooMany
from muster.ids import digest
from muster.pg.database import Transaction
from muster.pg.query import Query


@attrs.frozen(kw_only=True)
class BeginAttempt:
    """Somebody is about to prove who they are; `account` is a digest (`account_key`).

    `session_id` is the session, live or ended, by which the browser was in that account: then it is
    counted by that session alone.
    """

    account: bytes
    address: str
    session_id: int | None = None


LOCK = Query("select pg_advisory_xact_lock(%(account)s), pg_advisory_xact_lock(%(address)s)")

# The newest failures, as many as are allowed: there the last one of them, if there are so many.
PIVOTS = Query("""
    select (select at from sign_in_attempts
            where account = %(account)s and at > %(since)s and failed
            order by at desc offset %(account_skip)s limit 1) as account,
           (select at from sign_in_attempts
            where address = %(address)s and at > %(since)s and failed
            order by at desc offset %(address_skip)s limit 1) as address
""")
INSERT_ATTEMPT = Query("""
    insert into sign_in_attempts (at, account, address, failed)
    values (%(now)s, %(account)s, %(address)s, true)
    returning id
""")
DELETE_OLD = Query("""
    delete from sign_in_attempts where id in (
        select id from sign_in_attempts where at < %(before)s
        order by at limit 100 for update skip locked)
""")


@attrs.frozen(kw_only=True)
class _Pivots:
    account: datetime | None
    address: datetime | None


async def begin_attempt(tx: Transaction, command: BeginAttempt) -> int:
    """Count an attempt, as a failed one, before anything is compared; its id.

    Raises TooMany, with the time after which one more is taken, and then counts nothing.
    """
    account, address = command.account, address_key(command.address)
    if command.session_id is not None:
        account, address = session_keys(command.session_id)
    await tx.execute(LOCK, account=_lock_of(account), address=_lock_of(digest(address)))
    since = tx.now - WINDOW
    pivots = await tx.one(
        PIVOTS,
        _Pivots,
        account=account,
        address=address,
        since=since,
        account_skip=ACCOUNT_FAILURES_MAX - 1,
        address_skip=ADDRESS_FAILURES_MAX - 1,
    )
    waits = [wait_seconds(pivot, tx.now) for pivot in (pivots.account, pivots.address)]
    if max(waits) > 0:
        raise TooMany(
            "There were too many attempts to sign in; wait a while.",
            retry_after_seconds=max(waits),
            code="too_many_attempts",
        )
    await tx.later(DELETE_OLD, before=since)
    attempt_id = await tx.scalar(INSERT_ATTEMPT, account=account, address=address)
    assert isinstance(attempt_id, int)
    return attempt_id


SUCCEED = Query("update sign_in_attempts set failed = false where id = %(attempt_id)s")


async def succeed(tx: Transaction, attempt_id: int) -> None:
    """The attempt was right: it counts against nobody."""
    await tx.later(SUCCEED, attempt_id=attempt_id)


def _lock_of(key: bytes) -> int:
    return int.from_bytes(key[:8], "big", signed=True)
