"""`loop`: a message's whole way: post, turn, draft, approval, claim, result, for many owners.

Each owner has one message on its way at a time; so many owners at once are the clients. The
approval is a command's, on a connection of its own, and its PostgreSQL time is in the figures; its
Python time is the client's. Beside it the bare driver makes the trips that the server and the
approval make for one message, and a bare Quart-Trio handler answers as many requests.
"""

import functools
import json
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import attrs
import trio

from bench.agent import serve_turns
from bench.arithmetic import Target, counted
from bench.client import Connection
from bench.filing import REPLY
from bench.ingest import DRIVER_CONNECTIONS, body_of, new_external_id, post_as_server
from bench.load import BARE_PATH, ask_all, play_all, share
from bench.people import POSTS_PER_PLUGIN, Chief, Person, Plug, make_people
from bench.recording import Recording, Trip, count, play, prepare_ids, recording
from bench.report import Outcome
from bench.rounds import Stopwatch, Variant, compare
from bench.scale import Scale
from bench.server import Server, child
from muster.chief import operations as chief
from muster.chief import tools
from muster.chief.turns import Heard
from muster.credentials.operations import knock
from muster.credentials.rules import Knock
from muster.drafts.operations import Approve, ClaimNext, Report, approve, claim_next, report
from muster.ids import digest
from muster.messages.rules import Complete
from muster.outcomes import Hint, HintKind
from muster.pg.database import Database
from muster.pg.driver import Connection as DriverConnection
from muster.pg.listener import notify
from muster.principals import Muster, System

CLIENTS = 8
REQUESTS = 4  # post, reply_draft, claim, result; the turn's frames come besides
WAIT_SECONDS = 25
CPU_US_MAX = 2000.0
_ANSWER_SECONDS = 30.0
_CLAIM = "/plugin/v1/drafts/claim"


@attrs.frozen(kw_only=True)
class Size:
    """How many owners have a message on its way at once, and how many messages a round has."""

    clients: int
    messages: int

    @property
    def connections(self) -> int:
        """Of the bare driver: no more than the server has."""
        return min(self.clients, DRIVER_CONNECTIONS)


@attrs.define
class Desk:
    """One owner at work: a plugin with two connections, and what its chief has drafted."""

    person: Person
    posting: Connection
    claiming: Connection
    _drafts: dict[int, int] = attrs.field(factory=dict, init=False)
    _filed: trio.Event = attrs.field(factory=trio.Event, init=False)

    def filed(self, message_id: int, draft_id: int) -> None:
        """The chief drafted a reply."""
        self._drafts[message_id] = draft_id
        self._filed.set()

    async def draft_for(self, message_id: int) -> int:
        """Wait for the chief's reply to a message."""
        with trio.fail_after(_ANSWER_SECONDS):
            while message_id not in self._drafts:
                self._filed = trio.Event()
                await self._filed.wait()
        return self._drafts.pop(message_id)

    async def one_message(self, server: Server) -> None:
        """Take one message the whole way. The claim waits when the approval comes."""
        plug = self.person.plugs[0]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._claim_and_report, plug)
            body = body_of(new_external_id())
            answer = await self.posting.ask(
                "POST", "/plugin/v1/messages", token=plug.token, body=body
            )
            assert answer.status == 202, answer
            draft_id = await self.draft_for(json.loads(answer.body)["id"])
            await server.db.run(self.person.owner, approve, Approve(draft_id=draft_id))
            await server.tell()

    async def _claim_and_report(self, plug: Plug) -> None:
        body: dict[str, object] = {"wait_seconds": WAIT_SECONDS}
        answer = await self.claiming.ask("POST", _CLAIM, token=plug.token, body=body)
        assert answer.status == 200, answer
        path = f"/plugin/v1/drafts/{json.loads(answer.body)['draft_id']}/result"
        body = {"ok": True, "external_ref": "bench"}
        answer = await self.claiming.ask("POST", path, token=plug.token, body=body)
        assert answer.status == 200, answer


@asynccontextmanager
async def open_desks(server: Server, people: Sequence[Person]) -> AsyncIterator[list[Desk]]:
    """Let everybody's chief be connected, and everybody's plugin too."""
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        desks = []
        for person in people:
            posting = await stack.enter_async_context(Connection.open(server.port))
            claiming = await stack.enter_async_context(Connection.open(server.port))
            desk = Desk(person, posting, claiming)
            await nursery.start(serve_turns, server.port, person.chief.token, REPLY, desk.filed)
            desks.append(desk)
        yield desks
        nursery.cancel_scope.cancel()


