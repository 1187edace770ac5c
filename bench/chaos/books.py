"""The ledgers of a run, sorted by what they tell of: posts, replies, owners."""

from collections import Counter, defaultdict
from collections.abc import Iterable

import attrs

from bench.chaos.ledger import Line, What

Key = tuple[str, str]  # a plugin and an external id


@attrs.define(kw_only=True)
class Books:
    """What all clients wrote down."""

    posted: dict[Key, set[int]] = attrs.field(factory=lambda: defaultdict(set))
    injected: dict[Key, str] = attrs.field(factory=dict)  # mails in mailboxes: their Message-IDs
    accepted: Counter[Key] = attrs.field(factory=Counter)  # answered 202 in a ledger that says so
    sent: Counter[int] = attrs.field(factory=Counter)
    sent_to: Counter[Key] = attrs.field(factory=Counter)  # how often a message was answered
    claimed: Counter[int] = attrs.field(factory=Counter)
    told: dict[int, list[What]] = attrs.field(factory=lambda: defaultdict(list))
    approved: set[int] = attrs.field(factory=set)
    rejected: set[int] = attrs.field(factory=set)
    recorded: set[int] = attrs.field(factory=set)  # drafts whose result was answered 200
    lost_claims: int = 0
    deaths: Counter[str] = attrs.field(factory=Counter)
    odd: list[str] = attrs.field(factory=list)
    successes: list[float] = attrs.field(factory=list)  # times of answers that did something
    sendings: list[float] = attrs.field(factory=list)  # times of the SENT lines

    def story(self, draft_id: int) -> str:
        """What the plugins know of a draft, in the order in which they wrote it down."""
        told = [what.value for what in self.told.get(draft_id, ())]
        return ", ".join(told) if told else "nothing"


def read_books(lines: Iterable[Line]) -> Books:
    """Sort the lines, which are in the order of time."""
    books = Books()
    for line in lines:
        _enter(books, line)
    return books


def _enter(books: Books, line: Line) -> None:
    match line.what:
        case What.POSTED | What.CLAIMED | What.SENT | What.RESULT:
            _enter_step(books, line)
        case What.INTENT if line.detail:
            books.injected[line.by, line.external_id] = line.detail
        case What.APPROVED:
            books.approved.add(line.draft_id)
        case What.REJECTED:
            books.rejected.add(line.draft_id)
        case What.LOST_CLAIM:
            books.lost_claims += 1
        case What.DEATH:
            books.deaths[line.detail] += 1
        case What.ODD:
            books.odd.append(f"{line.by}: {line.status} {line.external_id} {line.detail}")
        case _:
            pass
    if line.draft_id and line.what not in (What.APPROVED, What.REJECTED):
        books.told[line.draft_id].append(line.what)


def _enter_step(books: Books, line: Line) -> None:
    """A step of a message or of its reply that was done."""
    key = (line.by, line.external_id)
    match line.what:
        case What.POSTED:
            books.posted[key].add(line.id)
            books.accepted[key] += line.status == 202
        case What.CLAIMED:
            books.claimed[line.draft_id] += 1
        case What.SENT:
            books.sent[line.draft_id] += 1
            books.sent_to[key] += 1
            books.sendings.append(line.at)
            return
        case _ if line.detail != "recorded":
            books.odd.append(f"{line.by}: the result of draft {line.draft_id} is {line.detail}")
            return
        case _:
            books.recorded.add(line.draft_id)
    books.successes.append(line.at)
