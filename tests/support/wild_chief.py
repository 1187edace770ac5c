"""A chief whose connection breaks when the test says so, and that writes down every turn it gets.

It files a draft for most turns, answers some with `turn.busy` or `turn.failed`, and comes back at
once after each loss.
"""

import json
import random
from typing import Any

import attrs
import httpx2
import trio
import trio_websocket

from muster.clients.agent.gateway import PATH
from muster.clients.dial import Closed, converse, socket_url
from tests.support.load import Phase, pause
from tests.support.server import MCP_HEADERS, http_client

AGAIN_SECONDS = 0.05
BUSY, FAILED = 0.1, 0.1


@attrs.define(kw_only=True)
class TurnLog:
    """The turns that a chief was handed: each once, whatever became of it."""

    taken: list[str] = attrs.field(factory=list)
    busy: set[str] = attrs.field(factory=set)  # of those, the ones that it turned away
    done: set[str] = attrs.field(factory=set)  # of those, the ones that it completed

    def handed_over(self) -> list[int]:
        """The ids of the messages that it was handed, as often as it was."""
        return [message_of(turn) for turn in self.taken if turn not in self.busy]

    def completed(self) -> set[int]:
        """The ids of the messages whose turn it completed."""
        return {message_of(turn) for turn in self.done}


def read_turns(events: list[dict[str, Any]]) -> TurnLog:
    """Read the events of `muster agent run --json`."""
    log = TurnLog()
    for event in events:
        match event:
            case {"event": "turn.started", "turn_id": str(turn_id)}:
                log.taken.append(turn_id)
            case {"event": "turn.done", "turn_id": str(turn_id)}:
                log.done.add(turn_id)
            case _:
                pass  # a `turn.busy` of the runner's is no turn.started
    return log


def message_of(turn_id: str) -> int:
    """The message that a turn hands over."""
    kind, message_id, _attempt = turn_id.split(":")
    assert kind == "message", turn_id
    return int(message_id)


class WildChief:
    """The chief; `drop` breaks its connection off."""

    def __init__(self, url: str, token: str, phase: Phase, seed: int) -> None:
        self.log = TurnLog()
        self.connections = 0
        self._url = url
        self._token = token
        self._phase = phase
        self._random = random.Random(f"chief {seed}")
        self._life = trio.CancelScope()

    async def run(self) -> None:
        """Come back after each loss until all is over."""
        while not self._phase.closed.is_set():
            with trio.CancelScope() as self._life:
                try:
                    await converse(socket_url(self._url, PATH), self._token, None, self._serve)
                except* (trio_websocket.ConnectionClosed, httpx2.TransportError):
                    pass
            await pause(self._phase.closed, AGAIN_SECONDS)

    def drop(self) -> None:
        """Break off what it does now, its turn too, and leave."""
        self._life.cancel()

    async def _serve(self, socket: trio_websocket.WebSocketConnection) -> Closed:
        self.connections += 1
        async with http_client(self._url, self._token) as http:
            while not self._phase.closed.is_set():
                frame = json.loads(await socket.get_message())
                if frame["type"] == "ping":
                    await _say(socket, "pong")
                elif frame["type"] == "turn":
                    await self._turn(socket, http, frame["turn_id"])
        return Closed(code=1000, reason="all is over")

    async def _turn(
        self,
        socket: trio_websocket.WebSocketConnection,
        http: httpx2.AsyncClient,
        turn_id: str,
    ) -> None:
        self.log.taken.append(turn_id)
        chance = self._random.random()
        if chance < BUSY:
            self.log.busy.add(turn_id)
            await _say(socket, "turn.busy", turn_id=turn_id)
            return
        await _say(socket, "turn.started", turn_id=turn_id)
        if chance < BUSY + FAILED:
            await _say(socket, "turn.failed", turn_id=turn_id, error="the script says so")
            return
        await self._draft(http, message_of(turn_id))
        self.log.done.add(turn_id)
        await _say(socket, "turn.done", turn_id=turn_id, text="")

    async def _draft(self, http: httpx2.AsyncClient, message_id: int) -> None:
        arguments = {"message_id": message_id, "body": f"Noon works, number {message_id}."}
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "reply_draft", "arguments": arguments},
        }
        await http.post("/mcp", json=call, headers=MCP_HEADERS)


async def _say(socket: trio_websocket.WebSocketConnection, kind: str, **members: object) -> None:
    await socket.send_message(json.dumps({"type": kind, **members}))
