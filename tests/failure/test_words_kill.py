"""kill -9 and SIGTERM of the real server while words are being said: never twice, never lost."""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs

from muster.chief.turns import By, State
from muster.chief.words import Say, say
from muster.pg.database import Database, open_database
from muster.principals import Owner
from tests.support.builders import new_agent
from tests.support.chaos import ServerChild, server_child
from tests.support.cluster import OwnDatabase, add_owner
from tests.support.program import program_on
from tests.support.server import ScriptedAgent
from tests.support.speaking import turns
from tests.support.waiting import until


@attrs.frozen(kw_only=True)
class Office:
    """A server, and an owner with a chief."""

    server: ServerChild
    db: Database
    owner: Owner
    chief_id: int
    chief_token: str

    def agent(self) -> ScriptedAgent:
        """The chief's end of a gateway socket."""
        return ScriptedAgent(self.server.url, self.chief_token)

    async def write(self, text: str) -> None:
        """Say something in another process; its hint reaches no server."""
        command = Say(agent_id=self.chief_id, text=text, by=By.OWNER)
        await self.db.run(self.owner, say, command)

    async def states(self) -> list[State]:
        """What became of all words, oldest first."""
        return [turn.state for turn in await turns(self.db, self.owner)]


@asynccontextmanager
async def opened(database: OwnDatabase, folder: Path) -> AsyncIterator[Office]:
    """A running server on this database, and somebody to work with it."""
    program = program_on(database, folder)
    async with (
        server_child(program, folder, MUSTER_DRAIN="1s") as server,
        open_database(database.app_url, publish=lambda _hints: None, pool_size=2) as db,
    ):
        owner = await add_owner(db)
        chief_id, chief_token = await new_agent(db, owner)
        yield Office(server=server, db=db, owner=owner, chief_id=chief_id, chief_token=chief_token)


async def test_words_in_hand_at_a_kill_are_never_said_again(
    own_database: OwnDatabase, tmp_path: Path
) -> None:
    """They stay delivering until the agent connects anew, which settles them; the rest is said."""
    async with opened(own_database, tmp_path) as office:
        await office.write("one")
        await office.write("two")
        async with office.agent() as agent:
            await agent.next_frame("welcome")
            assert (await agent.next_frame("turn"))["text"].endswith("one")
            await office.server.kill()
        assert await office.states() == [State.DELIVERING, State.QUEUED]
        await office.server.start()
        async with office.agent() as agent:
            await agent.next_frame("welcome")
            turn = await agent.next_frame("turn")
            assert turn["text"].endswith("two")
            assert await office.states() == [State.UNCONFIRMED, State.DELIVERING]
            await agent.send("turn.done", turn_id=turn["turn_id"], text="")

            async def said() -> bool:
                return await office.states() == [State.UNCONFIRMED, State.DELIVERED]

            await until(said)


async def test_words_in_hand_at_a_stop_are_settled(
    own_database: OwnDatabase, tmp_path: Path
) -> None:
    """SIGTERM gives the turn its time, tells the agent to stop and settles it before the end."""
    async with opened(own_database, tmp_path) as office:
        await office.write("one")
        async with office.agent() as agent:
            await agent.next_frame("welcome")
            turn = await agent.next_frame("turn")
            office.server.send(signal.SIGTERM)
            cancel = await agent.next_frame("cancel", 10)
            assert cancel["turn_id"] == turn["turn_id"]
            assert await agent.close_code() == 1001
        stopped = await office.server.stopped()
        assert stopped.code == 0
        assert await office.states() == [State.UNCONFIRMED]
