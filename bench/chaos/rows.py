"""What the database says at the end: an owner's messages, drafts and counts of audit rows."""

import attrs

from muster.drafts.rules import State as DraftState
from muster.messages.rules import State
from muster.pg.database import Database
from muster.pg.query import Query
from muster.principals import Owner

MESSAGES = Query("""
    select m.id, m.external_id, m.state, p.name as plugin
    from messages m join plugins p on p.id = m.plugin_id
    where m.owner_id = %(owner_id)s
""")

DRAFTS = Query("""
    select id, message_id, state, claimed_at is not null as claimed from drafts
    where owner_id = %(owner_id)s
""")

AUDIT = Query("""
    select action, subject, count(*) as times, min(data->>'state') as state from audit
    where owner_id = %(owner_id)s group by action, subject
""")

LEFT = Query("""
    select count(*) from messages
    where owner_id = %(owner_id)s and state in ('queued', 'delivering')
""")

UNSENT = Query("""
    select count(*) from drafts
    where owner_id = %(owner_id)s and claimed_at is null and state in ('pending', 'approved')
""")


@attrs.frozen(kw_only=True)
class MessageRow:
    """What is judged of a message."""

    id: int
    external_id: str
    state: State = attrs.field(converter=State)
    plugin: str


@attrs.frozen(kw_only=True)
class DraftRow:
    """What is judged of a draft."""

    id: int
    message_id: int
    state: DraftState = attrs.field(converter=DraftState)
    claimed: bool


@attrs.frozen(kw_only=True)
class AuditCount:
    """How often something was written of a thing; `state` is what the row says of it."""

    action: str
    subject: str
    times: int
    state: str | None


@attrs.frozen(kw_only=True)
class Rows:
    """An owner's rows."""

    messages: list[MessageRow]
    drafts: list[DraftRow]
    audit: dict[str, dict[str, AuditCount]]

    def audited(self, action: str) -> dict[str, int]:
        """How often the action was written of each subject."""
        return {subject: one.times for subject, one in self.audit.get(action, {}).items()}


async def read_rows(db: Database, owner: Owner) -> Rows:
    """Read what is judged, in one transaction."""
    async with db.transaction(owner) as tx:
        counts = await tx.all(AUDIT, AuditCount)
        audit: dict[str, dict[str, AuditCount]] = {}
        for one in counts:
            audit.setdefault(one.action, {})[one.subject] = one
        return Rows(
            messages=await tx.all(MESSAGES, MessageRow),
            drafts=await tx.all(DRAFTS, DraftRow),
            audit=audit,
        )


async def count(db: Database, owner: Owner, query: Query) -> int:
    """Count by LEFT or UNSENT."""
    async with db.transaction(owner) as tx:
        return int(await tx.scalar(query))
