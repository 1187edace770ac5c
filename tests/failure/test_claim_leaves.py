"""A client that leaves in mid-claim leaves a whole lease or none, and disturbs nobody."""

import functools
import json
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from muster.drafts.operations import Approve, approve, report
from muster.drafts.rules import Report
from muster.messages.rules import Message
from muster.node import tree
from muster.outcomes import Hint
from muster.pg.database import Database, open_database
from muster.pg.listener import notify
from muster.principals import Agent, Owner, Plugin
from tests.support.builders import make_chief, make_draft, make_message, new_plugin, read_audit
from tests.support.chaos import server_child
from tests.support.cluster import Cluster, OwnDatabase, SpiedDatabase, add_owner
from tests.support.load import Reachable, pause
from tests.support.program import program_on
from tests.support.server import Server, running_server
from tests.support.waiting import until
from tests.support.wire import RawClient

Leave = Callable[[RawClient], None]


def reset(client: RawClient) -> None:
    """Leave with a reset."""
    client.reset()


def close(client: RawClient) -> None:
    """Leave with a goodbye."""
    client.leave()


def half_close(client: RawClient) -> None:
    """Say that nothing more comes, and never read."""
    client.stream.socket.shutdown(1)


# How long a client stays, in seconds: from less than any step to more than a whole claim.
MOMENTS = (0.0, *(0.00005 * 1.2**step for step in range(52)))
ENOUGH = 4  # so many clients in a row that stayed until they were served end the test
WAYS: Sequence[Leave] = (reset, close, half_close)


@attrs.frozen(kw_only=True)
class Counter:
    """A plugin's counter at a server: drafts to hand out, and clients who come for them."""

    port: int
    db: Database
    owner: Owner
    plugin: Plugin
    chief: Agent
    token: str

    def request(self, wait_seconds: int = 0) -> bytes:
        """The bytes of a claim."""
        body = b'{"wait_seconds": %d}' % wait_seconds
        return (
            b"POST /plugin/v1/drafts/claim HTTP/1.1\r\nHost: test\r\n"
            b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"
            % (self.token.encode(), len(body), body)
        )

    async def connect(self) -> RawClient:
        """Open a connection."""
        return RawClient(await trio.open_tcp_stream("127.0.0.1", self.port))

    async def message(self) -> Message:
        """A message to draft replies to, delivered to the chief."""
        return await make_message(self.db, self.plugin, delivered_to=self.chief)

    async def pending(self, message: Message) -> int:
        """A draft that waits for the owner; its id."""
        return (await make_draft(self.db, self.chief, message)).id

    async def fail(self, draft_id: int) -> None:
        """Report a leased draft as not sent, so that its message may have another."""
        await self.db.run(self.plugin, report, Report(draft_id=draft_id, ok=False))

    async def approve(self, db: Database, draft_id: int) -> None:
        """Let a draft go, through this database."""
        await db.run(self.owner, approve, Approve(draft_id=draft_id))

    async def claimed(self) -> list[str]:
        """The drafts that were ever leased: a subject for each row of the audit log."""
        rows = await read_audit(self.db, self.owner, "plugin.draft.claimed")
        return [row.subject for row in rows]

    async def claim(self, server: Reachable) -> int | None:
        """Claim without a wait; the draft's id."""
        async with server.client(self.token) as client:
            answer = await client.post("/plugin/v1/drafts/claim", json={"wait_seconds": 0})
        assert answer.status_code in (200, 204), answer.text
        draft_id: int | None = answer.json()["draft_id"] if answer.status_code == 200 else None
        return draft_id

    async def is_whole(self, server: Reachable, draft_id: int) -> bool:
        """See that an approved draft is leased and not offered, or offered; whether it was leased.

        Afterwards its message may have another.
        """
        before = (await self.claimed()).count(f"draft:{draft_id}")
        offered = await self.claim(server)
        assert (before, offered) in ((1, None), (0, draft_id))
        assert (await self.claimed()).count(f"draft:{draft_id}") == 1
        await self.fail(draft_id)
        return before == 1


