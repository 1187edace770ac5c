"""kill -9 of the server and of chiefs under load: nothing is lost, and nothing is done twice.

With its own PostgreSQL, and plugins that are killed too, it is tests/failure/test_chaos_short.py.
"""

import random
from pathlib import Path

import pytest

from muster.outcomes import Hint
from muster.pg.boot import open_store
from tests.support.chaos import server_child
from tests.support.cluster import OwnDatabase
from tests.support.load import pause
from tests.support.program import program_on
from tests.support.storm import Storm, gathered

VICTIMS = (("server",), ("server", "chief"), ("wild",), ("server",), ("chief",))
SEEDS = (17,)
LONG_SEEDS = random.Random().sample(range(1000, 1_000_000), 6)


async def kill_at_random(storm: Storm, kills: int) -> None:
    """End programs at random moments, and start them again: server, chief, or both at once."""
    plan = [VICTIMS[number % len(VICTIMS)] for number in range(kills)]
    storm.random.shuffle(plan)
    for victims in plan:
        await pause(storm.phase.closed, storm.random.uniform(0.2, 1.5))
        if "server" in victims:
            await storm.server.kill()
        if "chief" in victims:
            await storm.agent.kill()
        if "wild" in victims:
            storm.wild.drop()
        if "server" in victims:
            await storm.server.start()
        if "chief" in victims:
            await storm.agent.start()
    await pause(storm.phase.closed, 0.5)


async def survive(
    database: OwnDatabase, folder: Path, *, seed: int, kills: int, messages: int
) -> None:
    """Let a storm pass over a server, judge it, and see that the server still stops cleanly."""
    program = program_on(database, folder)
    async with server_child(program, folder) as server:
        hints: list[Hint] = []
        async with (
            open_store(
                database_url=database.admin_url,
                database_app_url=database.app_url,
                data_dir=folder,
                publish=hints.extend,
            ) as (db, _facts),
            gathered(server, db, hints, program=program, folder=folder, seed=seed) as storm,
        ):
            await storm.run(
                lambda: kill_at_random(storm, kills), messages=messages, every_seconds=0.25
            )
        stopped = await server.stop()
        assert (stopped.code, stopped.events[-1]) == (0, {"event": "stopped"})


@pytest.mark.rule(24, 34, 84, 85, 86, 90, 97, 218, 219, 221, 222, 223)
@pytest.mark.parametrize("seed", SEEDS)
async def test_kills_at_random_moments_lose_and_double_nothing(
    own_database: OwnDatabase, tmp_path: Path, seed: int
) -> None:
    """Whatever is killed, each post is stored once, no turn or claim is doubled, results stay."""
    await survive(own_database, tmp_path, seed=seed, kills=5, messages=30)


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG_SEEDS)
async def test_many_kills_at_random_moments_lose_and_double_nothing(
    own_database: OwnDatabase, tmp_path: Path, seed: int
) -> None:
    """The same holds for seeds that nobody chose, for longer."""
    await survive(own_database, tmp_path, seed=seed, kills=25, messages=55)
