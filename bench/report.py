"""What is printed: a table for people, or one JSON document."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from bench.arithmetic import Target
from bench.machine import Machine
from bench.rounds import CLIENT_LOAD_MAX, Figures

_HEADING = (
    f"{'':<46}{'a second, median (low to high)':>32}{'p50 ms':>10}{'p99 ms':>10}"
    f"{'server µs':>11}{'postgres µs':>13}{'client µs':>11}{'of a CPU':>10}{'fsync/s':>26}"
)
COLUMNS = len(_HEADING)
_LEGEND = (
    'CPU times are of one operation; without a client, "server" is the process that measures.',
    '"of a CPU" is how busy the client kept one: near 100% it was the client that was measured.',
    "Percentiles are of all rounds together, rates of each; fsync/s was probed before each round.",
)


@attrs.frozen(kw_only=True)
class Outcome:
    """What one scenario gave; `notes` are sentences that a reader of the figures needs."""

    figures: Sequence[Figures]
    targets: Sequence[Target] = ()
    notes: Sequence[str] = ()


def as_json(machine: Machine, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Everything, with the verdict beside each target."""
    return {
        "machine": attrs.asdict(machine),
        "scenarios": {
            name: {
                "figures": [
                    {**attrs.asdict(row), "client_bound": row.client_bound}
                    for row in outcome.figures
                ],
                "targets": [{**attrs.asdict(one), "met": one.met} for one in outcome.targets],
                "notes": list(outcome.notes),
            }
            for name, outcome in outcomes.items()
        },
    }


def as_table(machine: Machine, outcomes: Mapping[str, Outcome]) -> str:
    """The same for people; baselines are indented below what they stand beside."""
    lines = [*machine.as_lines(), *_LEGEND]
    for name, outcome in outcomes.items():
        lines += ["", name, _HEADING]
        for row in outcome.figures:
            lines.append(_row(row))
            lines += [f"      {what}: {value:,.4g}" for what, value in row.facts.items()]
            if row.client_bound:
                lines.append(f"      the client took over {CLIENT_LOAD_MAX:.0%} of a CPU itself")
        lines += [f"  target: {target.as_line()}" for target in outcome.targets]
        lines += [f"  {note}" for note in outcome.notes]
    return "\n".join(lines)


def _row(row: Figures) -> str:
    name = f"{'    beside: ' if row.baseline else '  '}{row.name}"
    client = "-" if row.client_us is None else f"{row.client_us:,.0f}"
    load = "-" if row.client_load is None else f"{row.client_load:.0%}"
    return (
        f"{name:<46}{row.per_second!s:>32}{row.p50_ms:>10.2f}{row.p99_ms:>10.2f}"
        f"{row.server_us:>11,.0f}{row.postgres_us:>13,.0f}{client:>11}{load:>10}"
        f"{row.fsyncs_per_second!s:>26}"
    )
