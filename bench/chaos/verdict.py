"""What was lost, done twice or left unknown: ledgers against rows, after everything is calm.

*Lost*: a post that was answered 2xx and has no row, or no end; a result that was answered 200 and
is not what the row says; a reply that was let go and is neither sent, failed, unconfirmed nor
superseded; a reply that the row calls sent and no ledger does.

*Sent twice*: two `sent` lines for one draft, or for two drafts of one message.

*Unknown*: what muster calls unconfirmed. Each one is listed with what its plugin knows.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs

from bench.chaos.books import Books, Key
from bench.chaos.rows import DraftRow, MessageRow, Rows
from muster.drafts.rules import State as DraftState
from muster.messages.rules import State


@attrs.define(kw_only=True)
class Verdict:
    """Sentences; none of a kind is the best verdict of that kind."""

    lost: list[str] = attrs.field(factory=list)
    sent_twice: list[str] = attrs.field(factory=list)
    posted_twice: list[str] = attrs.field(factory=list)  # one external id, two messages
    turned_twice: list[str] = attrs.field(factory=list)  # handed over to the chief twice
    claimed_twice: list[str] = attrs.field(factory=list)
    odd: list[str] = attrs.field(factory=list)  # answers and endings that there should not be
    unknown: list[str] = attrs.field(factory=list)
    figures: dict[str, int] = attrs.field(factory=dict)

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost or done twice, and nothing odd was seen; unknown is no fault."""
        return not any((self.lost, self.sent_twice, self.posted_twice, self.turned_twice,
                        self.claimed_twice, self.odd))  # fmt: skip


def judge_ledgers(books: Books) -> Verdict:
    """What the ledgers show by themselves, whatever stands behind the API."""
    verdict = Verdict(odd=list(books.odd))
    verdict.sent_twice += [
        f"draft {draft_id} was sent {times} times"
        for draft_id, times in books.sent.items()
        if times > 1
    ]
    verdict.sent_twice += [
        f"message {name} of {plugin} was answered {times} times"
        for (plugin, name), times in books.sent_to.items()
        if times > 1
    ]
    verdict.claimed_twice += [
        f"draft {draft_id} was claimed {times} times"
        for draft_id, times in books.claimed.items()
        if times > 1
    ]
    verdict.posted_twice += [
        f"{name} of {plugin} is messages {sorted(ids)}, accepted {books.accepted[plugin, name]}"
        for (plugin, name), ids in books.posted.items()
        if len(ids) > 1 or books.accepted[plugin, name] > 1
    ]
    verdict.figures = {
        "posts answered": len(books.posted),
        "replies let go": len(books.approved),
        "replies sent": len(books.sent),
        "results recorded": len(books.recorded),
        "claims without an answer": books.lost_claims,
    }
    return verdict


def judge(books: Books, rows: Sequence[Rows], turns: Iterable[str]) -> Verdict:
    """Hold the ledgers against every owner's rows; `turns` are the ids of those that began."""
    verdict = judge_replies(books, rows, turns, {})
    _judge_posts(verdict, books, {row.id: row for one in rows for row in one.messages})
    return verdict


def judge_replies(
    books: Books, rows: Sequence[Rows], turns: Iterable[str], journals: Mapping[int, str]
) -> Verdict:
    """Judge what became of messages and of their replies, but not how the messages came.

    `journals` says of a draft what its plugin kept beside its ledger.
    """
    verdict = judge_ledgers(books)
    messages = {row.id: row for one in rows for row in one.messages}
    drafts = {row.id: row for one in rows for row in one.drafts}
    _judge_messages(verdict, messages, turns)
    _judge_drafts(verdict, books, messages, drafts, journals)
    verdict.figures |= {
        "messages": len(messages),
        **_states("messages", messages.values()),
        "drafts": len(drafts),
        **_states("drafts", drafts.values()),
    }
    return verdict