async def run(server: Server, scale: Scale) -> Outcome:
    """Measure the loop, the driver and the handler."""
    await prepare_ids(server.cluster.admin_url)
    size = Size(clients=scale.pick(CLIENTS, 2), messages=scale.pick(240, 8))
    posts = size.messages * (scale.rounds + 1)
    # Every client has owners of its own, as many as the allowances of all its posts ask for.
    owners = size.clients * math.ceil(posts / size.clients / POSTS_PER_PLUGIN)
    people = await make_people(server, owners)
    async with (
        recording(server.app_url) as recorder,
        child("bench.bare") as (process, event),
    ):
        port = event["port"]
        assert isinstance(port, int)
        recorded = await _record(server, recorder, await make_people(server, owners))
        async with open_desks(server, people) as desks:
            variants = [
                Variant(
                    name=f"post to result, {counted(size.clients, 'owner')} at once",
                    clients=size.clients,
                    run=functools.partial(_served, server, desks, size),
                    pid=server.pid,
                ),
                Variant(
                    name="bare driver, the same trips",
                    clients=size.connections,
                    run=functools.partial(_driven, server, recorded, size),
                    pid=None,
                    baseline=True,
                    facts=count(recorded[0].trips),
                ),
                Variant(
                    name=f"bare handler, one of {REQUESTS} requests",
                    clients=size.clients,
                    run=functools.partial(_bare, port, size),
                    pid=process.pid,
                    baseline=True,
                ),
            ]
            rows = await compare(
                variants, rounds=scale.rounds, cluster=server.cluster, folder=server.disk
            )
    cpu = Target(what="server CPU a message", value=rows[0].server_us, limit=CPU_US_MAX, unit="µs")
    return Outcome(figures=rows, targets=[cpu])


async def _served(
    server: Server, desks: Sequence[Desk], size: Size, watch: Stopwatch, number: int
) -> list[float]:
    async def one(client: int, _number: int) -> None:
        # By rounds and clients: an owner never has two messages on their way.
        mine = desks[client :: size.clients]
        await mine[number % len(mine)].one_message(server)

    return await share(watch, one, operations=size.messages, clients=size.clients)


async def _driven(
    server: Server,
    recorded: Sequence["RecordedLoop"],
    size: Size,
    watch: Stopwatch,
    number: int,
) -> list[float]:
    connections = size.connections

    async def one(connection: DriverConnection, operation: int) -> None:
        # A connection has owners of its own, as a client has.
        mine = recorded[operation % connections :: connections]
        await mine[number % len(mine)].play(connection)

    return await play_all(watch, server.app_url, one, operations=size.messages, clients=connections)


async def _bare(port: int, size: Size, watch: Stopwatch, _round: int) -> list[float]:
    async def one(connection: Connection, _number: int) -> None:
        answer = await connection.ask("POST", BARE_PATH, body=body_of(new_external_id()))
        assert answer.status == 202, answer

    requests = size.messages * REQUESTS
    return await ask_all(watch, port, one, operations=requests, clients=size.clients)


@attrs.frozen
class RecordedLoop:
    """The trips that one message of one owner needs."""

    trips: tuple[Trip, ...]
    external_id: str

    async def play(self, connection: DriverConnection) -> None:
        """Make them for a new message."""
        await play(connection, self.trips, {self.external_id: new_external_id()})


async def _record(
    server: Server, recorder: Recording, people: Sequence[Person]
) -> list[RecordedLoop]:
    recorded = []
    for person in people:
        # The first message of a plugin also opens the chief's conversation for it.
        await _as_server(recorder.db, person=person, external_id=new_external_id())
        external_id = new_external_id()
        work = functools.partial(_as_server, person=person, external_id=external_id)
        recorded.append(RecordedLoop(await recorder.take(work), external_id))
    server.unsent.clear()
    return recorded


async def _as_server(db: Database, *, person: Person, external_id: str) -> None:
    """What the server, and the approving command, do for one message, one after the other."""
    (plug, *_) = person.plugs
    await _knock(db, plug.token)
    await db.run(plug.principal, claim_next, ClaimNext())  # it finds nothing and waits
    await post_as_server(db, plug, external_id)
    draft_id = await _turn(db, person.owner.owner_id, person.chief)
    await db.run(person.owner, approve, Approve(draft_id=draft_id))
    plugin_id = plug.principal.plugin_id
    hint = Hint(kind=HintKind.DRAFT_CLAIMABLE, owner_id=person.owner.owner_id, id=plugin_id)
    await notify(db, [hint])
    await db.run(plug.principal, claim_next, ClaimNext())
    await _knock(db, plug.token)
    command = Report(draft_id=draft_id, ok=True, external_ref="bench", detail=None)
    await db.run(plug.principal, report, command)


async def _turn(db: Database, owner_id: int, agent: Chief) -> int:
    muster, agent_id = Muster(owner_id=owner_id), agent.principal.agent_id
    handover = await db.run(muster, chief.begin, chief.Begin(agent_id=agent_id, epoch=0))
    assert handover is not None
    await _knock(db, agent.token)
    call = tools.Call(
        arguments=tools.ReplyDraft(message_id=handover.message.id, body=REPLY),
        deny_words=frozenset(),
    )
    filed = await db.run(agent.principal, tools.reply_draft, call)
    draft_id = filed["draft_id"]
    assert isinstance(draft_id, int)
    settle = chief.Settle(
        message_id=handover.message.id,
        attempt=handover.message.attempts,
        turn_id=handover.turn_id,
        conversation_id=handover.conversation_id,
        ending=Complete(epoch=0),
        heard=Heard(text="drafted"),
    )
    await db.run(muster, chief.settle_turn, settle)
    return draft_id


async def _knock(db: Database, token: str) -> None:
    async with db.transaction(System(), look=True) as tx:
        await knock(tx, Knock(sha256=digest(token)))
