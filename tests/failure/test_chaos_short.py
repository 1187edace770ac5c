"""The short form of `python -m bench chaos`, and the proof that its ledgers can see faults."""

import random

import attrs
import pytest

from bench.chaos.against import run_against_queue
from bench.chaos.forms import choose_form
from bench.chaos.nemeses import Kind
from bench.chaos.storm import run_storm

READY_SECONDS_MAX = 5.0  # after PostgreSQL's return, without a restart of the server
SEED = random.SystemRandom().randrange(1_000_000)  # printed by a failing assertion


@pytest.mark.rule(24, 34, 84, 97, 99, 218, 221, 222)
async def test_ten_kills_lose_nothing_and_send_nothing_twice() -> None:
    """Whatever is killed, ledgers outside of the server agree with its rows."""
    told: list[str] = []
    form = choose_form(kills=10, messages=300, seed=SEED, minutes=None)
    outcome = await run_storm(form, told.append)
    assert outcome.verdict.is_good, (SEED, outcome.verdict, told)
    struck = [blow.kind for blow in outcome.blows]
    assert struck.count(Kind.SERVER) == 10
    assert {Kind.POSTMASTER, Kind.BACKEND, Kind.SESSION, Kind.LISTENER, Kind.CLIENT} <= set(struck)
    assert outcome.outages.postgres_ready_seconds < READY_SECONDS_MAX
    # A storm in which nobody did anything would be judged well too.
    assert outcome.verdict.figures["messages"] >= 300
    assert outcome.verdict.figures["replies sent"] >= 200


async def test_the_same_ledgers_find_what_a_plain_queue_does_twice() -> None:
    """Against a queue that hands out at least once, replies that were sent twice are seen."""
    form = choose_form(kills=4, messages=60, seed=SEED, minutes=None)
    # Clients that die often: few of their deaths fall between a reply and its result.
    form = attrs.evolve(form, deadly=0.08)
    outcome = await run_against_queue(form, lambda _line: None)
    verdict = outcome.verdict
    again = [sentence for sentence in verdict.sent_twice if sentence.startswith("draft")]
    assert again, (SEED, verdict)
    assert verdict.posted_twice, (SEED, verdict)
    assert (verdict.lost, verdict.odd) == ([], []), SEED