async def make_counter(db: Database, owner: Owner, port: int) -> Counter:
    """A counter of the owner's at the server of this port."""
    plugin_id, token = await new_plugin(db, owner)
    plugin = Plugin(owner_id=owner.owner_id, plugin_id=plugin_id, name="mail", credential_id=0)
    return Counter(
        port=port,
        db=db,
        owner=owner,
        plugin=plugin,
        chief=await make_chief(db, owner),
        token=token,
    )


@pytest.fixture
async def here(
    db: SpiedDatabase, owner: Owner, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Server, Counter]]:
    """A server in this process; no sweep stands in for a lost wake, or holds a connection."""
    for name in ("LEASE", "EXPIRY", "UNROUTED", "CLAIMABLE", "LAST_SEEN", "HEARTBEAT", "SENDS"):
        monkeypatch.setattr(tree, f"{name}_SECONDS", 1000.0)
    async with running_server(db, cluster.app_url) as server:
        yield server, await make_counter(db, owner, server.port)


async def settled(server: Server) -> None:
    """Wait until the server has read what was sent and works on nothing."""
    async with server.client() as client:
        assert (await client.get("/healthz")).status_code == 200
    pool = server.node.db.pool
    await until(lambda: not server.node.waiters.plugin_ids() and pool.free == pool.size)


@pytest.mark.rule(84, 97)
@pytest.mark.parametrize("leave", WAYS)
async def test_a_claim_that_breaks_off_after_any_byte(
    here: tuple[Server, Counter], leave: Leave
) -> None:
    """Wherever the request is cut, the approved draft is still offered, or leased as a whole."""
    server, counter = here
    whole = counter.request()
    cuts = {*range(0, len(whole), 23), *range(len(whole) - 24, len(whole) + 1)}
    draft_id = None
    leased = 0
    message = await counter.message()
    for cut in sorted(cuts):
        if draft_id is None:
            draft_id = await counter.pending(message)
            await counter.approve(server.node.db, draft_id)
        client = await counter.connect()
        await client.send(whole[:cut])
        leave(client)
        await settled(server)
        if cut < len(whole):
            assert f"draft:{draft_id}" not in await counter.claimed()
        else:
            leased += await counter.is_whole(server, draft_id)
            draft_id = None
        client.leave()
    assert draft_id is None
    assert leased in (0, 1)


@pytest.mark.rule(84, 97)
@pytest.mark.parametrize("leave", WAYS)
async def test_a_claim_that_is_left_at_any_step(here: tuple[Server, Counter], leave: Leave) -> None:
    """However far the server is with a claim when its client leaves, the lease is whole or none."""
    server, counter = here
    served: list[bool] = []
    message = await counter.message()
    for seconds in MOMENTS:
        draft_id = await counter.pending(message)
        await counter.approve(server.node.db, draft_id)
        client = await counter.connect()
        await client.send(counter.request())
        await pause(trio.Event(), seconds)
        leave(client)
        await settled(server)
        served.append(await counter.is_whole(server, draft_id))
        client.leave()
        if all(served[-ENOUGH:]) and len(served) > ENOUGH:
            break
    assert served[-1] is True, "no client stayed long enough to be served"


@pytest.mark.rule(84, 97)
@pytest.mark.parametrize("leave", WAYS)
async def test_a_claim_that_is_left_before_it_is_served(
    here: tuple[Server, Counter], leave: Leave
) -> None:
    """A client that leaves while its claim waits for the database takes no reply with it."""
    server, counter = here
    pool = server.node.db.pool
    draft_id = await counter.pending(await counter.message())
    await counter.approve(server.node.db, draft_id)
    await settled(server)
    async with AsyncExitStack() as held:
        for _ in range(pool.size):
            await held.enter_async_context(pool.permit())
        client = await counter.connect()
        await client.send(counter.request())
        await until(lambda: pool.waiting == 1)
        leave(client)
        # Before the claim would give the database up by itself.
        await until(lambda: pool.waiting == 0, 3)
    assert await counter.is_whole(server, draft_id) is False
    client.leave()


