"""What a storm over mirror hosts is judged by, and that one passes."""

import pytest
import trio

from bench.chaos.hosts import SendRow, judge_sends, run_host_storm
from bench.chaos.ledger import Line, What
from muster.mirror.send_rules import SendState


def lines(*told: tuple[What, int, str]) -> list[Line]:
    """Lines of a host's ledger."""
    return [Line(what=what, by="box", id=number, detail=detail) for what, number, detail in told]


def rows(**states: str) -> list[SendRow]:
    """Texts as the database has them: n7="pasted"."""
    return [SendRow(id=int(name[1:]), state=SendState(state)) for name, state in states.items()]


TYPED = (What.SENT, 1, "")
PROVEN = (What.RESULT, 1, "pasted")


def test_what_was_typed_once_and_proven_is_good() -> None:
    """So is what nobody typed and nobody says was; what is unconfirmed is unknown."""
    told = lines((What.POSTED, 1, ""), TYPED, PROVEN, (What.FAILED, 2, ""))
    verdict = judge_sends(told, rows(n1="pasted", n2="cancelled", n3="lost", n4="unconfirmed"))
    assert verdict.is_good
    assert verdict.unknown == ["text 4 is unconfirmed"]
    assert verdict.figures["texts turned away by hosts"] == 1


@pytest.mark.parametrize(
    ("told", "state", "kind", "sentence"),
    [
        ([TYPED, TYPED, PROVEN], "pasted", "sent_twice", "text 1 was typed 2 times"),
        ([], "pasted", "lost", "text 1 is pasted, and no host typed it"),
        ([], "queued", "lost", "text 1 is queued still"),
        ([], "offered", "lost", "text 1 is offered still"),
        ([TYPED], "cancelled", "odd", "text 1 was typed and is cancelled"),
        ([TYPED], "lost", "odd", "text 1 was typed and is lost"),
        ([PROVEN], "refused", "odd", "text 1 was proven and is SendState.REFUSED"),
        ([(What.ODD, 1, "handed out again")], "lost", "odd", "box: text 1 handed out again"),
        ([(What.POSTED, 2, "")], "lost", "lost", "text 2 was queued and is gone"),
    ],
)
def test_what_is_wrong_is_said(
    told: list[tuple[What, int, str]], state: str, kind: str, sentence: str
) -> None:
    """Twice, lost and odd are told apart."""
    verdict = judge_sends(lines(*told), rows(n1=state))
    assert getattr(verdict, kind) == [sentence]
    assert not verdict.is_good


@pytest.mark.long
@pytest.mark.rule(313)
def test_a_storm_over_hosts_passes() -> None:
    """Servers, databases and hosts are killed with texts in hand, and none is typed twice."""

    async def storm() -> None:
        outcome = await run_host_storm(minutes=0.5, seed=1, say=lambda _: None)
        assert outcome.verdict.is_good, outcome.verdict
        assert outcome.verdict.figures["texts typed"] > 10

    trio.run(storm)
