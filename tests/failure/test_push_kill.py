"""A server that is killed in the middle of a push: the next one says it again, as the same note."""

from pathlib import Path

import pytest

from muster.outcomes import Hint
from muster.pg.boot import open_store
from muster.pg.query import Query
from tests.support.chaos import server_child
from tests.support.cluster import OwnDatabase, add_owner
from tests.support.program import program_on
from tests.support.push_desk import push_desk
from tests.support.push_service import Step

# A minute, which no test waits for.
LEASES_ARE_OVER = Query("""
    update push_deliveries set leased_until = %(now)s
    where owner_id = %(owner_id)s and leased_until is not null
""")


@pytest.mark.rule(258)
async def test_a_server_killed_while_it_pushes_is_followed_by_one_that_repeats(
    own_database: OwnDatabase, tmp_path: Path
) -> None:
    """What was filed with no server is pushed by the first, and again by the next after a kill.

    The push had arrived and its answer had not, so nobody could know. The repeat is the same note
    under the same tag, and a decision clears it once.
    """
    hints: list[Hint] = []
    async with (
        open_store(
            database_url=own_database.admin_url,
            database_app_url=own_database.app_url,
            data_dir=tmp_path,
            publish=hints.extend,
        ) as (db, _facts),
        push_desk(db, await add_owner(db)) as desk,
    ):
        await desk.subscribe()
        draft = await desk.draft()
        desk.service.script.append(Step.HANG)
        async with server_child(program_on(own_database, tmp_path), tmp_path) as server:
            await desk.service.received(1, seconds=20)
            await server.kill()
            assert await desk.states() == ["waiting"]
            async with db.transaction(desk.owner) as tx:
                await tx.execute(LEASES_ARE_OVER)
            await server.start()
            await desk.reaches("sent", seconds=20)
            first, second = await desk.notes(2)
            assert first == second
            await desk.reject(draft.id)
            await server.kill()  # and with it all that it heard
            await server.start()
            await desk.reaches("cleared", seconds=20)
            assert (await desk.notes(3))[2] == {"do": "clear", "tag": f"draft-{draft.id}"}