def _judge_posts(verdict: Verdict, books: Books, messages: dict[int, MessageRow]) -> None:
    stored: dict[Key, int] = {}
    for row in messages.values():
        key = (row.plugin, row.external_id)
        if key in stored:
            verdict.posted_twice.append(f"{key} has the rows {stored[key]} and {row.id}")
        stored[key] = row.id
    for (plugin, name), ids in books.posted.items():
        found = stored.get((plugin, name))
        if found is None or found not in ids:
            verdict.lost.append(f"{name} was answered as {sorted(ids)} and its row is {found}")
    verdict.odd += [f"{key} is stored, and no post of it was answered"
                    for key in stored if key not in books.posted]  # fmt: skip


def _judge_messages(
    verdict: Verdict, messages: dict[int, MessageRow], turns: Iterable[str]
) -> None:
    for row in sorted(messages.values(), key=lambda row: row.id):
        match row.state:
            case State.QUEUED | State.DELIVERING:
                verdict.lost.append(f"message {row.id} ({row.external_id}) is {row.state.value}")
            case State.UNCONFIRMED:
                verdict.unknown.append(f"message {row.id} ({row.external_id}) is unconfirmed")
            case State.DELIVERED:
                pass
    begun = Counter(int(turn.split(":")[1]) for turn in turns)
    verdict.turned_twice += [f"message {one} was handed over {times} times"
                             for one, times in begun.items() if times > 1]  # fmt: skip
    verdict.lost += [f"message {row.id} ({row.external_id}) is delivered, and no chief saw it"
                     for row in messages.values()
                     if row.state is State.DELIVERED and row.id not in begun]  # fmt: skip


def _judge_drafts(
    verdict: Verdict,
    books: Books,
    messages: dict[int, MessageRow],
    drafts: dict[int, DraftRow],
    journals: Mapping[int, str],
) -> None:
    answered: dict[int, int] = {}
    for row in sorted(drafts.values(), key=lambda row: row.id):
        name = f"draft {row.id} of message {row.message_id} ({_name(messages, row)})"
        state, sent = row.state, books.sent[row.id] > 0
        kept = f"; {journals[row.id]}" if row.id in journals else ""
        told = f"{name} is {state.value}; its ledger: {books.story(row.id)}{kept}"
        if sent:
            if row.message_id in answered:
                other = answered[row.message_id]
                verdict.sent_twice.append(f"{name} and draft {other} were both sent")
            answered[row.message_id] = row.id
        if row.id in books.recorded and state not in (DraftState.SENT, DraftState.FAILED):
            verdict.lost.append(f"{told}: its result was recorded")
        match state:
            case DraftState.UNCONFIRMED:
                verdict.unknown.append(told)
            case DraftState.SENT if not sent:
                verdict.lost.append(told)
            case DraftState.PENDING | DraftState.APPROVED:
                verdict.lost.append(f"{told}, and nobody collects it")
            case DraftState.SENT | DraftState.SUPERSEDED:
                pass
            case _ if sent:
                verdict.odd.append(told)
            case _:
                pass
    verdict.lost += [f"draft {one} was let go and is gone" for one in books.approved - set(drafts)]
    verdict.odd += [f"draft {one} was let go and is {drafts[one].state.value}"
                    for one in books.approved & set(drafts)
                    if drafts[one].state in (DraftState.REJECTED, DraftState.EXPIRED)]  # fmt: skip
    verdict.odd += [f"draft {one} was sent and has no row" for one in set(books.sent) - set(drafts)]


def _name(messages: dict[int, MessageRow], row: DraftRow) -> str:
    message = messages.get(row.message_id)
    return message.external_id if message else "no row"


def _states(kind: str, rows: Iterable[MessageRow | DraftRow]) -> dict[str, int]:
    counted = Counter(row.state.value for row in rows)
    return {f"{kind} {state}": times for state, times in sorted(counted.items())}
