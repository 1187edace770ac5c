"""`muster plugin test`: whether a plugin keeps the contract, row by row."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from muster.commands.exits import Exit
from muster.commands.options import json_option
from muster.commands.output import print_json, print_table, shown

if TYPE_CHECKING:
    from muster.clients.plugin_test.program import Found

JOBS_MAX = 16


@click.command("test")
@click.option(
    "--row", "names", multiple=True, metavar="NAME", help="Only this row; may be given again."
)
@click.option(
    "--patience",
    type=click.FloatRange(1, 300),
    default=30.0,
    show_default=True,
    help="Seconds that a row waits for what should come.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, JOBS_MAX),
    default=4,
    show_default=True,
    help="How many rows run at once, each with a plugin of its own.",
)
@json_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def test(
    command: tuple[str, ...],
    names: tuple[str, ...],
    patience: float,
    jobs: int,
    *,
    as_json: bool,
) -> int:
    """Run COMMAND, a plugin in any language, against a muster that misbehaves on purpose.

    COMMAND reads messages from {inbox} (text files) or {maildir}, sends its replies into {outbox}
    and keeps what it must not forget in {state}; each of these is replaced by a folder. They stand
    in PLUGIN_INBOX, PLUGIN_MAILDIR, PLUGIN_OUTBOX and PLUGIN_STATE too. MUSTER_URL and
    MUSTER_PLUGIN_TOKEN say where the muster is. Exit 1 when the plugin breaks a row.

    \b
      muster plugin test -- python plugin.py {inbox} {outbox} {state}
      muster plugin test -- muster mail --maildir {maildir} --outbox {outbox} --state {state}
    """  # noqa: D301 - click's mark for lines to leave as they are
    import trio

    from muster.clients.plugin_test.program import ROWS, run_rows
    from muster.clients.stopping import until_stopped

    rows = [row for row in ROWS if not names or row.name in names]
    unknown = sorted(set(names) - {row.name for row in ROWS})
    if unknown:
        raise click.UsageError(
            f"there is no row {unknown[0]}; the rows are {', '.join(row.name for row in ROWS)}"
        )

    async def run() -> "list[Found] | OSError":
        try:
            return await run_rows(command, rows, patience_seconds=patience, jobs=jobs, tell=_tell)
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            return error

    # A tester that is told to stop leaves no plugin behind.
    found = trio.run(until_stopped, run)
    if found is None:
        return Exit.INTERRUPTED
    if isinstance(found, OSError):
        raise click.UsageError(f"cannot start {command[0]}: {found.strerror}")
    if as_json:
        print_json(_document(found))
    else:
        _print(found)
    return Exit.OK if all(each.passed for each in found) else Exit.FAILED


def _tell(found: "Found") -> None:
    """Say on stderr how it goes."""
    word = "well" if found.passed else "BROKEN"
    click.echo(f"{found.row.name}: {word} ({found.seconds:.1f} s)", err=True)


def _print(found: "Sequence[Found]") -> None:
    print_table(
        ("Row", "Duty", "Found"),
        [(each.row.name, each.row.duty, _said(each)) for each in found],
        empty="There are no rows.",
        whole=True,
    )
    broken = [each for each in found if not each.passed]
    for each in broken:
        if each.last_words:
            click.echo(f"{each.row.name}: the plugin's last words", err=True)
            for line in each.last_words.splitlines():
                click.echo(f"  | {shown(line)}", err=True)
    kept = len(found) - len(broken)
    click.echo(f"{kept} of {len(found)} duties are kept.", err=True)


def _said(found: "Found") -> str:
    said = "well" if found.broken is None else f"BROKEN: {found.broken}"
    return "; ".join([said, *found.notes])


def _document(found: "Sequence[Found]") -> dict[str, object]:
    return {
        "ok": all(each.passed for each in found),
        "rows": [
            {
                "row": each.row.name,
                "duty": each.row.duty,
                "ok": each.passed,
                "broken": each.broken,
                "notes": list(each.notes),
                "seconds": round(each.seconds, 3),
                "last_words": each.last_words,
            }
            for each in found
        ],
    }
