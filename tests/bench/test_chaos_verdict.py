"""The verdict of a storm sees each kind of fault where there is one, and none where not."""

from pathlib import Path

import pytest

from bench.chaos.books import Books, read_books
from bench.chaos.ledger import Ledger, Line, What, read
from bench.chaos.mail import judge_mails
from bench.chaos.nemeses import Blow, Kind
from bench.chaos.outage import measure_outages
from bench.chaos.parties import share
from bench.chaos.rows import DraftRow, MessageRow, Rows
from bench.chaos.verdict import Verdict, judge

TURN = "message:1:1"


def message(number: int = 1, *, state: str = "delivered", external_id: str = "m") -> MessageRow:
    """A message of plugin `p`."""
    return MessageRow(id=number, external_id=external_id, state=state, plugin="p")


def draft(number: int = 7, *, state: str = "sent", to: int = 1) -> DraftRow:
    """A reply that was claimed."""
    return DraftRow(id=number, message_id=to, state=state, claimed=True)


def line(what: What, *, draft_id: int = 0, number: int = 0, detail: str = "") -> Line:
    """A line of plugin `p` about message `m`."""
    return Line(
        what=what, by="p", external_id="m", draft_id=draft_id, id=number, status=202, detail=detail
    )


POSTED = line(What.POSTED, number=1)
APPROVED = line(What.APPROVED, draft_id=7)
CLAIMED = line(What.CLAIMED, draft_id=7)
SENT = line(What.SENT, draft_id=7)
RECORDED = line(What.RESULT, draft_id=7, detail="recorded")
ALL = (POSTED, APPROVED, CLAIMED, SENT, RECORDED)


def found(
    lines: tuple[Line, ...] = ALL,
    messages: tuple[MessageRow, ...] = (message(),),
    drafts: tuple[DraftRow, ...] = (draft(),),
    turns: tuple[str, ...] = (TURN,),
) -> Verdict:
    """The verdict of so little a storm."""
    rows = Rows(messages=list(messages), drafts=list(drafts), audit={})
    return judge(read_books(lines), [rows], turns)


def test_a_message_that_went_its_whole_way_is_good() -> None:
    """Ledgers and rows that agree are a good verdict, without anything unknown."""
    verdict = found()
    assert verdict.is_good
    assert verdict.unknown == []


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        ("lost", found(messages=(), drafts=(), lines=(POSTED,))),
        ("lost", found(messages=(message(2),), drafts=(), lines=(POSTED,))),
        ("lost", found(messages=(message(state="delivering"),), drafts=(), lines=(POSTED,))),
        ("lost", found(messages=(message(state="queued"),), drafts=(), lines=(POSTED,))),
        ("lost", found(turns=())),
        ("lost", found(lines=(POSTED, APPROVED, CLAIMED, RECORDED))),
        ("lost", found(lines=(POSTED, APPROVED), drafts=())),
        ("lost", found(lines=(POSTED, APPROVED), drafts=(draft(state="approved"),))),
        ("lost", found(drafts=(draft(state="unconfirmed"),))),
        ("sent_twice", found(lines=(*ALL, SENT))),
        (
            "sent_twice",
            found(lines=(*ALL, line(What.SENT, draft_id=8)), drafts=(draft(), draft(8))),
        ),
        ("claimed_twice", found(lines=(*ALL, CLAIMED))),
        ("posted_twice", found(lines=(*ALL, line(What.POSTED, number=2)))),
        ("posted_twice", found(lines=(*ALL, POSTED))),
        ("posted_twice", found(messages=(message(), message(2)), turns=(TURN, "message:2:1"))),
        ("turned_twice", found(turns=(TURN, "message:1:2"))),
        ("odd", found(drafts=(draft(state="rejected"),))),
        ("odd", found(drafts=(draft(state="failed"),))),
        ("odd", found(lines=(*ALL, line(What.ODD)))),
        ("odd", found(lines=(*ALL, line(What.RESULT, draft_id=7, detail="conflict")))),
        ("odd", found(messages=(message(), message(2, external_id="other")))),
    ],
)
def test_each_fault_is_seen(kind: str, verdict: Verdict) -> None:
    """A storm with one fault is not good, and the fault is told as what it is."""
    assert not verdict.is_good
    assert getattr(verdict, kind)


def test_what_is_unknown_is_listed_and_is_no_fault() -> None:
    """An unconfirmed reply is told with what its plugin knows, and so is an unconfirmed message."""
    lines = (POSTED, APPROVED, CLAIMED, line(What.SENDING, draft_id=7))
    verdict = found(
        lines=lines,
        messages=(message(state="unconfirmed"),),
        drafts=(draft(state="unconfirmed"),),
    )
    assert verdict.is_good
    assert len(verdict.unknown) == 2
    assert "claimed, sending" in verdict.unknown[1]


def test_a_torn_line_is_left_out_and_the_next_life_goes_on(tmp_path: Path) -> None:
    """A ledger that a kill cut in mid-line keeps every whole line, and takes new ones."""
    path = tmp_path / "ledger"
    with Ledger(path) as ledger:
        ledger.write(What.POSTED, "p", external_id="a", id=1)
    with path.open("ab") as file:
        file.write(b'{"what":"sent","by":"p","dra')
    with Ledger(path) as ledger:
        ledger.write(What.POSTED, "p", external_id="b", id=2)
    assert [one.external_id for one in read(path)] == ["a", "b"]


def test_an_outage_is_what_nobody_caused() -> None:
    """The time in which the server was down does not count; what follows it does."""
    down = Blow(kind=Kind.SERVER, at=12.0, until=15.0, ready_seconds=2.5)
    outages = measure_outages([10.0, 11.0, 17.0], [down], began=10.0, ended=18.0)
    assert (outages.silence_seconds, outages.outage_seconds) == (6.0, 3.0)
    assert outages.server_ready_seconds == 2.5


def test_no_plugin_gets_more_than_its_allowance() -> None:
    """Messages are shared out over plugins of at most 50, and those over the owners."""
    shares = share(1030, 20)
    counts = [count for each in shares for count in each]
    assert sum(counts) == 1030
    assert max(counts) == 50
    assert len(shares) == 20


def test_empty_books_say_nothing() -> None:
    """A draft that no ledger tells of has no story."""
    assert Books().story(7) == "nothing"


def test_each_mail_is_one_message() -> None:
    """A mail in a mailbox without a message is lost, and a message without a mail is odd."""
    intent = Line(what=What.INTENT, by="p", external_id="m", detail="<m1@away.test>")
    books = read_books([intent])
    good, lost, odd = Verdict(), Verdict(), Verdict()
    judge_mails(good, books, [Rows(messages=[message()], drafts=[], audit={})])
    judge_mails(lost, books, [Rows(messages=[], drafts=[], audit={})])
    both = [message(), message(2, external_id="other")]
    judge_mails(odd, books, [Rows(messages=both, drafts=[], audit={})])
    assert good.is_good
    assert lost.lost == ["mail <m1@away.test> of p is no message"]
    assert odd.odd
