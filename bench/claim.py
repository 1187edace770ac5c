"""Claims: those that only look, those that wait, and what waiting ones cost everybody else."""

import time

import trio

from bench.client import Connection
from bench.measure import Figures, figures, measure
from bench.server import Server

LOOKS = 2000
CLIENTS = 8
PARKED = 400
PLUGINS = 8
WAIT_SECONDS = 8
BESIDE = 1000


async def run(server: Server) -> list[Figures]:
    """Measure claims with nothing to claim."""
    tokens = await server.add_plugins(PLUGINS, prefix="claim")

    async def claim(connection: Connection, number: int, *, wait_seconds: int) -> None:
        answer = await connection.ask(
            "POST",
            "/plugin/v1/drafts/claim",
            token=tokens[number % PLUGINS],
            body={"wait_seconds": wait_seconds},
        )
        assert answer.status == 204, answer

    async def look(connection: Connection, number: int) -> None:
        await claim(connection, number, wait_seconds=0)

    async def health(connection: Connection, number: int) -> None:
        del number
        answer = await connection.ask("GET", "/healthz")
        assert answer.status == 200, answer

    waited: list[float] = []

    async def park(number: int) -> None:
        async with Connection.open(server.port) as connection:
            began = time.perf_counter()
            await claim(connection, number, wait_seconds=WAIT_SECONDS)
            waited.append(time.perf_counter() - began)

    looks = await measure("claim, wait 0", server.port, look, requests=LOOKS, clients=CLIENTS)
    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for number in range(PARKED):
            nursery.start_soon(park, number)
        beside = await measure(
            f"GET /healthz beside {PARKED} claims", server.port, health,
            requests=BESIDE, clients=CLIENTS,
        )  # fmt: skip
    parked = figures(
        f"claim, wait {WAIT_SECONDS} s",
        waited,
        clients=PARKED,
        seconds=time.perf_counter() - began,
    )
    return [looks, parked, beside]
