"""`python -m bench [SCENARIO …] [--json] [--quick]`: run scenarios and print their figures.

Each scenario is a file beside this one and gets a server and a database of its own (a quick run,
whose figures say nothing, has one for all). Figures of two runs may be compared where the fsync
probes beside them are alike; within a run, baselines take turns with what they stand beside.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import trio

from bench import claim, fsync, growth, ingest, loop, mailbox, paste, sessions
from bench.machine import Machine, look_at_machine
from bench.report import COLUMNS, Outcome, as_json, as_table
from bench.scale import Scale
from bench.server import Server, raise_open_files, serving
from muster.clients.stopping import until_stopped

Scenario = Callable[[Server, Scale], Awaitable[Outcome]]

INTERRUPTED = 130
NARROW = f"the table has {COLUMNS} columns: `python -m bench … | less -S` shows it unbroken"
CHAOS_TOLD = "`python -m bench chaos` kills a server instead; its --help tells how."

SCENARIOS: Mapping[str, Scenario] = {
    "fsync": fsync.run,
    "ingest": ingest.run,
    "claim": claim.run,
    "loop": loop.run,
    "mailbox": mailbox.run,
    "sessions": sessions.run,
    "paste": paste.run,
    "growth": growth.run,
}


def main(arguments: Sequence[str]) -> int:
    """Run the scenarios that are named, or all."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure a server.", epilog=CHAOS_TOLD
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--quick", action="store_true", help="see that it works; no figures")
    parser.add_argument("scenario", nargs="*", help=f"of {', '.join(SCENARIOS)}; all by default")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.scenario if name not in SCENARIOS]
    if unknown:
        known = f"there are {', '.join(SCENARIOS)}, and chaos as the first word"
        parser.error(f"no such scenario: {', '.join(unknown)}; {known}")
    names = options.scenario or list(SCENARIOS)
    work = partial(run, names, Scale(quick=options.quick))
    measured = trio.run(until_stopped, work)
    if measured is None:
        print("stopped", file=sys.stderr)
        return INTERRUPTED
    machine, outcomes = measured
    if options.json:
        print(json.dumps(as_json(machine, outcomes), indent=2))
    else:
        print(as_table(machine, outcomes))
        if sys.stdout.isatty() and shutil.get_terminal_size().columns < COLUMNS:
            print(NARROW, file=sys.stderr)
    return 0


Measured = tuple[Machine, dict[str, Outcome]]


async def run(names: Sequence[str], scale: Scale) -> Measured:
    """Run scenarios one after the other, the disk's own always first."""
    open_files_max = raise_open_files()
    outcomes: dict[str, Outcome] = {}

    async def measure(server: Server, names: Sequence[str]) -> None:
        for name in names:
            print(f"{name} …", file=sys.stderr)
            outcomes[name] = await SCENARIOS[name](server, scale)

    rest = [name for name in dict.fromkeys(names) if name != "fsync"]
    async with serving() as server:
        machine = await look_at_machine(server.cluster.admin_url, open_files_max)
        await measure(server, ["fsync", *scale.pick([], rest)])
    for name in scale.pick(rest, []):
        async with serving() as server:
            await measure(server, [name])
    return machine, outcomes
