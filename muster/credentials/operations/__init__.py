"""The verbs of credentials, with their SQL. They leave no audit row: adding a holder does.

A person's own tokens have a holder in this room; their verbs stand in `personal`.
"""

from muster.credentials.rules import (
    Issue,
    Issued,
    Knock,
    Known,
    ListLive,
    LiveToken,
    NoteSeen,
    Revoke,
    RevokeOne,
)
from muster.ids import new_token
from muster.pg.database import Transaction
from muster.pg.query import Query

INSERT_CREDENTIAL = Query("""
    insert into credentials (owner_id, kind, holder_id, sha256, created_at)
    values (%(owner_id)s, %(kind)s, %(holder_id)s, %(sha256)s, %(now)s)
    returning id
""")


async def issue(tx: Transaction, command: Issue) -> Issued:
    """Make a token for a holder (plugins: "Two ways in": shown once, sha256 stored)."""
    token = new_token(command.kind)
    credential_id = await tx.scalar(
        INSERT_CREDENTIAL,
        kind=command.kind.value,
        holder_id=command.holder_id,
        sha256=token.sha256,
    )
    assert isinstance(credential_id, int)
    return Issued(credential_id=credential_id, token=token)


# One look through the unique index on sha256; the joins are by primary key.
KNOCK = Query("""
    select c.id as credential_id, c.owner_id, c.kind, c.holder_id,
           coalesce(p.name, a.name, h.name, t.name) as holder_name, t.scope
    from credentials c
    join users u on u.id = c.owner_id and u.disabled_at is null
    left join plugins p on c.kind = 'mpl_' and p.id = c.holder_id and p.owner_id = c.owner_id
                       and p.revoked_at is null
    left join agents a on c.kind = 'mag_' and a.id = c.holder_id and a.owner_id = c.owner_id
                      and a.retired_at is null
    left join hosts h on c.kind = 'mmh_' and h.id = c.holder_id and h.owner_id = c.owner_id
                     and h.retired_at is null
    left join personal_tokens t on c.kind = 'mst_' and t.id = c.holder_id
                               and t.owner_id = c.owner_id and t.revoked_at is null
                               and (t.expires_at is null or t.expires_at > %(now)s)
    where c.sha256 = %(sha256)s and c.revoked_at is null
      and coalesce(p.name, a.name, h.name, t.name) is not null
""")


async def knock(tx: Transaction, command: Knock) -> Known | None:
    """As System: whose token this is.

    None for one that is unknown, revoked or expired, whose plugin is revoked or agent retired, or
    whose account is disabled: a door says the same to all of them.
    """
    return await tx.find(KNOCK, Known, sha256=command.sha256)


REVOKE_CREDENTIALS = Query("""
    update credentials set revoked_at = %(now)s
    where owner_id = %(owner_id)s and kind = %(kind)s and holder_id = %(holder_id)s
      and revoked_at is null
""")


async def revoke(tx: Transaction, command: Revoke) -> int:
    """End every live token of a holder; answers how many there were."""
    return await tx.execute(
        REVOKE_CREDENTIALS, kind=command.kind.value, holder_id=command.holder_id
    )


REVOKE_ONE = Query("""
    update credentials set revoked_at = %(now)s
    where owner_id = %(owner_id)s and kind = %(kind)s and holder_id = %(holder_id)s
      and id = %(credential_id)s and revoked_at is null
""")


async def revoke_one(tx: Transaction, command: RevokeOne) -> bool:
    """End one live token of a holder; whether there was such a one."""
    touched = await tx.execute(
        REVOKE_ONE,
        kind=command.kind.value,
        holder_id=command.holder_id,
        credential_id=command.credential_id,
    )
    return touched == 1


LIST_LIVE = Query("""
    select id, holder_id, created_at, last_seen_at from credentials
    where owner_id = %(owner_id)s and kind = %(kind)s and revoked_at is null
    order by holder_id, id
    limit %(limit)s
""")


async def list_live(tx: Transaction, command: ListLive) -> list[LiveToken]:
    """The owner's live tokens of a kind."""
    return await tx.all(LIST_LIVE, LiveToken, kind=command.kind.value, limit=command.limit)


# Batches are written late and may overtake each other: the newer time stays.
NOTE_SEEN = Query("""
    update credentials set last_seen_at = greatest(last_seen_at, %(now)s)
    where owner_id = %(owner_id)s and id = any(%(credential_ids)s)
""")


async def note_seen(tx: Transaction, command: NoteSeen) -> None:
    """Keep when credentials were last used; at most once a minute each, by whoever batches it."""
    await tx.execute(NOTE_SEEN, credential_ids=sorted(command.credential_ids))
