"""`growth`: what a long history costs: 10,000 and 1,000,000 stored messages, of 1 and 1,000 owners.

Four servers run at once and take turns. The history is loaded by SQL with past dates, as the
migrator; new posts, claims and lists then come through the doors that they always come through (a
list is the command line's). No allowance of an hour counts what is older than that.
"""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

import attrs

from bench.arithmetic import Target, counted
from bench.client import Connection
from bench.filing import file_replies
from bench.history import load_history
from bench.ingest import ask_post
from bench.load import Ask, ask_all, share
from bench.people import Person, Plug, make_people, plugs_of
from bench.report import Outcome
from bench.rounds import Figures, Stopwatch, Variant, compare
from bench.scale import Scale
from bench.server import Server, serving
from muster.drafts.operations import Approve, approve
from muster.messages.operations import ListMessages, list_messages

CLIENTS = 4
PLUGINS = 60  # that are at work; the history belongs to all there are
WITHIN_PERCENT = 15.0
LISTED = 50
_CLAIM = "/plugin/v1/drafts/claim"


@attrs.frozen(kw_only=True)
class Cell:
    """One server with its history, and who is at work on it."""

    name: str
    server: Server
    people: Sequence[Person]
    plugs: Sequence[Plug]
    operations: int


async def run(server: Server, scale: Scale) -> Outcome:
    """Load the four histories, then let them take turns, operation by operation."""
    sizes = scale.pick((10_000, 1_000_000), (500, 2000))
    owner_counts = scale.pick((1, 1000), (1, 10))
    rows: list[Figures] = []
    targets: list[Target] = []
    async with AsyncExitStack() as stack:
        cells: list[Cell] = []
        for owners, messages in itertools.product(owner_counts, sizes):
            own = server if not cells else await stack.enter_async_context(serving())
            cells.append(await _prepare(own, messages, owners, scale))
        for make in (_post, _claim_none, _claim_one, _list):
            variants = [make(cell) for cell in cells]
            found = await compare(
                variants, rounds=scale.rounds, cluster=server.cluster, folder=server.disk
            )
            rows += found
            targets += _targets(found)
    notes = [
        "four servers with four databases run beside each other; the others rest meanwhile",
        "a list is a command's: its Python time is this process's, not the server's",
    ]
    return Outcome(figures=rows, targets=targets, notes=notes)


def _targets(found: Sequence[Figures]) -> list[Target]:
    """How much dearer each is than the smallest, by CPU of server and database."""
    first, *others = found
    base = first.server_us + first.postgres_us
    return [
        Target(
            what=f"CPU of {row.name}, beside {first.name}",
            value=((row.server_us + row.postgres_us) / base - 1) * 100,
            limit=WITHIN_PERCENT,
            unit="% more",
        )
        for row in others
    ]


async def _prepare(server: Server, messages: int, owners: int, scale: Scale) -> Cell:
    plugins = scale.pick(PLUGINS, 4)
    people = await make_people(server, owners, plugins_each=max(1, plugins // owners))
    await load_history(server.cluster.admin_url, people, messages)
    return Cell(
        name=f"{counted(messages, 'message')}, {counted(owners, 'owner')}",
        server=server,
        people=people,
        plugs=plugs_of(people)[:plugins],
        operations=scale.pick(300, 16),
    )


def _post(cell: Cell) -> Variant:
    turns = itertools.cycle(cell.plugs)

    async def ask(connection: Connection, _number: int) -> None:
        await ask_post(connection, next(turns))

    return _at_the_door(cell, "post", ask, cell.operations)


def _claim_none(cell: Cell) -> Variant:
    turns = itertools.cycle(cell.plugs)

    async def ask(connection: Connection, _number: int) -> None:
        answer = await _claim(connection, next(turns))
        assert answer == 204, answer

    return _at_the_door(cell, "claim, none there", ask, cell.operations)


def _claim_one(cell: Cell) -> Variant:
    async def ask(connection: Connection, number: int) -> None:
        answer = await _claim(connection, cell.plugs[number])
        assert answer == 200, answer

    async def prepare() -> None:
        """An approved reply for each plugin."""
        owners = {person.owner.owner_id: person for person in cell.people}
        for plug in cell.plugs:
            person = owners[plug.principal.owner_id]
            (draft_id,) = await file_replies(cell.server, person, 1, plug=plug)
            await cell.server.db.run(person.owner, approve, Approve(draft_id=draft_id))
        cell.server.unsent.clear()

    return _at_the_door(cell, "claim, one there", ask, len(cell.plugs), prepare)


def _list(cell: Cell) -> Variant:
    turns = itertools.cycle(cell.people)

    async def one(_client: int, _number: int) -> None:
        owner = next(turns).owner
        listed = await cell.server.db.run(owner, list_messages, ListMessages(limit=LISTED))
        assert listed, owner

    async def each_round(watch: Stopwatch, _round: int) -> list[float]:
        return await share(watch, one, operations=cell.operations, clients=1)

    return Variant(
        name=f"list, {cell.name}",
        clients=1,
        run=each_round,
        pid=None,
        cluster=cell.server.cluster,
    )


async def _nothing() -> None:
    return


def _at_the_door(
    cell: Cell,
    what: str,
    ask: Ask,
    operations: int,
    prepare: Callable[[], Awaitable[None]] = _nothing,
) -> Variant:
    async def each_round(watch: Stopwatch, _round: int) -> list[float]:
        await prepare()
        return await ask_all(watch, cell.server.port, ask, operations=operations, clients=CLIENTS)

    return Variant(
        name=f"{what}, {cell.name}",
        clients=CLIENTS,
        run=each_round,
        pid=cell.server.pid,
        cluster=cell.server.cluster,
    )


async def _claim(connection: Connection, plug: Plug) -> int:
    answer = await connection.ask("POST", _CLAIM, token=plug.token, body={"wait_seconds": 0})
    return answer.status
