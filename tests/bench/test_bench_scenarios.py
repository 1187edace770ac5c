"""Each scenario runs, quickly, against a real server, and its figures have the promised shape."""

import json
import math
from typing import Any

import pytest
import trio

from bench import command
from bench.__main__ import main
from bench.report import COLUMNS, as_json, as_table
from bench.scale import Scale

# What each scenario's figures are called, as far as the name says what was measured.
ROWS = {
    "fsync": ("8192 B write", "one row"),
    "ingest": ("post, 1 ", "post, 8 ", "post, 32 ", "bare driver", "bare handler"),
    "claim": ("wake, 1 ", "wake, 8 ", "wake, 40 ", "bare driver"),
    "loop": ("post to result", "bare driver", "bare handler"),
    "mailbox": ("tell", "ask", "restart", "memory channel", "task started"),
    "sessions": ("a list told, 20 hosts of 1", "a list told, 8 hosts of 10", "bare driver"),
    "paste": ("queued to proven, 1 ", "queued to proven, 2 ", "bare driver"),
    "growth": ("post, ", "claim, none", "claim, one", "list, "),
}
TARGETS = {"claim": 6, "loop": 1, "sessions": 5, "paste": 2, "growth": 12}
QUICK = tuple(name for name in command.SCENARIOS if name != "growth")

Document = dict[str, Any]


def measured(*names: str) -> tuple[Document, str]:
    """Run scenarios in quick form; the document of `--json`, as a reader gets it, and the table."""
    machine, outcomes = trio.run(command.run, names, Scale(quick=True))
    document: Document = json.loads(json.dumps(as_json(machine, outcomes)))
    return document, as_table(machine, outcomes)


@pytest.fixture(scope="module")
def quick() -> tuple[Document, str]:
    """All scenarios but `growth`, on one server."""
    return measured(*QUICK)


def check_shape(document: Document, table: str, name: str) -> None:
    """The rows and targets of one scenario are there, and every figure can be one."""
    found = document["scenarios"][name]
    names = [row["name"] for row in found["figures"]]
    for expected in ROWS[name]:
        assert any(each.startswith(expected) for each in names), (expected, names)
    assert all(each in table for each in names)
    assert len(found["targets"]) == TARGETS.get(name, 0)
    assert all(isinstance(target["met"], bool) for target in found["targets"])
    for row in found["figures"]:
        rate = row["per_second"]
        assert row["operations"] > 0
        assert 0 < rate["low"] <= rate["median"] <= rate["high"]
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["fsyncs_per_second"]["low"] > 0
        assert row["server_us"] > 0
        assert math.isfinite(row["postgres_us"])


@pytest.mark.parametrize("name", QUICK)
def test_a_scenario_gives_its_figures(quick: tuple[Document, str], name: str) -> None:
    """A quick run has every row of a scenario, its targets with a verdict, and accounts for CPU."""
    check_shape(*quick, name)


def test_the_machine_heads_the_output(quick: tuple[Document, str]) -> None:
    """CPUs, the interpreter and PostgreSQL's settings stand before any figure."""
    document, table = quick
    assert document["machine"]["cpus"] > 0
    assert document["machine"]["postgres"]["fsync"] == "on"
    assert list(document["scenarios"]) == list(QUICK)
    assert "fsync on" in table.splitlines()[1]
    assert '"of a CPU" is how busy the client kept one' in table
    assert "1 clients" not in table
    assert max(map(len, table.splitlines()[3:])) <= COLUMNS


def test_one_approval_wakes_one_claim(quick: tuple[Document, str]) -> None:
    """However many claims are parked, each approval lets exactly one of them look."""
    rows = quick[0]["scenarios"]["claim"]["figures"]
    woken = [row["facts"]["claims woken per approval"] for row in rows if not row["baseline"]]
    assert woken == [1, 1, 1]


@pytest.mark.long
def test_growth_gives_its_figures() -> None:
    """Four servers with histories of their own take turns, and each is held beside the smallest."""
    check_shape(*measured("growth"), "growth")


def test_a_scenario_that_is_unknown_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is none ends with a usage error that lists those there are."""
    with pytest.raises(SystemExit) as ending:
        main(["no-such-thing"])
    assert ending.value.code == 2
    said = capsys.readouterr().err
    assert all(name in said for name in [*command.SCENARIOS, "chaos"])


def test_help_tells_of_chaos(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever asks for help learns of the other program behind the same name."""
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "python -m bench chaos" in capsys.readouterr().out
