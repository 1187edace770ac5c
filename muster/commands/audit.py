"""`muster audit`: who did what, and through which door."""

import json
from collections.abc import Mapping

import click

from muster.commands.options import json_option, limit_option, owner_option
from muster.commands.output import local, print_json, print_table, utc
from muster.commands.session import Store, in_store

SHORT_CHARACTERS_MAX = 40


@click.command()
@owner_option
@limit_option
@json_option
def audit(owner: str | None, limit: int, *, as_json: bool) -> None:
    """Read the audit log, newest first.

    A narrow terminal has no room for Data, and then for Via and When; --json tells all.
    """
    from muster.pg.audit import AuditRow, list_audit

    async def work(store: Store) -> list[AuditRow]:
        async with store.db.transaction(await store.owner(owner)) as tx:
            return await list_audit(tx, limit)

    rows = in_store(work)
    if as_json:
        print_json(
            [
                {
                    "id": row.id,
                    "at": utc(row.at),
                    "actor": row.actor,
                    "via": row.via,
                    "action": row.action,
                    "subject": row.subject,
                    "data": dict(row.data),
                }
                for row in rows
            ]
        )
        return
    print_table(
        ("ID", "When", "Who", "Via", "What", "To what", "Data"),
        [
            (
                str(row.id),
                local(row.at),
                row.actor,
                row.via,
                row.action,
                row.subject,
                _told(row.data),
            )
            for row in rows
        ],
        empty="Nothing has happened yet.",
        spare=("Data", "Via", "When"),
    )


def _told(data: Mapping[str, object]) -> str:
    """The data for people, whose row may be cut: long texts, such as digests, come last."""
    return json.dumps(dict(sorted(data.items(), key=_is_long)))


def _is_long(member: tuple[str, object]) -> bool:
    _, value = member
    return isinstance(value, str) and len(value) > SHORT_CHARACTERS_MAX
