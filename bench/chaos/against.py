"""The same clients and ledgers against a plain at-least-once queue, which they must catch.

Who trusts ledgers that found nothing should see them find something: the queue hands out again what
was claimed by a plugin that died, and stores again what was posted to a server that died.
"""

import random
import sys
import time
from pathlib import Path

import attrs
import trio

from bench.chaos.books import Books, read_books
from bench.chaos.cast import make_clients
from bench.chaos.children import ServerChild, environment
from bench.chaos.forms import Form
from bench.chaos.keeper import Keeper
from bench.chaos.ledger import read_all
from bench.chaos.nemeses import Nemeses, Plan
from bench.chaos.outage import measure_outages
from bench.chaos.parties import MESSAGES_PER_PLUGIN, Registered, share
from bench.chaos.scene import Say, storm_folder
from bench.chaos.storm import Outcome
from bench.chaos.verdict import judge_ledgers
from bench.ports import free_port

VISIBLE_SECONDS = 3.0
PRODUCERS = 2
POSTS_SECONDS_MAX = 600.0
QUIET_SECONDS = 2 * VISIBLE_SECONDS + 2
POLL_SECONDS = 1.0


async def run_against_queue(form: Form, say: Say) -> Outcome:
    """Let the storm pass over the queue; its verdict is by the ledgers alone."""
    async with storm_folder() as folder:
        port = free_port()
        queue = ServerChild(
            command=[
                *(sys.executable, "-m", "bench.chaos.queue_server"),
                *(str(port), str(folder / "queue.sqlite3"), str(VISIBLE_SECONDS)),
            ],
            environ=environment({}),
            folder=folder,
            name="queue",
            port=port,
        )
        try:
            await queue.start()
            return await _storm(form, folder, queue, say)
        finally:
            await queue.kill()


async def _storm(form: Form, folder: Path, queue: ServerChild, say: Say) -> Outcome:
    began = time.monotonic()
    # The queue keeps each repeat as an item of its own, and few show it as well as many.
    form = attrs.evolve(form, producers=PRODUCERS)
    counts = [count for each in share(form.messages, form.owners) for count in each]
    own = [_plugin("own", number, count) for number, count in enumerate(counts)]
    shared = [
        _plugin("shared", number, MESSAGES_PER_PLUGIN)
        for number in range(form.shared // MESSAGES_PER_PLUGIN)
    ]
    clients = make_clients(form, folder, queue.port, own=own, shared=shared)
    nemeses = Nemeses(
        plan=Plan(kills=form.kills, minutes=form.minutes),
        random=random.Random(f"nemeses {form.seed}"),
        server=queue,
        cluster=None,
        clients=clients,
        say=say,
    )
    keeper = Keeper()
    try:
        async with trio.open_nursery() as nursery:
            for child in clients:
                nursery.start_soon(keeper.keep, child)
            await nemeses.run()
            wanted = sum(one.messages for one in (*own, *shared))
            await _until_calm(folder, wanted)
            ended = time.monotonic()
            await keeper.close()
            nursery.cancel_scope.cancel()
    finally:
        await keeper.kill_all()
    books = _read(folder)
    verdict = judge_ledgers(books)
    verdict.odd += keeper.faults
    verdict.lost = [
        f"{name} was answered as {one} and nobody was handed it"
        for (_, name), ids in books.posted.items()
        for one in ids
        if one not in books.told
    ]
    return Outcome(
        verdict=verdict,
        outages=measure_outages(books.successes, nemeses.blows, ended=ended),
        blows=nemeses.blows,
        deaths=books.deaths,
        seconds=time.monotonic() - began,
    )


async def _until_calm(folder: Path, wanted: int) -> None:
    """Wait until all is posted, and until nothing was sent (again) for a while."""
    before, since = -1, time.monotonic()
    with trio.move_on_after(POSTS_SECONDS_MAX):
        while time.monotonic() - since < QUIET_SECONDS:
            await trio.sleep(POLL_SECONDS)
            books = _read(folder)
            sent = books.sent.total()
            if sent != before or len(books.posted) < wanted:
                before, since = sent, time.monotonic()


def _read(folder: Path) -> Books:
    return read_books(read_all(folder.glob("*.ledger")))


def _plugin(kind: str, number: int, messages: int) -> Registered:
    name = f"{kind}-p{number}"
    # The queue knows a plugin by its token, whatever that is.
    return Registered(name=name, token=name, messages=messages)
