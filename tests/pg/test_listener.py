"""Hints between processes."""

from collections.abc import Sequence

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import Unavailable
from muster.outcomes import Hint, HintKind
from muster.pg.driver import Connection
from muster.pg.listener import PAYLOAD_BYTES_MAX, listen, notify, pack, unpack
from muster.pg.pool import Pool
from muster.principals import Owner
from tests.support.cluster import Cluster, OwnDatabase, SpiedDatabase
from tests.support.waiting import until

LISTENERS = """
    select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and query = 'listen muster_hints'
"""

hints = st.builds(
    Hint,
    kind=st.sampled_from(HintKind),
    owner_id=st.integers(1, 2**63 - 1),
    id=st.integers(1, 2**63 - 1),
)


@given(st.lists(hints, max_size=400))
def test_payloads_carry_every_hint_once(sent: list[Hint]) -> None:
    """Whatever is packed comes out again, in order and once, in payloads that PostgreSQL takes."""
    payloads = pack(sent)
    assert all(len(payload.encode()) <= PAYLOAD_BYTES_MAX for payload in payloads)
    assert [hint for payload in payloads for hint in unpack(payload)] == list(dict.fromkeys(sent))


@pytest.mark.parametrize(
    "payload", ["", "{", "7", "[7]", '[["nobody.knows",1,2]]', '[["user.changed",1]]', '{"a":1}']
)
def test_foreign_payloads_are_skipped(payload: str) -> None:
    """What another program or a newer muster sends is no hint, and no error."""
    assert list(unpack(payload)) == []


async def test_hints_reach_a_listener(cluster: Cluster, db: SpiedDatabase, owner: Owner) -> None:
    """Everybody re-reads when listening has begun; later hints arrive as they were sent."""
    heard: list[Hint] = []
    begun = trio.Event()

    def handle(hints: Sequence[Hint]) -> None:
        heard.extend(hints)

    sent = [
        Hint(kind=HintKind.MESSAGE_QUEUED, owner_id=owner.owner_id, id=number)
        for number in range(1, 300)
    ]
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, cluster.app_url, handle, begun.set)
            await begun.wait()
            await notify(db, sent)
            await until(lambda: len(heard) >= len(sent))
            nursery.cancel_scope.cancel()
    assert [hint for hint in heard if hint.owner_id == owner.owner_id] == sent


async def test_nothing_to_say_opens_no_transaction() -> None:
    """Without hints there is nothing to send, also when the database is gone."""
    pool = Pool("host=127.0.0.1 port=1", size=1, waiters_max=1)
    await notify(SpiedDatabase(pool), [])


async def test_lost_connection_ends_the_listener(own_database: OwnDatabase) -> None:
    """A listener whose server process dies raises, so that its supervisor starts it again."""
    begun = trio.Event()
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:

            async def listening() -> None:
                with pytest.raises(Unavailable, match="lost the database"):
                    await listen(own_database.app_url, lambda _hints: None, begun.set)

            nursery.start_soon(listening)
            await begun.wait()
            admin = await Connection.open(own_database.admin_url)
            assert await admin.scalar(LISTENERS, {}) == 1
            admin.close()


async def test_no_database_ends_the_listener() -> None:
    """A listener that cannot connect raises and has told nobody to re-read."""
    told: list[bool] = []
    with pytest.raises(Unavailable):
        await listen("host=127.0.0.1 port=1", lambda _hints: None, lambda: told.append(True))
    assert told == []
