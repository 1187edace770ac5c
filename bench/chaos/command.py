"""The command line of the storms, and what is printed of one."""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import attrs
import trio

from bench.arithmetic import Target
from bench.chaos.against import run_against_queue
from bench.chaos.children import ChaosError
from bench.chaos.forms import choose_form
from bench.chaos.hosts import run_host_storm
from bench.chaos.mail import run_mail_storm
from bench.chaos.nemeses import Kind
from bench.chaos.storm import Outcome, run_storm
from bench.chaos.verdict import Verdict
from muster.clients.stopping import until_stopped

FAULTS = (
    ("lost", "lost"),
    ("sent twice", "sent_twice"),
    ("posted twice", "posted_twice"),
    ("handed over twice", "turned_twice"),
    ("claimed twice", "claimed_twice"),
    ("odd", "odd"),
)
UNKNOWN = ("unknown", "unknown")
LISTED = (*FAULTS, UNKNOWN)
SHORT_KILLS, SHORT_MESSAGES = 10, 400
MAIL_MINUTES = 60.0
HOST_MINUTES = 5.0
MINUTES_MAX = 24 * 60.0
COUNT_MAX = 1_000_000
FAULTS_MAX = 50  # sentences of a kind that people are shown; --json has all
UNKNOWN_MAX = 200
POSTGRES_READY_SECONDS = 5.0


def main(arguments: Sequence[str]) -> int:
    """Run a storm; 1 when something was lost or done twice, 2 when it came to no verdict.

    Against the queue it is the other way round: 1 when nothing was seen to be done twice.
    """
    options = _parse(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    _say(f"seed {seed}")

    async def run() -> Outcome:
        if options.mail:
            minutes = options.minutes or MAIL_MINUTES
            return await run_mail_storm(minutes=minutes, seed=seed, say=_say)
        if options.hosts:
            minutes = options.minutes or HOST_MINUTES
            return await run_host_storm(minutes=minutes, seed=seed, say=_say)
        form = choose_form(
            kills=options.kills or SHORT_KILLS,
            messages=options.messages or SHORT_MESSAGES,
            seed=seed,
            minutes=options.minutes,
        )
        if options.against == "queue":
            return await run_against_queue(form, _say)
        return await run_storm(form, _say)

    outcome: Outcome | None = None
    broken: list[str] = []
    try:
        outcome = trio.run(until_stopped, run)
    except* ChaosError as group:
        broken = [str(error) for error in _leaves(group)]
    if outcome is None:
        print("\n".join(broken) or "stopped", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"seed": seed, **as_document(outcome)}, indent=2))
    else:
        print("\n".join(as_lines(outcome, seed=seed)))
    if options.against == "queue":
        return 0 if outcome.verdict.sent_twice else 1
    return 0 if outcome.verdict.is_good else 1


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options; what cannot be, or would say nothing, is a usage error."""
    parser = argparse.ArgumentParser(prog="python -m bench chaos", description="Break everything.")
    parser.add_argument("--kills", type=_count, help=f"of the server, from 1 [{SHORT_KILLS}]")
    parser.add_argument("--messages", type=_count, help=f"to post, from 1 [{SHORT_MESSAGES}]")
    parser.add_argument("--seed", type=int, help="what the nemeses follow [a random one]")
    parser.add_argument(
        "--minutes", type=_minutes,
        help=f"strike and load no longer, above 0 and at most {MINUTES_MAX:g}; it calms down after",
    )  # fmt: skip
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--against", choices=["queue"], help="a plain queue, in which the ledgers must find faults"
    )
    kind.add_argument(
        "--mail",
        action="store_true",
        help=f"over `muster mail` with dovecot and SMTP, for --minutes [{MAIL_MINUTES:g}]",
    )
    kind.add_argument(
        "--hosts",
        action="store_true",
        help=f"over mirror hosts and what waits in queues, for --minutes [{HOST_MINUTES:g}]",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options = parser.parse_args(arguments)
    if (options.mail or options.hosts) and (options.kills or options.messages):
        kind_name = "--mail" if options.mail else "--hosts"
        parser.error(f"{kind_name} goes by --minutes: --kills and --messages say nothing there")
    return options


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= (number := int(text)) <= COUNT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {COUNT_MAX:,}")
    return number


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes <= MINUTES_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0 and at most {MINUTES_MAX:g}")
    return minutes


def as_document(outcome: Outcome) -> dict[str, object]:
    """The outcome for a program."""
    verdict = outcome.verdict
    return {
        "good": verdict.is_good,
        "seconds": outcome.seconds,
        **{name: getattr(verdict, name) for _, name in LISTED},
        "figures": verdict.figures,
        "outages": attrs.asdict(outcome.outages),
        "targets": [{**attrs.asdict(one), "met": one.met} for one in _targets(outcome)],
        "blows": dict(_count_blows(outcome)),
        "deaths": dict(outcome.deaths),
        "trickled": dict(outcome.trickled),
    }


def as_lines(outcome: Outcome, *, seed: int) -> list[str]:
    """The outcome for people: the verdict, the faults, what was done, and what nobody knows."""
    verdict, outages = outcome.verdict, outcome.outages
    counts = {title: len(getattr(verdict, name)) for title, name in LISTED}
    blows = [f"  {times:>6}  {name}" for name, times in sorted(_count_blows(outcome).items())]
    deaths = [
        f"  {times:>6}  a client killed itself, its last step being {moment!r}"
        for moment, times in sorted(outcome.deaths.items())
    ]
    slow = [f"  {times:>6}  {name}" for name, times in sorted(outcome.trickled.items())]
    return [
        ", ".join(f"{title} {count}" for title, count in counts.items()),
        *(line for title, name in FAULTS for line in _sentences(verdict, title, name, FAULTS_MAX)),
        f"seed {seed}, in {outcome.seconds:.0f} s:",
        *blows,
        *deaths,
        *slow,
        *(f"  {times:>6}  {name}" for name, times in verdict.figures.items()),
        f"longest time in which nobody got anything done: {outages.silence_seconds:.2f} s",
        f"the same, while the server should have been up: {outages.outage_seconds:.2f} s",
        f"a killed server was ready within {outages.server_ready_seconds:.2f} s",
        *([target.as_line() for target in _targets(outcome)] or ["PostgreSQL was not killed"]),
        *_sentences(verdict, *UNKNOWN, UNKNOWN_MAX),
    ]


def _sentences(verdict: Verdict, title: str, name: str, most: int) -> list[str]:
    """Those of a kind below its count, as many as a person reads; none for none."""
    sentences: list[str] = getattr(verdict, name)
    lines = [f"  {sentence}" for sentence in sentences[:most]]
    if len(sentences) > most:
        lines.append(f"  … and {len(sentences) - most} more: --json lists all")
    return [f"{title}: {len(sentences)}", *lines] if lines else []


def _targets(outcome: Outcome) -> list[Target]:
    """What the figures are to reach, where there was an occasion."""
    killed = any(
        blow.kind in (Kind.POSTMASTER, Kind.BACKEND) and blow.ready_seconds is not None
        for blow in outcome.blows
    )
    seconds = Target(
        what="from PostgreSQL's return until the server was ready",
        value=outcome.outages.postgres_ready_seconds, limit=POSTGRES_READY_SECONDS, unit="s",
    )  # fmt: skip
    return [seconds] if killed else []


def _count_blows(outcome: Outcome) -> Counter[str]:
    return Counter(blow.kind.value for blow in outcome.blows)


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def _leaves(group: BaseExceptionGroup[ChaosError]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
