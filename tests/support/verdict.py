"""After a storm: what the rows and the audit log must say, given what everybody was answered."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs

from muster.drafts.rules import State as DraftState
from muster.messages.rules import State
from muster.pg.database import Database
from muster.pg.query import Query
from muster.principals import Owner
from tests.support.load import Book
from tests.support.program import Program
from tests.support.wild_chief import TurnLog

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


def judge(rows: Rows, books: Sequence[Book], chief: TurnLog) -> None:
    """Hold an owner's rows against what its plugins were answered and its chief was handed."""
    assert [book.odd for book in books] == [[] for _ in books]
    _judge_posts(rows, books)
    _judge_deliveries(rows, chief)
    _judge_claims(rows, books)
    _judge_results(rows, books)


def _judge_posts(rows: Rows, books: Sequence[Book]) -> None:
    """Each answered post is stored once, under the id that was told; nothing else is stored."""
    stored = {(row.plugin, row.external_id): row.id for row in rows.messages}
    answered = {(book.name, name): told for book in books for name, told in book.posted.items()}
    assert len(stored) == len(rows.messages)
    assert stored == answered
    assert rows.audited("plugin.message.received") == _once("message", stored.values())


def _judge_deliveries(rows: Rows, chief: TurnLog) -> None:
    """Each message is settled, was handed over at most once, and is audited once as what it is."""
    assert {row.state for row in rows.messages} <= {State.DELIVERED, State.UNCONFIRMED}
    twice = {one: times for one, times in Counter(chief.handed_over()).items() if times > 1}
    assert twice == {}, "messages that the chief was handed more than once"
    delivered = {row.id for row in rows.messages if row.state is State.DELIVERED}
    assert delivered <= chief.completed()
    assert rows.audited("plugin.delivered") == _once("message", (row.id for row in rows.messages))
    told = {subject: one.state for subject, one in rows.audit["plugin.delivered"].items()}
    assert told == {f"message:{row.id}": row.state.value for row in rows.messages}


def _judge_claims(rows: Rows, books: Sequence[Book]) -> None:
    """No draft is in two claims; one whose answer was lost is unconfirmed."""
    answered = [draft_id for book in books for draft_id in book.claimed]
    assert len(answered) == len(set(answered)), "drafts that were in two claims"
    held = {row.id for row in rows.drafts if row.claimed}
    assert set(answered) <= held
    assert len(held - set(answered)) <= sum(book.lost_claims for book in books)
    states = {row.id: row.state for row in rows.drafts}
    assert {states[one] for one in held - set(answered)} <= {DraftState.UNCONFIRMED}
    assert rows.audited("plugin.draft.claimed") == _once("draft", held)
    assert rows.audited("plugin.draft.filed") == _once("draft", states)


def _judge_results(rows: Rows, books: Sequence[Book]) -> None:
    """Each answered result is what the row says; the rest of what was claimed is unconfirmed."""
    states = {row.id: row.state for row in rows.drafts}
    results = {draft_id: ok for book in books for draft_id, ok in book.results.items()}
    expected = {one: DraftState.SENT if ok else DraftState.FAILED for one, ok in results.items()}
    assert {one: states[one] for one in results} == expected
    reported = {one for one, state in states.items() if state in _REPORTED}
    assert reported == set(results)
    for state in _REPORTED:
        those = [one for one in reported if states[one] is state]
        assert rows.audited(f"plugin.draft.{state.value}") == _once("draft", those)
    kept = {draft_id for book in books for draft_id in book.kept}
    assert {states[one] for one in kept} <= {DraftState.UNCONFIRMED}
    odd = _once("draft", (row.id for row in rows.drafts if row.state is DraftState.UNCONFIRMED))
    assert odd.items() <= rows.audited("plugin.draft.unconfirmed").items()
    final = {row.state for row in rows.drafts}
    assert final <= {*_REPORTED, DraftState.UNCONFIRMED, DraftState.SUPERSEDED}


def judge_listings(program: Program, owner: str, rows: Rows) -> None:
    """What is unconfirmed is what the command line lists as that."""
    listing = ("list", "--owner", owner, "--state", "unconfirmed", "--limit", "500", "--json")
    messages: list[dict[str, Any]] = program.run("messages", *listing).document
    drafts: list[dict[str, Any]] = program.run("drafts", *listing).document
    odd_messages = {row.id for row in rows.messages if row.state is State.UNCONFIRMED}
    odd_drafts = {row.id for row in rows.drafts if row.state is DraftState.UNCONFIRMED}
    assert {one["message_id"] for one in messages} == odd_messages
    assert {one["draft_id"] for one in drafts} == odd_drafts


_REPORTED = (DraftState.SENT, DraftState.FAILED)


def _once(kind: str, ids: Any) -> dict[str, int]:
    return {f"{kind}:{one}": 1 for one in ids}
