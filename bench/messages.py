"""Posting messages: new ones, one commit each, and repeats, which only look.

A plugin may post 60 new messages an hour, so the new ones are spread over many plugins.
"""

from bench.client import Connection
from bench.measure import Figures, measure
from bench.server import Server

PLUGINS = 16
NEW_PER_PLUGIN = 50
REPEATS = 2000
CLIENTS = 8
BODY = "Could you send me the figures for the third quarter by noon? Thanks. " * 10


async def run(server: Server) -> list[Figures]:
    """Measure both kinds."""
    tokens = await server.add_plugins(PLUGINS, prefix="post")

    async def post(connection: Connection, number: int, *, expected: int) -> None:
        answer = await connection.ask(
            "POST",
            "/plugin/v1/messages",
            token=tokens[number % PLUGINS],
            body={
                "external_id": f"bench-{number}",
                "sender": "ada@example.test",
                "subject": "Figures",
                "body": BODY,
            },
        )
        assert answer.status == expected, answer

    async def new(connection: Connection, number: int) -> None:
        await post(connection, number, expected=202)

    async def repeat(connection: Connection, number: int) -> None:
        await post(connection, number % (PLUGINS * NEW_PER_PLUGIN), expected=200)

    return [
        await measure(
            "POST messages, new", server.port, new,
            requests=PLUGINS * NEW_PER_PLUGIN, clients=CLIENTS,
        ),
        await measure(
            "POST messages, repeated", server.port, repeat, requests=REPEATS, clients=CLIENTS
        ),
    ]  # fmt: skip
