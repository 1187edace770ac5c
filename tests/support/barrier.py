"""Makes operations truly collide: each has its transaction open before any of them begins."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import trio

from muster.errors import MusterError
from muster.pg.database import Database, Transaction
from muster.pg.query import Query
from muster.principals import Principal, System

R = TypeVar("R")
SOMEBODY_WAITS = Query("""
    select exists (
        select from pg_catalog.pg_locks l
        join pg_catalog.pg_stat_activity s on s.pid = l.pid
        where not l.granted and s.datname = current_database()
    )
""")


async def collide(
    db: Database,
    *operations: tuple[Principal, Callable[[Transaction], Awaitable[R]]],
) -> Sequence[R | MusterError]:
    """Run the operations at once, each as its principal; results in order, a refusal as itself.

    All transactions are open before the first operation starts, so the pool must hold as many.
    """
    outcomes: dict[int, R | MusterError] = {}
    ready = 0
    everybody = trio.Event()

    async def run(
        index: int, principal: Principal, operation: Callable[[Transaction], Awaitable[R]]
    ) -> None:
        nonlocal ready
        try:
            async with db.transaction(principal) as tx:
                ready += 1
                if ready == len(operations):
                    everybody.set()
                await everybody.wait()
                outcome: R | MusterError = await operation(tx)
        except MusterError as refusal:
            outcome = refusal
        outcomes[index] = outcome

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for index, (principal, operation) in enumerate(operations):
                nursery.start_soon(run, index, principal, operation)
    return [outcomes[index] for index in range(len(operations))]


async def somebody_waits(db: Database) -> bool:
    """Whether a transaction waits for another's lock."""
    async with db.transaction(System(), look=True) as tx:
        return await tx.scalar(SOMEBODY_WAITS) is True
