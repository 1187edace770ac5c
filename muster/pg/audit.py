"""The audit log: what was done, by whom, to what. Append-only; the database refuses the rest."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import attrs

from muster.outcomes import Fact
from muster.pg.driver import json
from muster.pg.query import Query
from muster.principals import Principal

if TYPE_CHECKING:
    from muster.pg.database import Transaction

LIMIT_MAX = 500


@attrs.frozen(kw_only=True)
class AuditRow:
    """One fact as it was written; `subject` is `kind:id`, `via` the door it came through."""

    id: int
    at: datetime
    actor: str
    via: str
    action: str
    subject: str
    data: Mapping[str, object]


RECORD = Query(
    """
    insert into audit (owner_id, at, actor, via, action, subject, data)
    values (%(owner_id)s, %(now)s, %(actor)s, %(via)s, %(action)s, %(subject)s, %(data)s)
    """
)


def values(principal: Principal, fact: Fact) -> Mapping[str, object]:
    """The parameters of RECORD for a fact, in the name of whoever acts."""
    return {
        "actor": principal.actor,
        "via": principal.via,
        "action": fact.action,
        "subject": fact.subject,
        "data": json(fact.data),
    }


# An id grows in the order of insertion, not of commits: a reader that pages backwards by it misses
# nothing that was committed before its first page.
LIST = Query(
    """
    select id, at, actor, via, action, subject, data from audit
    where owner_id = %(owner_id)s and id < coalesce(%(before_id)s, 9223372036854775807)
    order by id desc limit %(limit)s
    """
)


async def list_audit(
    tx: "Transaction", limit: int = 100, before_id: int | None = None
) -> list[AuditRow]:
    """The owner's facts, newest first; at most LIMIT_MAX, those below `before_id` if given."""
    return await tx.all(LIST, AuditRow, limit=min(limit, LIMIT_MAX), before_id=before_id)
