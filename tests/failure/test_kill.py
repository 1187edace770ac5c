"""kill -9 of the server and of chiefs under load: nothing is lost, and nothing is done twice."""

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.outcomes import Hint
from muster.pg.boot import open_store
from muster.pg.embedded import Embedded
from muster.pg.places import find_places
from tests.support.chaos import server_child
from tests.support.cluster import OwnDatabase
from tests.support.load import pause
from tests.support.program import Program, bare_program, program_on
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
    program: Program,
    folder: Path,
    *,
    seed: int,
    kills: int,
    messages: int,
    urls: tuple[str | None, str | None],
    data_dir: Path,
) -> None:
    """Let a storm pass over a server, judge it, and see that the server still stops cleanly."""
    async with server_child(program, folder) as server:
        hints: list[Hint] = []
        async with (
            open_store(
                database_url=urls[0],
                database_app_url=urls[1],
                data_dir=data_dir,
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
    await survive(
        program_on(own_database, tmp_path),
        tmp_path,
        seed=seed,
        kills=5,
        messages=30,
        urls=(own_database.admin_url, own_database.app_url),
        data_dir=tmp_path,
    )


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG_SEEDS)
async def test_many_kills_at_random_moments_lose_and_double_nothing(
    own_database: OwnDatabase, tmp_path: Path, seed: int
) -> None:
    """The same holds for seeds that nobody chose, for longer."""
    await survive(
        program_on(own_database, tmp_path),
        tmp_path,
        seed=seed,
        kills=25,
        messages=55,
        urls=(own_database.admin_url, own_database.app_url),
        data_dir=tmp_path,
    )


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that the account of an embedded PostgreSQL can reach, and nothing left of it."""
    folder = Path(tempfile.mkdtemp(prefix="muster-kill-"))
    folder.chmod(0o711)
    yield folder
    places = find_places(folder / "data")
    left = Embedded(folder / "data").postmaster
    shutil.rmtree(places.home)
    shutil.rmtree(folder)
    assert left is None, "PostgreSQL outlived the last server"


@pytest.mark.rule(218, 219, 221, 222)
async def test_kills_of_a_server_with_its_own_postgres_lose_nothing(home: Path) -> None:
    """The embedded database outlives its killed server, and the next one takes it up."""
    program = bare_program(home)
    program.environ["MUSTER_DATA_DIR"] = str(home / "data")
    await survive(
        program,
        home,
        seed=8,
        kills=3,
        messages=15,
        urls=(None, None),
        data_dir=home / "data",
    )
