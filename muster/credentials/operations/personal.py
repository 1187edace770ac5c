"""A person's own tokens (`mst_`), for programs that act as them at /api/*.

A token's row here is the holder of its credential. Its name is free again once it is revoked; one
that has expired keeps its name until then, so that a person sees which of theirs it is.
"""

from muster.credentials.operations import issue, revoke
from muster.credentials.rules import (
    AddPersonal,
    Issue,
    ListPersonal,
    PersonalToken,
    Revoke,
    RevokePersonal,
    expiry_of,
)
from muster.errors import Conflict, NotFound
from muster.ids import CredentialKind
from muster.outcomes import Fact
from muster.pg.database import Transaction
from muster.pg.query import Query

# The clock is asked for first, because the time is known after a transaction's first statement.
NOW = Query("select %(now)s::timestamptz")

# Two that add one name: the second waits for the first to commit and then inserts nothing.
INSERT_PERSONAL = Query("""
    insert into personal_tokens (owner_id, name, scope, created_at, expires_at)
    values (%(owner_id)s, %(name)s, %(scope)s, %(now)s, %(expires_at)s)
    on conflict do nothing
    returning id, name, scope, created_at, expires_at, null::timestamptz as last_seen_at, revoked_at
""")


async def add_personal(tx: Transaction, command: AddPersonal) -> tuple[PersonalToken, str]:
    """Make a token and answer its text, which is shown this once.

    Raises Invalid for a bad name or time, Conflict while a live token has the name.
    """
    expires_at = expiry_of(command, await tx.scalar(NOW))
    token = await tx.find(
        INSERT_PERSONAL,
        PersonalToken,
        name=command.name,
        scope=command.scope,
        expires_at=expires_at,
    )
    if token is None:
        raise Conflict(f"There is a token named {command.name} already.", code="name_taken")
    issued = await issue(tx, Issue(kind=CredentialKind.PERSONAL, holder_id=token.id))
    data = {"name": token.name, "scope": token.scope.value}
    await tx.record(Fact(action="token.added", subject=f"token:{token.id}", data=data))
    return token, issued.token.text


LIST_PERSONAL = Query("""
    select t.id, t.name, t.scope, t.created_at, t.expires_at, t.revoked_at, c.last_seen_at
    from personal_tokens t
    join credentials c on c.owner_id = t.owner_id and c.kind = 'mst_' and c.holder_id = t.id
    where t.owner_id = %(owner_id)s
      and (%(ended_too)s::boolean or t.revoked_at is null)
    order by t.id desc limit %(limit)s
""")


async def list_personal(tx: Transaction, command: ListPersonal) -> list[PersonalToken]:
    """List the owner's tokens; an expired one stands there until it is revoked."""
    return await tx.all(
        LIST_PERSONAL, PersonalToken, ended_too=command.ended_too, limit=command.limit
    )


REVOKE_PERSONAL = Query("""
    update personal_tokens t set revoked_at = %(now)s
    where owner_id = %(owner_id)s and name = %(name)s and revoked_at is null
    returning id, name, scope, created_at, expires_at, null::timestamptz as last_seen_at, revoked_at
""")


async def revoke_personal(tx: Transaction, command: RevokePersonal) -> PersonalToken:
    """End a token at once; NotFound when no live one has the name."""
    token = await tx.find(REVOKE_PERSONAL, PersonalToken, name=command.name)
    if token is None:
        raise NotFound(f"There is no live token named {command.name}.")
    await revoke(tx, Revoke(kind=CredentialKind.PERSONAL, holder_id=token.id))
    data = {"name": token.name}
    await tx.record(Fact(action="token.revoked", subject=f"token:{token.id}", data=data))
    return token
