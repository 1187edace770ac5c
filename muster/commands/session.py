"""The database of a command: opened for one piece of work, then told to running servers.

A command writes to the same database as a running server, with or without one. Its hints leave in
one batch after the commit; one that is lost costs a sweep's time and nothing else.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import attrs
import click

from muster.commands.next_step import to_type
from muster.errors import MusterError, NotFound, Unavailable

if TYPE_CHECKING:
    from muster.config import Config
    from muster.outcomes import Hint
    from muster.pg.boot import AdminFacts
    from muster.pg.database import Database, Transaction
    from muster.principals import Owner

POOL_SIZE = 2

C = TypeVar("C")
R = TypeVar("R")


@attrs.define(kw_only=True)
class Store:
    """An open database, what is known of it, and the hints that are still to be told."""

    db: "Database"
    facts: "AdminFacts"
    unsent: "list[Hint]"

    async def owner(self, name: str | None) -> "Owner":
        """The principal for an account by its name; without one, that of the only account.

        Raises NotFound when there is none, a usage error when a name is needed to choose.
        """
        from muster.accounts.operations import find_user, list_users
        from muster.accounts.rules import FindUser, ListUsers
        from muster.principals import Owner, System

        if name is not None:
            found = await self.db.run(System(), find_user, FindUser(name=name))
            if found is None:
                raise NotFound(f"There is no account named {name}.")
            return Owner(owner_id=found.id, via="cli")
        users = await self.db.run(System(), list_users, ListUsers(limit=2))
        if not users:
            raise NotFound(no_account())
        if len(users) > 1:
            raise click.UsageError("There are several accounts: say which with --owner NAME.")
        return Owner(owner_id=users[0].id, via="cli")

    async def run_as(
        self,
        owner: str | None,
        operation: "Callable[[Transaction, C], Awaitable[R]]",
        command: C,
    ) -> R:
        """Run one operation as the owner of that name."""
        return await self.db.run(await self.owner(owner), operation, command)

    async def tell(self) -> None:
        """Send what hints there are to running servers, once the work is done."""
        from muster.pg.listener import notify

        try:
            await notify(self.db, self.unsent)
        except Unavailable as error:
            # The work is committed; failing now would say that it is not.
            click.echo(f"muster: done, but no server could be told: {error.sentence}", err=True)


@asynccontextmanager
async def open_store(config: "Config") -> AsyncIterator[Store]:
    """The database of this configuration, migrated; an embedded one is adopted or started.

    Raises Unavailable when it cannot be reached, DatabaseFault when it cannot be used.
    """
    from muster.pg import boot

    unsent: list[Hint] = []
    async with boot.open_store(
        database_url=config.database_url,
        database_app_url=config.database_app_url,
        data_dir=config.data_dir,
        publish=unsent.extend,
        pool_size=POOL_SIZE,
    ) as (db, facts):
        store = Store(db=db, facts=facts, unsent=unsent)
        yield store
        await store.tell()


def no_account() -> str:
    """Tell that nobody has an account, and how to open one."""
    return f"There is no account yet: {to_type('user', 'add', 'NAME', '--email', 'ADDRESS')}"


def in_store(work: Callable[[Store], Awaitable[R]]) -> R:
    """Do one command's work on the database that the environment configures."""
    import trio

    from muster.config import Config

    config = Config.from_environ(os.environ)

    async def run() -> R:
        async with open_store(config) as store:
            try:
                return await work(store)
            except (MusterError, click.ClickException) as error:
                # Carried past the nurseries below, which would wrap it in groups.
                refusal = error
        raise refusal

    return trio.run(run)
