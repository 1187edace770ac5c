"""The challenges of passkeys: a row each, which whoever uses it takes away.

The row holds the digest of a random cookie; the challenge is made of the cookie itself, so that an
answer counts only for the browser that asked. A guest's rows are nobody's (as Node), those of
somebody who is signed in are theirs. A challenge is good for LIFE.
"""

import secrets
from datetime import timedelta
from typing import Final

import attrs

from muster.accounts.passkeys import challenge_of
from muster.accounts.rules.attempts import address_key
from muster.errors import Invalid, TooMany
from muster.ids import digest
from muster.pg.database import Transaction
from muster.pg.query import Query

LIFE: Final = timedelta(minutes=5)
LIVE_AN_ADDRESS_MAX: Final = 60


@attrs.frozen(kw_only=True)
class Ceremony:
    """A challenge, and the cookie that it is made of."""

    cookie: str = attrs.field(repr=False)
    challenge: bytes


DELETE_EXPIRED = Query("""
    delete from passkey_challenges where id in (
        select id from passkey_challenges where expires_at < %(now)s
        order by expires_at limit 100)
""")
COUNT_LIVE = Query("""
    select count(*) from passkey_challenges where address = %(address)s and expires_at > %(now)s
""")
INSERT_CHALLENGE = Query("""
    insert into passkey_challenges (owner_id, sha256, address, created_at, expires_at)
    values (%(for_owner)s, %(sha256)s, %(address)s, %(now)s, %(expires_at)s)
""")


async def begin_ceremony(tx: Transaction, address: str) -> Ceremony:
    """As Node or the owner: make a challenge for a browser at this address.

    What stands for a known browser may take its place (`rules.attempts.session_keys`).
    Raises TooMany while one address holds too many that are unused.
    """
    await tx.execute(DELETE_EXPIRED)
    key = address_key(address)
    if await tx.scalar(COUNT_LIVE, address=key) >= LIVE_AN_ADDRESS_MAX:
        wait = int(LIFE.total_seconds())
        raise TooMany("There are too many open questions to passkeys.", retry_after_seconds=wait)
    cookie = secrets.token_urlsafe(32)
    await tx.execute(
        INSERT_CHALLENGE,
        for_owner=getattr(tx.principal, "owner_id", None),
        sha256=digest(cookie),
        address=key,
        expires_at=tx.now + LIFE,
    )
    return Ceremony(cookie=cookie, challenge=challenge_of(cookie))


TAKE = Query("""
    delete from passkey_challenges where sha256 = %(sha256)s and expires_at > %(now)s returning id
""")


async def take_challenge(tx: Transaction, cookie: str) -> bytes:
    """As who began the ceremony: the challenge, this once.

    Raises Invalid when there is none any more: it was used, is too old, or is another's.
    """
    if not cookie or await tx.scalar(TAKE, sha256=digest(cookie)) is None:
        raise Invalid("The question to the passkey is too old: try again.", code="challenge_gone")
    return challenge_of(cookie)
