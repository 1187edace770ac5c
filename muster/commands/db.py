"""`muster db`: what an operator does to the database."""

import click

from muster.commands.options import json_option
from muster.commands.output import print_json
from muster.commands.session import Store, in_store


@click.group()
def db() -> None:
    """Look after the database."""


@db.command()
@json_option
def migrate(*, as_json: bool) -> None:
    """Bring the database to this muster's schema; harmless when it is there already.

    `muster serve` does the same when it starts. A database that is newer than this muster is left
    alone and exits 78.
    """

    async def work(store: Store) -> int:
        return store.facts.schema_version

    version = in_store(work)
    if as_json:
        print_json({"schema_version": version})
        return
    click.echo(f"The database has schema version {version}.", err=True)
