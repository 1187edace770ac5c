"""What can be asked of a storm, and how its outcome is told."""

import json
from collections import Counter

import pytest

from bench import dovecot
from bench.__main__ import main
from bench.chaos import command
from bench.chaos.command import UNKNOWN_MAX, as_document, as_lines
from bench.chaos.forms import Form, choose_form
from bench.chaos.nemeses import Blow, Kind
from bench.chaos.outage import measure_outages
from bench.chaos.scene import Say
from bench.chaos.storm import Outcome
from bench.chaos.verdict import Verdict


@pytest.mark.parametrize(
    "words",
    [
        "nonsense",
        "--kills -1",
        "--kills 0",
        "--messages 0",
        "--messages many",
        "--minutes 0",
        "--minutes 1440.1",
        "--minutes nan",
        "--against nobody",
        "--against queue --mail",
        "--mail --hosts",
        "--hosts --kills 3",
        "--mail --kills 3",
        "--mail --messages 3",
    ],
)
def test_what_cannot_be_is_a_usage_error(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The program ends with 2 and a line that names what is wrong."""
    with pytest.raises(SystemExit) as ending:
        main(["chaos", *words.split()])
    assert ending.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words.split(maxsplit=1)[0] in said.err.splitlines()[-1]


def test_where_there_is_no_dovecot_a_sentence_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A storm over mail needs a dovecot, and says which package that is."""
    monkeypatch.setattr(dovecot, "DOVECOT", dovecot.DOVECOT / "nowhere")
    assert main(["chaos", "--mail", "--seed", "1"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1] == "dovecot is not installed (Debian: dovecot-imapd)"


def outcome_of(*blows: Blow, **sentences: list[str]) -> Outcome:
    """A storm with these blows and a verdict of these sentences."""
    return Outcome(
        verdict=Verdict(figures={"messages": 300}, **sentences),
        outages=measure_outages([1.0, 2.0], blows, ended=3.0),
        blows=list(blows),
        deaths=Counter(),
        seconds=73.0,
    )


def killed(kind: Kind, ready_seconds: float) -> Blow:
    """One that was ready again so long after."""
    return Blow(kind=kind, at=1.0, until=2.0, ready_seconds=ready_seconds)


def test_the_verdict_comes_first_and_the_unknowns_last() -> None:
    """People read the verdict, then the faults, the figures, and in the end what nobody knows."""
    outcome = outcome_of(lost=["draft 7 is gone"], unknown=["draft 8 is unconfirmed"])
    lines = as_lines(outcome, seed=5)
    assert lines[0] == (
        "lost 1, sent twice 0, posted twice 0, handed over twice 0, claimed twice 0, odd 0,"
        " unknown 1"
    )
    assert lines[1:4] == ["lost: 1", "  draft 7 is gone", "seed 5, in 73 s:"]
    assert "     300  messages" in lines[4]
    assert lines[-3:] == ["PostgreSQL was not killed", "unknown: 1", "  draft 8 is unconfirmed"]


@pytest.mark.parametrize(("seconds", "verdict"), [(2.5, "met"), (5.5, "NOT met")])
def test_readiness_after_postgresqls_return_has_a_target(seconds: float, verdict: str) -> None:
    """The figure stands beside its 5 s, for people and for programs."""
    outcome = outcome_of(killed(Kind.SERVER, 9.0), killed(Kind.BACKEND, seconds))
    told = f"until the server was ready: {seconds:.2f} s, at most 5: {verdict}"
    assert as_lines(outcome, seed=5)[-1].endswith(told)
    (target,) = json.loads(json.dumps(as_document(outcome)))["targets"]
    assert target["met"] is (verdict == "met")


@pytest.mark.parametrize(("more", "last"), [(0, "  one"), (3, "  … and 3 more: --json lists all")])
def test_only_very_many_unknowns_are_cut(more: int, last: str) -> None:
    """Every unknown is listed up to 200; what people are not shown of more, a program is."""
    outcome = outcome_of(unknown=["one"] * (UNKNOWN_MAX + more))
    lines = as_lines(outcome, seed=5)
    assert lines.count("  one") == UNKNOWN_MAX
    assert lines[-1] == last
    assert as_document(outcome)["unknown"] == ["one"] * (UNKNOWN_MAX + more)


def test_a_storm_without_any_success_is_told_in_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no client was answered even once there is no verdict, and the exit code is 2."""

    async def storm(_form: Form, _say: Say) -> Outcome:
        measure_outages([], [], ended=1.0)
        return outcome_of()

    monkeypatch.setattr(command, "run_storm", storm)
    assert main(["chaos", "--seed", "1"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1].startswith("nobody got anything done")


@pytest.mark.parametrize(
    ("minutes", "seconds"), [(None, 400.0), (60.0, 400.0), (1.0, 60.0), (0.1, 6.0)]
)
def test_the_load_ends_with_the_minutes(minutes: float | None, seconds: float) -> None:
    """The load lasts as long as the kills do, and never longer than --minutes."""
    form = choose_form(kills=100, messages=50, seed=1, minutes=minutes)
    assert form.load_seconds == pytest.approx(seconds)