@pytest.mark.rule(63, 84, 97)
@pytest.mark.parametrize("leave", WAYS)
async def test_a_parked_claim_that_is_left_while_its_reply_is_approved(
    here: tuple[Server, Counter], leave: Leave
) -> None:
    """The reply that wakes a leaving claim is leased to it, or goes to the claim parked behind."""
    server, counter = here
    served: list[bool] = []
    messages = [await counter.message() for _ in range(2)]
    for seconds in MOMENTS:
        drafts = [await counter.pending(message) for message in messages]
        leaving, staying = await counter.connect(), await counter.connect()
        for number, client in enumerate((leaving, staying), start=1):
            await client.send(counter.request(20))
            await until(functools.partial(_are_parked, server, counter, number))
        await counter.approve(server.node.db, drafts[0])
        await pause(trio.Event(), seconds)
        leave(leaving)
        served.append(not await _gets_its_own(server, counter, staying, drafts))
        leaving.leave()
        staying.leave()
        await settled(server)
        if all(served[-ENOUGH:]) and len(served) > ENOUGH:
            break
    assert served[-1] is True, "no client stayed long enough to be served"


def _are_parked(server: Server, counter: Counter, number: int) -> bool:
    return len(server.node.waiters.parked_for(counter.plugin.plugin_id)) == number


async def _gets_its_own(
    server: Server, counter: Counter, staying: RawClient, drafts: list[int]
) -> bool:
    """See that the client that stays gets the first draft, or if that was leased the second."""
    first, second = drafts

    async def leased() -> bool:
        return f"draft:{first}" in await counter.claimed()

    await until(leased)
    await counter.approve(server.node.db, second)
    answer = await staying.answer(b"POST")
    assert answer.status == 200
    told: int = json.loads(answer.body)["draft_id"]
    assert told in drafts
    assert await counter.claim(server) == (second if told == first else None)
    assert sorted(await counter.claimed()) == sorted(set(await counter.claimed()))
    for draft_id in drafts:
        await counter.fail(draft_id)
    return told == first


@pytest.mark.rule(84, 97)
async def test_claims_that_leave_at_random_moments_of_a_real_server(
    own_database: OwnDatabase, tmp_path: Path
) -> None:
    """After a crowd that comes and goes, each draft was leased once or is still to be had."""
    chance = random.Random(5)
    program = program_on(own_database, tmp_path)
    async with (
        server_child(program, tmp_path) as server,
        _on(own_database) as (db, hints),
    ):
        counter = await make_counter(db, await add_owner(db), server.port)
        drafts = [await counter.pending(await counter.message()) for _ in range(20)]
        over = trio.Event()

        async def come_and_go() -> None:
            while not over.is_set():
                client = await counter.connect()
                await client.send(counter.request(chance.choice((0, 20))))
                await pause(over, chance.uniform(0, 0.03))
                chance.choice((reset, close))(client)

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(come_and_go)
                for draft_id in drafts:
                    await counter.approve(db, draft_id)
                    await notify(db, hints())
                    await pause(over, chance.uniform(0, 0.05))
                over.set()
        await until(lambda: _idle(counter, server))
        leased = await counter.claimed()
        assert len(leased) == len(set(leased))
        rest = set()
        while (offered := await counter.claim(server)) is not None:
            rest.add(offered)
        assert rest == {one for one in drafts if f"draft:{one}" not in leased}
        assert await server.is_healthy()
        assert [one for one in server.complaints() if one["event"] == "crashed"] == []
        assert (await server.stop()).code == 0


async def _idle(counter: Counter, server: Reachable) -> bool:
    """Whether nothing was leased between two looks that a request of ours lies between."""
    before = await counter.claimed()
    async with server.client() as client:
        await client.get("/readyz")
    return before == await counter.claimed()


@asynccontextmanager
async def _on(database: OwnDatabase) -> AsyncIterator[tuple[Database, Callable[[], list[Hint]]]]:
    """The database, and a function that takes the hints that it has published."""
    published: list[Hint] = []

    def take() -> list[Hint]:
        taken = list(published)
        published.clear()
        return taken

    async with open_database(database.app_url, publish=published.extend, pool_size=4) as db:
        yield db, take
