"""Run the benchmarks: `python -m bench [--json] [scenario …]`.

`python -m bench chaos …` is a program of its own (bench/chaos/command.py): it measures nothing but
what is lost and done twice while everything is killed.

Each scenario is a file beside this one. All run against one `muster serve` on loopback, between two
measurements of GET /healthz: a figure of another day or machine is compared by those.
"""

import argparse
import json
import sys
from collections.abc import Awaitable, Callable, Sequence

import attrs
import trio

from bench import claim, messages
from bench.chaos import command as chaos
from bench.client import Connection
from bench.measure import HEADING, Figures, measure
from bench.server import Server, serving

SCENARIOS: dict[str, Callable[[Server], Awaitable[list[Figures]]]] = {
    "messages": messages.run,
    "claim": claim.run,
}
BASELINE_REQUESTS = 2000
BASELINE_CLIENTS = 8


def main(arguments: Sequence[str]) -> int:
    """Run the scenarios that are named, or all."""
    if arguments[:1] == ["chaos"]:
        return chaos.main(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure a server.")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("scenario", nargs="*", help=f"of {', '.join(SCENARIOS)}; all by default")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.scenario if name not in SCENARIOS]
    if unknown:
        parser.error(f"no such scenario: {', '.join(unknown)}")
    measured = trio.run(run, options.scenario or list(SCENARIOS))
    if options.json:
        rows = [{**attrs.asdict(row), "per_second": row.per_second} for row in measured]
        print(json.dumps(rows, indent=2))
    else:
        print("\n".join([HEADING, *(row.as_line() for row in measured)]))
    return 0


async def run(names: Sequence[str]) -> list[Figures]:
    """Start a server, measure, and stop it."""
    async with serving() as server:
        measured = [await baseline(server, "before")]
        for name in names:
            print(f"{name} …", file=sys.stderr)
            measured += await SCENARIOS[name](server)
        measured.append(await baseline(server, "after"))
    return measured


async def baseline(server: Server, when: str) -> Figures:
    """Measure the cheapest request there is."""

    async def ask(connection: Connection, number: int) -> None:
        del number
        answer = await connection.ask("GET", "/healthz")
        assert answer.status == 200, answer

    return await measure(
        f"GET /healthz, {when}",
        server.port,
        ask,
        requests=BASELINE_REQUESTS,
        clients=BASELINE_CLIENTS,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
