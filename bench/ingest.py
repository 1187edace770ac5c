"""`ingest`: new messages, one commit each, at 1, 8 and 32 clients.

Beside it the bare driver that makes the same trips to the database, and a bare Quart-Trio handler.
"""

import functools
import itertools
import math
from collections.abc import Sequence

import attrs

from bench.arithmetic import counted
from bench.client import Connection
from bench.load import BARE_PATH, ask_all, play_all
from bench.people import POSTS_PER_PLUGIN, Plug, make_people, plugs_of
from bench.recording import Recording, Trip, count, play, prepare_ids, recording
from bench.report import Outcome
from bench.rounds import Figures, Stopwatch, Variant, compare
from bench.scale import Scale
from bench.server import Server, child
from muster.credentials.operations import knock
from muster.credentials.rules import Knock
from muster.ids import digest
from muster.messages.operations import post
from muster.messages.rules import Post
from muster.pg import driver
from muster.pg.database import Database
from muster.principals import System

BODY = "Could you send me the figures for the third quarter by noon? Thanks. " * 10
SENDER, SUBJECT = "Ada <ada@example.test>", "Figures"
OWNERS = 20
DRIVER_CONNECTIONS = 10  # as many as the server has
_ids = itertools.count(1)


@attrs.frozen(kw_only=True)
class Level:
    """So many clients, and how many operations a round makes."""

    clients: int
    operations: int


def new_external_id() -> str:
    """One that no message has yet."""
    return f"bench-{next(_ids)}"


def body_of(external_id: str) -> dict[str, object]:
    """What a plugin posts."""
    return {"external_id": external_id, "sender": SENDER, "subject": SUBJECT, "body": BODY}


async def ask_post(connection: Connection, plug: Plug) -> None:
    """Post a new message at the server's door."""
    body = body_of(new_external_id())
    answer = await connection.ask("POST", "/plugin/v1/messages", token=plug.token, body=body)
    assert answer.status == 202, answer


async def post_as_server(db: Database, plug: Plug, external_id: str) -> None:
    """What the server does for a post: the knock, then the post."""
    async with db.transaction(System(), look=True) as tx:
        await knock(tx, Knock(sha256=digest(plug.token)))
    command = Post(external_id=external_id, sender=SENDER, subject=SUBJECT, body=BODY)
    await db.run(plug.principal, post, command)


@attrs.frozen
class RecordedPost:
    """One plugin's post, to be made again by the bare driver."""

    trips: tuple[Trip, ...]
    external_id: str

    async def play(self, connection: driver.Connection) -> None:
        """Make the same trips for a new message."""
        await play(connection, self.trips, {self.external_id: new_external_id()})


async def record_post(recorder: Recording, plug: Plug) -> RecordedPost:
    """Post once and write it down."""
    external_id = new_external_id()

    async def once(db: Database) -> None:
        await post_as_server(db, plug, external_id)

    return RecordedPost(await recorder.take(once), external_id)


async def run(server: Server, scale: Scale) -> Outcome:
    """Measure each number of clients."""
    await prepare_ids(server.cluster.admin_url)
    levels = [
        Level(clients=1, operations=scale.pick(250, 20)),
        Level(clients=8, operations=scale.pick(600, 24)),
        Level(clients=32, operations=scale.pick(800, 64)),
    ]
    rows: list[Figures] = []
    async with child("bench.bare") as (process, event), recording(server.app_url) as recorder:
        port = event["port"]
        assert isinstance(port, int)
        for level in levels:
            variants = [
                await _served(server, level, scale),
                await _driven(server, level, scale, recorder),
                Variant(
                    name=f"bare handler, {counted(level.clients, 'client')}",
                    clients=level.clients,
                    run=functools.partial(_bare, port, level),
                    pid=process.pid,
                    baseline=True,
                ),
            ]
            rows += await compare(
                variants, rounds=scale.rounds, cluster=server.cluster, folder=server.disk
            )
    return Outcome(figures=rows)


async def _served(server: Server, level: Level, scale: Scale) -> Variant:
    plugs = await _plugs(server, level, scale)
    turns = itertools.cycle(plugs)

    async def one(connection: Connection, _number: int) -> None:
        await ask_post(connection, next(turns))

    async def each_round(watch: Stopwatch, _round: int) -> list[float]:
        return await ask_all(
            watch, server.port, one, operations=level.operations, clients=level.clients
        )

    return Variant(
        name=f"post, {counted(level.clients, 'client')}",
        clients=level.clients,
        run=each_round,
        pid=server.pid,
    )


async def _driven(server: Server, level: Level, scale: Scale, recorder: Recording) -> Variant:
    plugs = await _plugs(server, level, scale)
    recorded = [await record_post(recorder, plug) for plug in plugs]
    turns = itertools.cycle(recorded)
    connections = min(level.clients, DRIVER_CONNECTIONS)

    async def one(connection: driver.Connection, _number: int) -> None:
        await next(turns).play(connection)

    async def each_round(watch: Stopwatch, _round: int) -> list[float]:
        return await play_all(
            watch, server.app_url, one, operations=level.operations, clients=connections
        )

    return Variant(
        name=f"bare driver, {counted(connections, 'connection')}",
        clients=connections,
        run=each_round,
        pid=None,
        baseline=True,
        facts=count(recorded[0].trips),
    )


async def _plugs(server: Server, level: Level, scale: Scale) -> Sequence[Plug]:
    """As many plugins as the posts of all rounds, the warming one too, need; over many owners."""
    posts = level.operations * (scale.rounds + 1)
    needed = max(level.clients, math.ceil(posts / POSTS_PER_PLUGIN))
    owners = min(OWNERS, needed)
    each = math.ceil(needed / owners)
    return plugs_of(await make_people(server, owners, plugins_each=each))


async def _bare(port: int, level: Level, watch: Stopwatch, _round: int) -> list[float]:
    async def one(connection: Connection, _number: int) -> None:
        body = body_of(new_external_id())
        answer = await connection.ask("POST", BARE_PATH, body=body)
        assert answer.status == 202, answer

    return await ask_all(watch, port, one, operations=level.operations, clients=level.clients)
