"""A storm comes to an end of its own: in its time, past a database that recovers, in a sentence."""

import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from bench.chaos import nemeses, scene
from bench.chaos.books import Books
from bench.chaos.children import ChaosError, ServerChild
from bench.chaos.mail import until_stored
from bench.chaos.nemeses import PAUSE_SECONDS, Nemeses, Plan, until_postgres_is_back
from bench.chaos.parties import Party
from bench.chaos.rows import MessageRow, Rows
from bench.chaos.scene import Scene
from bench.ports import free_port
from muster.errors import Unavailable
from muster.messages.rules import State

DEAF = """trap '' TERM; echo '{"event":"ready"}'; while :; do :; done"""


async def test_the_nemeses_rest_when_the_minutes_are_over(tmp_path: Path) -> None:
    """A pause before a blow that would come too late is cut short, and the blow is not struck."""
    server = ServerChild(
        command=["false"], environ={}, folder=tmp_path, name="server", port=free_port()
    )
    short = Nemeses(
        plan=Plan(kills=5, minutes=PAUSE_SECONDS[0] / 600), random=random.Random(1),
        server=server, cluster=None, clients=[], say=lambda _line: None,
    )  # fmt: skip
    began = time.monotonic()
    await short.run()
    assert time.monotonic() - began < PAUSE_SECONDS[0]
    assert (short.blows, server.lives) == ([], 0)


async def test_a_postgresql_that_stays_away_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PostgreSQL does not come back, the storm ends with a sentence of its own."""
    monkeypatch.setattr(nemeses, "READY_SECONDS_MAX", 0.2)
    with pytest.raises(ChaosError, match="PostgreSQL is not back"):
        await until_postgres_is_back(f"host=127.0.0.1 port={free_port()} dbname=nowhere")


class Recovering(Scene):
    """A scene whose database is not there at the first look, and knows the mail at the third."""

    looks = 0

    async def read_rows_now(self, parties: Sequence[Party]) -> list[Rows]:  # noqa: ARG002
        """One message, at last."""
        await trio.lowlevel.checkpoint()
        Recovering.looks += 1
        if Recovering.looks == 1:
            raise Unavailable("It recovers.")
        row = MessageRow(id=1, external_id="a", state=State.DELIVERED, plugin="mail")
        messages = [row] if Recovering.looks > 2 else []
        return [Rows(messages=messages, drafts=[], audit={})]

    def read_books(self) -> Books:
        """One mail."""
        return Books(injected={("mail", "a"): "<a@home.test>"})


@pytest.mark.usefixtures("autojump_clock")
async def test_who_waits_for_mail_outlasts_a_recovery() -> None:
    """A database that is on its way back is looked at again, until every mail is a message."""
    await until_stored(Recovering.__new__(Recovering), [])
    assert Recovering.looks == 3


async def test_a_server_that_does_not_stop_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that outlives its SIGTERM is told in the verdict, and does not end the storm."""
    monkeypatch.setattr(scene, "STOP_SECONDS_MAX", 0.2)
    deaf = ServerChild(
        command=["/bin/sh", "-c", DEAF], environ={}, folder=tmp_path, name="server",
        port=free_port(),
    )  # fmt: skip
    place = Scene.__new__(Scene)
    place.server = deaf
    try:
        await deaf.start()
        assert await place.stop_server() == ["the server ended with nothing in 0.2 s: "]
    finally:
        await deaf.kill()
