"""After a storm: what the rows and the audit log must say, given what everybody was answered."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from bench.chaos.rows import Rows
from muster.drafts.rules import State as DraftState
from muster.messages.rules import State
from tests.support.load import Book
from tests.support.program import Program
from tests.support.wild_chief import TurnLog


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
