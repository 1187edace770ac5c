"""Clients that ask one server at once, each its next request when its last was answered."""

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import trio

from bench.client import Connection
from bench.rounds import Stopwatch
from muster.pg import driver

BARE_PATH = "/bare"  # of bench/bare.py

Ask = Callable[[Connection, int], Awaitable[None]]
Play = Callable[[driver.Connection, int], Awaitable[None]]


async def ask_all(
    watch: Stopwatch, port: int, ask: Ask, *, operations: int, clients: int
) -> list[float]:
    """Ask `operations` times over `clients` connections, opened before the watch begins.

    `ask` gets the number of the operation, and raises if the answer is not the one it expects: a
    fast refusal is no figure.
    """
    async with AsyncExitStack() as stack:
        connections = [
            await stack.enter_async_context(Connection.open(port)) for _ in range(clients)
        ]

        async def one(client: int, number: int) -> None:
            await ask(connections[client], number)

        return await share(watch, one, operations=operations, clients=clients)


async def play_all(
    watch: Stopwatch, url: str, play: Play, *, operations: int, clients: int
) -> list[float]:
    """The same with connections to the database."""
    connections = [await driver.Connection.open(url) for _ in range(clients)]
    try:

        async def one(client: int, number: int) -> None:
            await play(connections[client], number)

        return await share(watch, one, operations=operations, clients=clients)
    finally:
        for connection in connections:
            connection.close()


async def share(
    watch: Stopwatch,
    work: Callable[[int, int], Awaitable[None]],
    *,
    operations: int,
    clients: int,
) -> list[float]:
    """Do `work(client, number)` for each number, client by client; the seconds that each took."""
    assert 0 < clients <= operations
    times: list[float] = []

    async def one(client: int) -> None:
        for number in range(client, operations, clients):
            began = time.perf_counter()
            await work(client, number)
            times.append(time.perf_counter() - began)

    with watch:
        async with trio.open_nursery() as nursery:
            for client in range(clients):
                nursery.start_soon(one, client)
    return times
